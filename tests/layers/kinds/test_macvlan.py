from __future__ import annotations

import pytest

from osmef.layers.host import DuplicateError, try_address
from osmef.layers.kinds.virtual_ethernet import Macvlan, MacvlanSettings
from osmef.scenario.fields import Family
from tests.layers.machines import Machines, check_whole_life


@pytest.mark.parametrize("family", Family)
def test_the_layer_is_set_up_carries_traffic_and_is_removed(
    machines: Machines, family: Family
) -> None:
    attached = check_whole_life(machines, lambda: Macvlan(MacvlanSettings()), family)
    assert attached["a"].mtu == 1500


@pytest.mark.parametrize("family", Family)
def test_an_address_in_use_on_the_link_is_not_taken(machines: Machines, family: Family) -> None:
    underlay = machines.underlay(family)
    machines.on("b", "ip", "netns", "add", "theirs")
    for line in (
        "link add stranger link data0 type macvlan mode bridge",
        "link set dev stranger netns theirs address 52:54:00:00:00:99",
    ):
        machines.on("b", "ip", *line.split())
    for line in (
        "link set dev stranger up",
        f"address add {underlay.inner['a']}/{underlay.width} dev stranger"
        + (" nodad" if family is Family.IPV6 else ""),
    ):
        machines.on("b", "ip", "-n", "theirs", *line.split())
    before = machines.state()
    with pytest.raises(DuplicateError, match=f"{underlay.inner['a']} is in use") as refused:
        Macvlan(MacvlanSettings()).up(underlay)
    assert refused.value.where == "a"
    if family is Family.IPV4:
        assert "52:54:00:00:00:99" in refused.value.message
    machines.lower()
    with pytest.raises(DuplicateError, match="is in use on its link"):
        try_address(machines.hosts["a"], "data0", underlay.inner["a"], underlay.width)
    try_address(machines.hosts["a"], "data0", underlay.gateway, underlay.width)
    machines.lower()
    assert machines.state() == before
