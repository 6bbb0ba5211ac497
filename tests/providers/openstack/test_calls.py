"""What a run asks of the APIs: no more than it needs, and in an order that costs them little."""

from __future__ import annotations

import re

import openstack
import pytest

from tests.openstack.calls import recorded
from tests.providers.openstack.lab import Lab

pytestmark = pytest.mark.timeout(1200)  # the first test waits for the cloud

THINGS = re.compile(r"/v2[.0-9]*/(servers|floatingips)(/[0-9a-f-]{36}(/action)?)?$")


def test_servers_are_listed_together_built_once_and_their_addresses_go_after_them(lab: Lab) -> None:
    with recorded(lab.cloud) as calls:
        ended = lab("run", lab.write(sweep={"placement": ["same-host", "different-host"]}))
    assert ended.code == 0, ended.err
    found = [(call.method, THINGS.match(call.path)) for call in calls]
    asked = [f"{method} {thing[1]}{thing[3] or ''}" for method, thing in found if thing is not None]
    made = ["POST servers"] * 4 + ["POST floatingips"] * 4
    assert sorted(asked[:8]) == sorted(made)
    assert asked[8:] == ["POST servers/action"] * 4 + ["DELETE floatingips"] * 4
    assert len([call for call in calls if "/servers/detail" in call.path]) <= 3
    assert set(builds_of(lab)) == {1}


def builds_of(lab: Lab) -> list[int]:
    """Return how often nova began to build each server of the run.

    Two of one group that are asked for at once come apart more often than not, which nova notes
    when it builds the second one, and builds it again elsewhere.
    """
    lines = lab.osmef.journal
    made = [one["resource"] for one in lines if one["event"] == "created"]
    builds = []
    with openstack.connect(cloud="admin") as admin:
        for server in [thing["id"] for thing in made if thing["kind"] == "server"]:
            actions = list(admin.compute.server_actions(server))
            (create,) = [action for action in actions if action.action == "create"]
            events = admin.compute.get_server_action(create.request_id, server).events or []
            names = [event["event"] for event in events]
            builds.append(names.count("compute__do_build_and_run_instance"))
    return builds
