from __future__ import annotations

import pytest

from osmef.layers.kinds.macvlan import Macvlan, MacvlanSettings
from osmef.scenario.fields import Family
from tests.layers.machines import Machines, check_whole_life


@pytest.mark.parametrize("family", Family)
def test_it_is_raised_carries_and_goes(machines: Machines, family: Family) -> None:
    attached = check_whole_life(machines, lambda: Macvlan(MacvlanSettings()), family)
    assert attached["a"].mtu == 1500
