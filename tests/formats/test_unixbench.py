"""The index is the one that UnixBench's own script prints of the same passes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import OutputError
from osmef.workloads.kinds.unixbench import BASELINE, MESSAGES, UnixbenchOutput, read
from tests.formats.samples import DATA

REPORTS = sorted((DATA / "unixbench").glob("*.report"))
SCORE = re.compile(
    r"^(.+?) +([0-9.]+) (lps|lpm|KBps|MWIPS) +\(.* ([0-9]+) samples\)$", re.MULTILINE
)
INDEX = re.compile(r"^(.+?) +([0-9]+\.[0-9]) +([0-9.]+) +([0-9.]+)$", re.MULTILINE)
WHOLE = re.compile(r"^System Benchmarks Index Score( \(Partial Only\))? +([0-9.]+)$", re.MULTILINE)


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_scores_and_index_are_those_of_its_report(path: Path) -> None:
    report, told = path.read_text(), read(path.with_suffix(".txt").read_text())
    names = {message: name for name, message in MESSAGES.items()}
    scores = {names[message]: rest for message, *rest in SCORE.findall(report)}
    assert scores.keys() == told.scores.keys()
    for name, (score, label, kept) in scores.items():
        ours = told.scores[name]
        assert (f"{ours.score:.1f}", ours.label) == (score, label)
        assert ours.passes - ours.passes // 3 == int(kept)
    indices = {
        names[message]: rest
        for message, *rest in INDEX.findall(report)
        if names[message] in BASELINE  # grep and sysexec have an index of their own
    }
    for name, (base, _, index) in indices.items():
        assert f"{BASELINE[name]:.1f}" == base
        assert f"{told.scores[name].index:.1f}" == index
    assert indices.keys() == {name for name, one in told.scores.items() if one.index is not None}
    for partial, index in WHOLE.findall(report):
        assert f"{told.partial_index:.1f}" == index
        assert (told.index is None) == bool(partial)


def log(counts: list[float], seconds: float, timebase: int = 1) -> UnixbenchOutput:
    """Read the log of a test with so many passes."""
    passes = "".join(
        f"#### Pass {number}\n\n\n# COUNT0: {count}\n# COUNT1: {timebase}\n# COUNT2: lps\n"
        f"# elapsed: {seconds}\n# pid: 1\n# status: 0\n\n"
        for number, count in enumerate(counts, 1)
    )
    return read(f"\n{'#' * 56}\nPipe Throughput -- 1 copy\n==> pipe 10\n\n{passes}")


@given(
    st.lists(st.floats(1, 1e12), min_size=1, max_size=12),
    st.floats(0.5, 100),
    st.sampled_from([1, 60]),
)
def test_a_score_is_between_what_passes_had_and_the_worst_third_does_not_count(
    counts: list[float], seconds: float, timebase: int
) -> None:
    found = log(counts, seconds, timebase).scores["pipe"]
    kept = sorted(counts)[len(counts) // 3 :]
    low, high = (timebase * count / seconds for count in (min(kept), max(kept)))
    assert low * 0.999999 <= found.score <= high * 1.000001
    worse = [1.0] * (len(counts) // 3) + kept
    assert log(worse, seconds, timebase).scores["pipe"].score == pytest.approx(found.score)


def test_the_time_printed_by_a_test_is_preferred_over_its_elapsed_time() -> None:
    text = (
        f"\n{'#' * 56}\nPipe Throughput -- 1 copy\n\n#### Pass 1\n\n"
        "# COUNT0: 100\n# COUNT1: 1\n# COUNT2: lps\n# TIME: {}\n# elapsed: 20\n# status: 0\n"
    )
    assert read(text.format(4)).scores["pipe"].score == pytest.approx(25)
    assert read(text.format(0)).scores["pipe"].score == pytest.approx(5)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("# status: 0", "# status: 256", "pipe failed: exit status 256"),
        ("# status: 0", "# ERROR: Fork failed\n# status: 0", "pipe failed: Fork failed"),
        ("# COUNT0: 5", "# COUNT0: 0", "the count of pipe is 0"),
        ("# COUNT2: lps", "# COUNT2: mps", "pipe counts in 'mps'"),
        ("1 copy", "2 copies", "1 copies of 2"),
        ("Pipe Throughput", "Pipes", "the test Pipes is unknown"),
        ("#### Pass 1", "", "pipe has no pass"),
    ],
)
def test_an_inconsistent_unixbench_output_is_reported(old: str, new: str, said: str) -> None:
    text = (
        f"\n{'#' * 56}\nPipe Throughput -- 1 copy\n\n#### Pass 1\n\n"
        "# COUNT0: 5\n# COUNT1: 1\n# COUNT2: lps\n# elapsed: 20\n# status: 0\n"
    )
    assert read(text).copies == 1
    with pytest.raises(OutputError, match=said):
        read(text.replace(old, new))
