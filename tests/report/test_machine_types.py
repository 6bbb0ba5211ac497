"""What runs tell of machine types."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from osmef.errors import NothingToDrawError
from osmef.report.data import Data
from osmef.report.machine_types import machines_of, similar_machines
from osmef.results.rundir import RunDirectory

SAMPLE = Path(__file__).parents[1] / "results" / "data" / "quickstart-20261121T031500Z-3f9a"
MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Make a run between two machines of one flavor, with two cells."""

    def make(
        name: str, flavor: str, rates: tuple[float, float], *, memory: int | None = 4_000_000_000
    ) -> Path:
        path = tmp_path / name
        shutil.copytree(SAMPLE, path)
        run = RunDirectory(path)
        summary, first = run.read_summary(), run.read_trials().trials[0]
        facts = {"before": {"memory": {"total_bytes": memory}}}
        ends = [
            end.model_copy(update={"flavor": flavor, "vcpus": 2, "facts": facts})
            for end in summary.endpoints
        ]
        whole = summary.run.model_copy(update={"provider": name})
        run.write_summary(summary.model_copy(update={"endpoints": ends, "run": whole}))
        trials = [
            first.model_copy(update={"index": n, "cell": f"{n // 3}",
                                     "metrics": {"aggregate_btc_bps": rates[n // 3]}})
            for n in range(6)
        ]  # fmt: skip
        run.trials.write_text("".join(f"{trial.model_dump_json()}\n" for trial in trials))
        return path

    return make


def test_runs_tell_cpus_memory_and_the_best_rate(make_run: MakeRun) -> None:
    data = Data(make_run("aws", "m5", (8e8, 1.6e9)))
    table = machines_of(data).groupby(["provider", "flavor"]).median().reset_index()
    assert table.to_dict("records") == [
        {"provider": "aws", "flavor": "m5", "threads": 2.0, "memory_mb": 4000.0,
         "network_mb_per_s": 200.0}
    ]  # fmt: skip


def test_only_what_all_machine_types_have_is_compared(make_run: MakeRun) -> None:
    aws, gce = make_run("aws", "m5", (8e8, 8e8)), make_run("gce", "n2", (8e8, 1.6e9))
    matrix = similar_machines(Data(aws, gce))
    assert matrix.attrs["components"] == ["threads", "memory_mb", "network_mb_per_s"]
    assert matrix.loc[("aws", "m5"), ("gce", "n2")] == pytest.approx(1 - 0.25 / 3)
    other = make_run("azure", "d2", (8e8, 8e8), memory=None)
    found = similar_machines(Data(aws, other))
    assert found.attrs["components"] == ["threads", "network_mb_per_s"]
    with pytest.raises(NothingToDrawError, match="two machine types"):
        similar_machines(Data(aws))
