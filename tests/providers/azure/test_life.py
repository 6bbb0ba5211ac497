"""Whole runs: from the first call of the API to a number, and nothing is left."""

from __future__ import annotations

from tests.providers.azure.conftest import Lab


def test_a_run_makes_measures_and_leaves_nothing(lab: Lab) -> None:
    ended = lab("run", lab.write())
    assert ended.code == 0, ended.err
    (cell,) = lab.summary["cells"]
    assert cell["metrics"]["aggregate_btc_bps"]["median"] > 0
    assert lab.owned() == []
    assert lab.arm.things == {}
