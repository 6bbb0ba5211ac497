"""README's first measurement, with shorter trials."""

from __future__ import annotations

from tests.cli.conftest import ROOT, Osmef


def test_the_quickstart_measures_each_distance(osmef: Osmef) -> None:
    scenario = str(ROOT / "scenarios" / "quickstart.yaml")
    ended = osmef("run", scenario, "--set", "workload.duration=100ms", "--set", "repeat=1")
    assert ended.code == 0, ended.err
    summary = osmef.summary
    assert {cell["distance"] for cell in summary["cells"]} == {0, 2, 4}
    assert all(cell["metrics"]["aggregate_btc_bps"]["median"] > 0 for cell in summary["cells"])
