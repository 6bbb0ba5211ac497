"""The life of a run on Compute Engine: from the API's calls to a number, and all gone after it."""

from __future__ import annotations

import signal
from typing import Any

from tests.providers.gce.lab import Lab


def test_run_measures_on_different_hosts_and_leaves_nothing(lab: Lab) -> None:
    ended = lab("run", lab.write(placement="different-host"))

    assert ended.code == 0, ended.err
    (cell,) = lab.summary["cells"]
    assert (cell["n_ok"], cell["achieved_placement"], cell["distance"]) == (1, "different-host", 2)
    assert lab.owned() == []


def test_killed_run_is_reaped(lab: Lab) -> None:
    process = lab.start("run", lab.write())
    lab.osmef.until(process, "waiting for SSH")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    left = lab.owned()

    ended = lab("reap", "--yes")

    assert {"instance", "network", "subnet", "firewall"} <= {one.split()[0] for one in left}
    assert ended.code == 0, ended.err
    assert lab.owned() == []


def test_other_zone_is_tried_where_one_has_no_room(lab: Lab) -> None:
    full: dict[str, Any] = {
        "code": "ZONE_RESOURCE_POOL_EXHAUSTED",
        "message": "The zone does not have enough resources available.",
        "status": 503,
    }
    with lab.cloud.fault("operation", "insert .*here-1-a/instances", **full):
        ended = lab("run", lab.write())

    assert ended.code == 0, ended.err
    places = [end["achieved"] for end in lab.summary["endpoints"]]
    assert {place["zone"] for place in places} == {"here-1-b"}
    assert lab.owned() == []
