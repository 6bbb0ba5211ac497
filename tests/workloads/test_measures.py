"""What workloads say of their numbers."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from osmef.errors import InputError
from osmef.results.measure import Better, Measure, merge_measures, of_background, shown_unit
from osmef.scenario.load import load_text
from osmef.workloads import TrialWorkload, measures_of

WORKLOADS = (
    "{kind: btc, direction: both}",
    "{kind: latency}",
    "{kind: size-sweep}",
    "{kind: udp, direction: both}",
    "{kind: pingpong}",
)
BACKGROUNDS = ("", "btc", "latency", "udp")
BOTH = [
    (workload, background)
    for workload, background in product(WORKLOADS, BACKGROUNDS)
    if "pingpong" not in workload or not background  # which it can't have
]


def declared(workload: str, background: str = "") -> tuple[Measure, ...]:
    beside = f"background: {{kind: {background}}}" if background else ""
    text = f"name: a\nworkload: {workload}\n{beside}"
    return TrialWorkload(load_text(text, Path("a.yaml")).scenario).measures


@pytest.mark.parametrize(("workload", "background"), BOTH)
def test_every_metric_is_fully_described(workload: str, background: str) -> None:
    measures = declared(workload, background)
    assert max(Counter(one.name for one in measures).values()) == 1
    assert [one.name for one in measures if not one.help or "\n" in one.help] == []
    assert [one.name for one in measures if not one.source or one.unit is None] == []
    first = next(one for one in measures if one.leading)
    assert first.head is not None
    assert first.better is not Better.NEITHER


@pytest.mark.parametrize(("workload", "background"), BOTH)
def test_no_two_metrics_are_called_alike(workload: str, background: str) -> None:
    """A table of a comparison has only their words."""
    words = Counter(one.words for one in declared(workload, background))
    assert [one for one, count in words.items() if count > 1] == []


def test_one_name_means_the_same_in_all_workloads() -> None:
    lists = [(text, declared(text, beside)) for text, beside in BOTH]
    assert len(merge_measures(lists)) > 100


def test_a_sweep_over_workloads_has_the_measures_of_all() -> None:
    text = "name: a\nsweep: {workload: [{kind: btc}, {kind: udp}]}"
    cells = load_text(text, Path("a.yaml")).cells
    measures = {one.name: one for one in measures_of(cell.scenario for cell in cells)}
    assert {"aggregate_btc_bps", "goodput_bps"} < measures.keys()
    assert measures["jain_fairness"].head == "J", "as one of them shows it"


RATE = Measure(name="x", unit="bit/s", better="higher", help="how fast", head="x", leading=True)


@pytest.mark.parametrize(
    ("change", "told"),
    [({"unit": "B/s"}, "bit/s in a, and in B/s in b"), ({"better": "lower"}, "higher in a, and")],
)
def test_contradicting_declarations_of_a_metric_are_rejected(
    change: dict[str, str], told: str
) -> None:
    other = RATE.model_validate({**RATE.model_dump(), **change})
    with pytest.raises(InputError, match=f"x is (in|better) {told}"):
        merge_measures([("a", [RATE]), ("b", [other])])


def test_unknown_parts_of_a_metric_are_taken_from_other_runs() -> None:
    rough = Measure(name="x", unit=None, better="neither")
    for lists in ([rough], [RATE]), ([RATE], [rough]):
        (found,) = merge_measures(zip("ab", lists, strict=True)).values()
        known = (found.unit, found.better, found.head, found.leading)
        assert known == ("bit/s", Better.HIGHER, "x", True)


def test_metrics_of_a_background_have_their_own_names() -> None:
    beside = of_background(RATE)
    assert (beside.name, beside.words) == ("background_x", "background x")
    assert (beside.head, beside.leading) == ("background\nx", False)
    assert beside.help == "of the background: how fast"
    assert of_background(beside.model_copy(update={"head": "no"})).head is None


def test_numbers_are_written_for_people() -> None:
    time = Measure(name="t", unit="us", better="lower", digits=".0f")
    assert (RATE.written(9.41e9), RATE.with_unit(9.41e9)) == ("9.41 Gbit/s", "9.41 Gbit/s")
    assert (time.written(31.4), time.with_unit(31.4)) == ("31", "31.4 µs")
    assert time.with_unit(12059) == "12.1 ms"
    assert time.between(996, 12059) == "996 µs to 12.1 ms"
    assert RATE.between(9.41e9, 1e10) == "9.41 to 10 Gbit/s"
    assert RATE.between(0.9e9, 1.1e9) == "900 Mbit/s to 1.1 Gbit/s"
    memory = Measure(name="m", unit="B/s", better="higher")
    assert (memory.written(2.194e10), memory.with_unit(2.194e10)) == ("21.9 GB/s", "21.9 GB/s")
    assert memory.between(1.1e8, 2.194e10) == "110 MB/s to 21.9 GB/s"
    points = Measure(name="p", unit="points", better="higher")
    assert points.with_unit(1234.5678) == "1234.57 points"
    pure = Measure(name="j", unit="1", better="higher", digits=".3f")
    assert pure.with_unit(0.5) == "0.500"
    assert [shown_unit(u) for u in ("us/kB", "B/s", None)] == ["µs/kB", "B/s", ""]


def test_how_small_a_difference_never_matters() -> None:
    def least(unit: str, **more: float) -> float:
        return Measure(name="x", unit=unit, better="lower", **more).negligible

    assert [least(unit) for unit in ("us", "%", "1", "bit/s")] == [1.0, 0.1, 0.0, 0.0]
    assert least("1", least=1) == 1


@pytest.mark.parametrize("digits", ["", ".0", "s", ".999999999f", "{0.__class__}"])
def test_a_format_that_is_none_is_refused(digits: str) -> None:
    with pytest.raises(ValueError, match="digits"):
        Measure(name="x", unit="1", better="lower", digits=digits)
