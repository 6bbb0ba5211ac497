from __future__ import annotations

import pytest

from osmef.layers.kinds.tunnels import Gre, GreSettings
from osmef.scenario.fields import Family
from tests.layers.machines import Machines, check_whole_life


@pytest.mark.parametrize("family", Family)
def test_the_layer_is_set_up_carries_traffic_and_is_removed(
    machines: Machines, family: Family
) -> None:
    attached = check_whole_life(machines, lambda: Gre(GreSettings()), family)
    assert attached["a"].mtu == 1500 - {Family.IPV4: 28, Family.IPV6: 48}[family]
