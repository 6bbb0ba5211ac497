"""What trials say against their own numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from osmef.engine.check import warnings_from_metrics
from osmef.engine.plan import make_plan
from osmef.engine.summarise import (
    contended_cells,
    offered_rate_findings,
    overlap_findings,
    short_backgrounds,
    short_intervals,
)
from osmef.results.trial import Status, Trial
from osmef.scenario.load import load_text


def trials(*metrics: Mapping[str, float | None]) -> list[Trial]:
    return [
        Trial(
            index=number, cell="all", repetition=number, group=1, values={}, senders=["a"],
            receivers=["b"], placement=None, tenancy=None, distance=None, connections=1,
            workload="btc", started_at=None, wall_s=None, status=Status.OK, metrics=dict(told),
        )
        for number, told in enumerate(metrics, start=1)
    ]  # fmt: skip


def busy(*others: float, steal: float = 0.0) -> list[Trial]:
    return trials(*({"cpu_others_percent": one, "cpu_steal_percent": steal} for one in others))


def test_machines_that_others_used_are_named_with_the_worst_trial() -> None:
    (note,) = contended_cells({"a": busy(70.0, 80.0, 2.0), "b": busy(1.0, 3.0)})
    assert "1 of 2 cells" in note
    assert "other programs used 80 % of an endpoint's CPUs" in note


def test_an_idle_machine_is_not_reported_as_contended() -> None:
    assert contended_cells({"a": busy(1.0, 95.0, 3.0), "b": []}) == []
    assert contended_cells({"a": trials({"cpu_others_percent": None}, {})}) == []


def test_cpu_steal_is_reported() -> None:
    (note,) = contended_cells({"a": busy(0.0, 0.0, steal=25.0)})
    assert "the hypervisor gave 25 %" in note
    assert "in 1 of 1 cell:" in note


def test_senders_below_the_offered_rate_are_reported() -> None:
    rates = [{"offered_bps": 6e7, "sent_bps": sent} for sent in (4.5e7, 6e7)]
    beside = {"background_offered_bps": 1e8, "background_sent_bps": 2e7}
    (note,) = offered_rate_findings({"a": trials(*rates), "b": trials(beside)})
    assert "in 2 of 3 trials less than 95 %" in note
    assert "20 % in the worst" in note
    told = ({"offered_bps": 6e7, "sent_bps": 5.8e7}, {"offered_bps": None, "sent_bps": 1e7})
    assert offered_rate_findings({"a": trials(*told, {"offered_bps": 6e7, "sent_bps": None})}) == []


def test_trials_below_the_offered_rate_are_counted_and_not_their_directions() -> None:
    forward = {"offered_bps": 6e7, "sent_bps": 3e7}
    both = forward | {"back_offered_bps": 6e7, "back_sent_bps": 1.5e7}
    (note,) = offered_rate_findings({"a": trials(forward), "b": trials(both, both)})
    assert "in 3 of 3 trials" in note
    assert "25 % in the worst" in note


def test_a_short_common_interval_is_reported() -> None:
    told = trials({"common_percent": 57.8}, {"common_percent": 99.0}, {"common_percent": None})
    (note,) = short_intervals({"all": told})
    assert "in 1 of 2 trials" in note
    assert "58 % in the worst" in note
    assert short_intervals({"all": trials({"common_percent": 80.0}, {})}) == []


def test_a_background_that_ended_before_the_measurement_is_reported() -> None:
    told = [
        {"program_s": 10.0, "background_program_s": seconds} for seconds in (0.1, 7.9, 8.0, 10.5)
    ]
    found = [one.model_copy(update={"background": "program"}) for one in trials(*told, {})]
    (note,) = short_backgrounds({"all": found}, {"all": 0.0})
    assert "in 2 of 4 trials the background ran for less than 80 %" in note
    assert "1 % in the worst" in note
    none = {"all": 0.0, "alone": 0.0}
    assert short_backgrounds({"all": found[2:], "alone": trials(*told)}, none) == []


def test_what_a_background_runs_before_the_measurement_does_not_count() -> None:
    told = [{"program_s": 10.0, "background_program_s": seconds} for seconds in (10.0, 18.0)]
    found = [one.model_copy(update={"background": "program"}) for one in trials(*told)]
    (note,) = short_backgrounds({"all": found}, {"all": 10.0})
    assert "in 1 of 2 trials" in note
    assert "0 % in the worst" in note


def test_a_warning_of_a_workload_about_its_numbers_is_reported_once() -> None:
    text = "name: test\nworkload: {kind: stream, program: /opt/stream}\nendpoints: {loopback: {}}\n"
    cells = make_plan(load_text(text, Path("test.yaml"))).cells
    rates = {"triad_bytes_per_s": 1e9, "array_caches": 1.5}
    done = trials(rates, rates)
    (note,) = warnings_from_metrics(cells, {cells[0].cell.key: done})
    assert "1.50 times the size of all last-level caches" in note
    failed = [one.model_copy(update={"status": Status.FAILED}) for one in done]
    assert warnings_from_metrics(cells, {cells[0].cell.key: failed, "another": done}) == []


def test_pairs_that_ran_at_different_times_are_a_note() -> None:
    shares = (0.0, 79.9, 80.0, None)
    (note,) = overlap_findings({"all": trials(*({"overlap_percent": one} for one in shares))})
    assert "in 2 of 3 trials" in note
    assert "0 % in the worst" in note
    assert overlap_findings({"all": trials({"overlap_percent": 100.0}, {})}) == []


@pytest.mark.parametrize("is_staggered", [True, False])
def test_a_shorter_stagger_is_advised_only_where_there_is_one(*, is_staggered: bool) -> None:
    """With ``bytes`` no duration makes them run longer."""
    short = {"all": trials({"overlap_percent": 51.0})}
    (note,) = overlap_findings(short, is_staggered=is_staggered)
    advice = "let them run longer, by duration or bytes"
    assert note.endswith(f"{advice}, or stagger shorter" if is_staggered else advice)
