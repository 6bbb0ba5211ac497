"""Progress as it stands on a terminal."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from osmef.cli.execution import measure, progress_for
from osmef.cli.progress import ProgressObserver
from osmef.engine.plan import Plan, make_plan
from osmef.engine.run import Run
from osmef.errors import ProviderError
from osmef.results.rundir import RunDirectory
from osmef.results.trial import Trial
from osmef.scenario.load import load_text
from osmef.workloads import measures_of
from osmef.workloads.base import Span

TEXT = """
name: a
workload: {duration: 6min}
sweep:
  placement: [same-host]
  tenancy: [different-tenant]
  connections: [10]
repeat: 24
"""


@pytest.fixture
def plan() -> Plan:
    return make_plan(load_text(TEXT, Path("a.yaml")))


def shown(plan: Plan, width: int, expected_s: float, wait_s: float = 0.0) -> str:
    """Return the last line of a terminal while the first trial runs."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=width, color_system=None)
    now = 100.0
    with progress_for(console, False, False, lambda: now) as observer:
        observer.measuring(len(plan.trials), Span(expected_s, expected_s), [])
        now += wait_s
        observer.trial_started(plan.trials[0])
        observer.rate(plan.trials[0], 9.25e8)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", file.getvalue())
    return next(line for line in reversed(re.split(r"[\r\n]", text)) if line.strip())


@pytest.mark.parametrize("measured", [True, False])
def test_what_was_not_begun_is_run_again_after_a_change(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, measured: bool
) -> None:
    def execute(_run: Run) -> None:
        raise ProviderError("the interface eth7 has no address", cure="check the name")

    monkeypatch.setattr(Run, "execute", execute)
    with RunDirectory.create(tmp_path, "a", TEXT, ".yaml") as directory:
        if measured:
            directory.trials.touch()
        with pytest.raises(ProviderError) as caught:
            measure(plan, directory, verbose=0, as_json=False, figures=False)
    cure = f"check the name; osmef resume {directory.path} goes on with the run"
    more = " unchanged; after a change of scenario or inventory, start a new run"
    assert caught.value.cure == cure + more * (not measured)


@pytest.mark.parametrize("width", [50, 80, 200])
def test_count_rate_and_time_left_are_never_cut_off(plan: Plan, width: int) -> None:
    line = shown(plan, width, 8640.0)
    for part in ("0/24", "925 Mbit/s", "2 h 24 min left"):
        assert part in line, line
    assert len(line.rstrip()) <= width


@pytest.mark.parametrize(
    ("workload", "metrics", "told"),
    [
        ("btc", {"jain_fairness": 1.0, "aggregate_btc_bps": 9.41e9}, ": 9.41 Gbit/s"),
        ("latency", {"rtt_min_us": 20.0, "rtt_p50_us": 31.4}, ": RTT p50 31.4 µs"),
        ("size-sweep", {"latency_min_us": 4.0, "throughput_max_bps": 2e9}, ": 2 Gbit/s"),
        ("pingpong", {"time_p50_us": 1e4, "goodput_bps": None}, ": time p50 10 ms"),
        ("stream", {"triad_bytes_per_s": 2.194e10}, ": triad 21.9 GB/s"),
        ("udp", {"sent_bps": 1e9}, ""),
    ],
)
def test_the_result_of_a_trial_is_what_leads(
    workload: str, metrics: dict[str, float | None], told: str
) -> None:
    plan = make_plan(load_text(f"name: a\nworkload: {workload}\n", Path("a.yaml")))
    file = io.StringIO()
    trial = Trial(
        index=1, cell="all", repetition=1, group=1, values={}, senders=["s"], receivers=["r"],
        placement=None, tenancy=None, distance=None, workload=workload, started_at=None,
        wall_s=None, status="ok", metrics=metrics,
    )  # fmt: skip
    with progress_for(Console(file=file, width=200), False, False) as observer:
        observer.measuring(
            1, Span(10.0, 10.0), measures_of(cell.cell.scenario for cell in plan.cells)
        )
        observer.trial_ended(trial)
    assert f"[1/1] trial 1{told}, done" in file.getvalue()


def test_the_time_left_of_trials_that_may_end_early_is_an_upper_bound(plan: Plan) -> None:
    with progress_for(Console(file=io.StringIO()), False, False, lambda: 100.0) as observer:
        assert isinstance(observer, ProgressObserver)
        observer.measuring(len(plan.trials), Span(None, 5400.0), [])
        assert observer.left() == "at most 1 h 30 min left"
        observer.count()
        assert observer.left() == "< 1 s left"


def test_a_trial_begins_without_the_rate_of_the_one_before(plan: Plan) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=100, color_system=None)
    with progress_for(console, False, False, lambda: 100.0) as observer:
        observer.measuring(len(plan.trials), Span(100.0, 100.0), [])
        observer.trial_started(plan.trials[0])
        observer.rate(plan.trials[0], 9.25e8)
        observer.trial_started(plan.trials[1])
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", file.getvalue())
    last = next(line for line in reversed(re.split(r"[\r\n]", text)) if line.strip())
    assert "925 Mbit/s" in shown(plan, 100, 100.0)
    assert "Mbit/s" not in last


def test_a_trial_that_measures_round_trips_shows_the_latest(plan: Plan) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=100, color_system=None)
    with progress_for(console, False, False, lambda: 100.0) as observer:
        observer.measuring(len(plan.trials), Span(100.0, 100.0), [])
        observer.trial_started(plan.trials[0])
        observer.round_trip(plan.trials[0], 64.23)
    assert "RTT 64.2 µs" in file.getvalue()


def test_a_trial_of_requests_shows_how_many_a_second(plan: Plan) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=100, color_system=None)
    with progress_for(console, False, False, lambda: 100.0) as observer:
        observer.measuring(len(plan.trials), Span(100.0, 100.0), [])
        observer.trial_started(plan.trials[0])
        observer.request_rate(plan.trials[0], 30810.4)
    assert "30,810 requests/s" in file.getvalue()


def test_no_number_of_trials_is_shown_before_it_is_known() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80, color_system=None)
    with progress_for(console, False, False, lambda: 100.0) as observer:
        observer.activity("provisioning 2 endpoints")
    assert "provisioning 2 endpoints" in file.getvalue()
    assert "?" not in file.getvalue().replace("[?25", "")


def test_the_running_trial_is_shown_in_short(plan: Plan) -> None:
    assert "same-host, different-tenant, connections=10" in shown(plan, 100, 24.0)


def test_the_time_left_decreases_within_a_trial(plan: Plan) -> None:
    assert "24 s left" in shown(plan, 80, 24.0)
    assert "19 s left" in shown(plan, 80, 24.0, wait_s=5.0)
    assert "< 1 s left" in shown(plan, 80, 24.0, wait_s=30.0)


@pytest.mark.parametrize(
    ("planned", "told"),
    [
        (Span(0.4, 0.4), "1 trial, less than a second"),
        (Span(26.2, 26.2), "1 trial, about 26 s"),
        (Span(26.2, 300.0), "1 trial, about 26 s, at most 5 min"),
        (Span(None, 5400.0), "1 trial, at most 1 h 30 min"),
    ],
)
def test_a_log_shows_the_planned_duration_of_all_trials(planned: Span, told: str) -> None:
    file = io.StringIO()
    with progress_for(Console(file=file, width=80), False, False) as observer:
        observer.measuring(1, planned, [])
    assert file.getvalue() == f"measuring: {told}\n"
