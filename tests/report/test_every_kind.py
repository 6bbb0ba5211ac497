"""Every kind of figure, really drawn by `osmef plot` from one real session of all workloads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from osmef.campaigns.executors.session import SessionJob, measure
from osmef.engine.cancellation import CancellationToken
from osmef.engine.events import Observer
from osmef.report.figures import KINDS
from osmef.report.html.page import write_report
from osmef.report.options import FigureKind
from tests.cluster import bundle_in, scenario
from tests.invoked import invoke

SCENARIO = """
name: everything
provider: local
placement: same-host
sweep:
  workload:
    - {kind: btc, duration: 200ms, interval: 50ms}
    - {kind: udp, duration: 200ms, interval: 50ms, rate: 10Mbit/s}
    - {kind: latency, duration: 200ms}
    - {kind: size-sweep, max: 4KiB, point: 10ms}
    - {kind: pingpong, max: 10kB, repetitions: 1, coverage: 0.001}
repeat: 2
"""
PAIR = """
name: pair
provider: local
placement: same-host
sweep: {connections: [1, 2]}
workload: {kind: btc, duration: 200ms, interval: 50ms}
repeat: 2
"""
COURSE = """
name: course
provider: local
placement: same-host
workload: {kind: latency, duration: 300ms, idle: 100ms, interval: 100ms}
background: {kind: btc, direction: both, interval: 100ms}
lead: 100ms
repeat: 1
"""
BUCKET = """
name: bucket
provider: {kind: local, link_rate: 200Mbit/s, burst: 20MB, sustained_rate: 20Mbit/s}
workload: {kind: btc, until: knee, duration: 1min, interval: 200ms, refill: [1s]}
"""
PRICES = "- {provider: local, flavor: small, per_hour: 0.1 EUR, date: 2026-01-01, source: ours}\n"
MACHINES = """provider,flavor,threads,cpu_s,memory_mb,memory_mb_per_s,\
disk_read_mb_per_s,disk_write_mb_per_s,network_mb_per_s
aws,a,1,2,3,4,5,6,7
gce,b,7,6,5,4,3,2,1
"""
RUNS = {
    FigureKind.SIMILARITY: ["machines.csv"],
    FigureKind.TOPOLOGY: ["runs/run-0"],
    FigureKind.SCALE_RATE: ["cluster"],
    FigureKind.SCALE_TIME: ["cluster"],
    FigureKind.LAYERS: ["layers"],
    FigureKind.COURSE: ["course"],
    FigureKind.BUCKET: ["bucket"],
}
OPTIONS = {
    FigureKind.PRICE: ("--prices", "prices.yaml"),
    FigureKind.COV: ("--metric", "aggregate_btc_bps"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Measure two sessions of a campaign, each with every workload, on this machine's cloud."""
    path = tmp_path_factory.mktemp("everything")
    (path / "prices.yaml").write_text(PRICES)
    (path / "machines.csv").write_text(MACHINES)
    for number in range(2):
        _measure(SCENARIO, "everything.yaml", path / "runs" / f"run-{number}", number)
    _measure(PAIR, "pair.yaml", path / "layers" / "run-0", 0)
    _measure(COURSE, "course.yaml", path / "course" / "run-0", 0)
    _measure(BUCKET, "bucket.yaml", path / "bucket" / "run-0", 0)
    found = (path / "bucket" / "run-0" / "trials.jsonl").read_text()
    assert json.loads(found)["buckets"][0]["emptied"], found
    _with_layers(path / "layers" / "run-0" / "trials.jsonl")
    _measure(scenario(bundle_in(path)), "cluster.json", path / "cluster" / "run-0", 0)
    return path


def _with_layers(path: Path) -> None:
    """Take two connections for a layer, so that there is one whatever this machine can raise."""
    trials = [json.loads(line) for line in path.read_text().splitlines()]
    for trial in trials:
        trial["values"] = {"layer": "bare" if trial["connections"] == 1 else "vxlan"}
    path.write_text("".join(f"{json.dumps(trial)}\n" for trial in trials))


def _measure(text: str, file: str, run: Path, number: int) -> None:
    stop = CancellationToken()
    work = SessionJob(
        session=number, slot=f"day {number}", window="always", platform="everything",
        text=text, file=file, directory=str(run), seed=number,
    )  # fmt: skip
    measure(work, stop, Observer())
    stop.close()
    trials = [json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines()]
    assert [one["failure"] for one in trials] == [None] * len(trials), file


@pytest.mark.parametrize("kind", KINDS)
def test_it_can_be_drawn(kind: FigureKind, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    runs = RUNS.get(kind, ["runs"])
    words = ["plot", kind.value, *runs, *OPTIONS.get(kind, ()), "-o", f"{kind}.svg"]
    done = invoke(*words)
    assert done.exit_code == 0, done.output
    assert "<svg" in (place / f"{kind}.svg").read_text()


def test_real_sessions_are_compared_as_sessions(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    done = invoke("compare", "runs", "runs", "--metric", "aggregate_btc_bps", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["unit"] == "sessions"
    assert [(row["n_a"], row["n_b"]) for row in told["rows"]] == [(2, 2)]


def test_every_figure_kind_is_registered() -> None:
    assert set(KINDS) == set(FigureKind)


def test_the_page_of_a_run_shows_what_it_was(place: Path) -> None:
    output = place / "report.html"
    write_report([place / "runs/run-0"], output)
    page = output.read_text(encoding="utf-8")
    for words in ("Rate over time", "Endpoints in their hosts", "Aggregate BTC"):
        assert f'aria-label="{words}' in page
