from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from osmef.scenario.clouds.openstack import OpenStackSettings, Reach

IMAGE = {"image": "debian"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "boot"),
        ({"boot": {}}, "one thing"),
        ({"boot": {"image": "a", "volume": "b"}}, "one thing"),
        ({"boot": IMAGE, "reach": "jump"}, "no jump host"),
        ({"boot": IMAGE, "jump": "gate"}, "can't be known"),
        ({"boot": IMAGE, "placement_by": "zone"}, "needs zones"),
        ({"boot": IMAGE, "controller_cidr": "198.51.100.7/24"}, "no block"),
        ({"boot": IMAGE, "projects": "some"}, "projects"),
    ],
)
def test_settings_that_contradict_each_other(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        OpenStackSettings(**settings)


@pytest.mark.parametrize(
    ("settings", "way"),
    [
        ({}, Reach.FLOATING),
        ({"network": "lan"}, Reach.DIRECT),
        ({"network": "lan", "reach": "floating"}, Reach.FLOATING),
        ({"jump": "gate", "controller_cidr": "198.51.100.7"}, Reach.JUMP),
        ({"jump": "gate", "reach": "direct"}, Reach.DIRECT),
    ],
)
def test_the_ssh_reach_of_servers_follows_the_settings(
    settings: dict[str, Any], way: Reach
) -> None:
    assert OpenStackSettings(boot=IMAGE, **settings).way_in is way
