"""What a run asks of the APIs: no more than it needs, and in an order that costs them little."""

from __future__ import annotations

import re

import pytest

from tests.openstack.calls import recorded
from tests.providers.openstack.lab import Lab

pytestmark = pytest.mark.timeout(1200)  # the first test waits for the cloud

THINGS = re.compile(r"/v2[.0-9]*/(servers|floatingips)(/[0-9a-f-]{36})?$")


def test_servers_are_listed_together_and_their_addresses_go_after_them(lab: Lab) -> None:
    with recorded(lab.cloud) as calls:
        ended = lab("run", lab.write(sweep={"placement": ["same-host", "different-host"]}))
    assert ended.code == 0, ended.err
    found = [(call.method, THINGS.match(call.path)) for call in calls]
    asked = [f"{method} {thing[1]}" for method, thing in found if thing is not None]
    made = ["POST servers"] * 4 + ["POST floatingips"] * 4
    assert sorted(asked[:8]) == sorted(made)
    assert asked[8:] == ["DELETE servers"] * 4 + ["DELETE floatingips"] * 4
    assert len([call for call in calls if "/servers/detail" in call.path]) <= 3
