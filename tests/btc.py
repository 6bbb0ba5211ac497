"""The settings of a scenario's bulk transfer."""

from __future__ import annotations

from osmef.scenario.model import Scenario
from osmef.workloads.kinds.btc import BtcSettings


def btc_of(scenario: Scenario) -> BtcSettings:
    assert isinstance(scenario.workload, BtcSettings)
    return scenario.workload
