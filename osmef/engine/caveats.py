"""What the trials of a run say against their own numbers: notes of its summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from osmef.analysis.contention import contended
from osmef.results.summary import CellInfo
from osmef.results.trial import Trial
from osmef.workloads.machine import OTHERS, STEAL

_MOST_LATE_PERCENT = 5.0
"""Of requests at a rate; single ones are late wherever a CPU is busy."""
_LEAST_COMMON_PERCENT = 80.0
"""Of the duration: a shorter common interval is told of."""
_OTHERS = (OTHERS.name, STEAL.name)


def elsewhere(cells: list[CellInfo]) -> list[str]:
    """Say how many cells were measured where they were not asked to be."""
    count = sum(bool(cell.mismatch and cell.n_ok) for cell in cells)
    if not count:
        return []
    told = "were not placed as requested, or nobody can tell: table and figures say so"
    return [f"{count} of {len(cells)} cells {told}"]


def too_fast(cells: list[CellInfo]) -> list[str]:
    """Say in how many cells requests were due faster than they were answered."""
    late = [
        metric.median
        for cell in cells
        for name, metric in cell.metrics.items()
        if name.endswith("late_percent") and metric.median is not None
    ]
    found = [percent for percent in late if percent > _MOST_LATE_PERCENT]
    if not found:
        return []
    told = (
        f"up to {max(found):.0f} % of the requests were due before the response to the one before"
    )
    return [f"{told}, or never sent: their times count the waiting; ask for a lower rate, or none"]


def contended_cells(trials: Mapping[str, Sequence[Trial]]) -> list[str]:
    """Say in how many cells others used the CPUs of endpoints while these were measured."""
    of_cells = [
        {
            name: [v for trial in of if (v := trial.metrics.get(name)) is not None]
            for name in _OTHERS
        }
        for of in trials.values()
    ]
    busy = [of for of in of_cells if contended(*of.values())]
    if not busy:
        return []
    worst = [max((v for of in busy for v in of[name]), default=0.0) for name in _OTHERS]
    told = f"{contended([worst[0]], [worst[1]])} in the worst of their trials"
    note = (
        f"the machines were not idle in {len(busy)} of {len(of_cells)} cells: {told}; rates that"
        " need CPU are too low, and repeat worse. Stop what else runs there, and measure again"
    )
    return [note]


def _known(trials: Sequence[Trial], name: str) -> list[float]:
    return [value for trial in trials if (value := trial.metrics.get(name)) is not None]


def short_intervals(trials: Mapping[str, Sequence[Trial]]) -> list[str]:
    """Say in how many trials all connections ran together for a part of the duration only."""
    shares = [share for of in trials.values() for share in _known(of, "common_percent")]
    short = [share for share in shares if share < _LEAST_COMMON_PERCENT]
    if not short:
        return []
    note = (
        f"in {len(short)} of {len(shares)} trials all connections ran together for less than"
        f" {_LEAST_COMMON_PERCENT:.0f} % of the duration, {min(short):.0f} % in the worst, and the"
        " rate is that of this time: make the duration longer"
    )
    return [note]
