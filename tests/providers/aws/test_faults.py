"""What EC2 does wrong, and what OSMeF makes of it."""

from __future__ import annotations

import signal

from tests.aws.cloud import Fault
from tests.providers.aws.conftest import Lab

RUN = "RunInstances"


def test_the_next_zone_is_taken_where_one_has_no_room(lab: Lab) -> None:
    one = Fault(RUN, "InsufficientInstanceCapacity", 500)
    lab.cloud.faults.append(one)
    ended = lab("run", lab.write(placement="different-host"))
    assert ended.code == 0, ended.err
    assert "no room in" in ended.err
    zones = {end["achieved"]["zone"] for end in lab.summary["endpoints"]}
    assert len(zones) == 1
    assert lab.owned() == []


def test_killed_before_the_answer_leaves_what_reap_finds(lab: Lab) -> None:
    lab.cloud.faults.append(
        Fault(
            RUN,
            "InternalError",
            500,
            after=True,
            then=lambda: lab.osmef.started[0].send_signal(signal.SIGKILL),
        )
    )
    assert lab("run", lab.write()).code == -signal.SIGKILL
    assert any(one.startswith("instance ") for one in lab.owned())
    ended = lab("reap", "--yes")
    assert ended.code == 0, ended.err
    assert lab.owned() == []
