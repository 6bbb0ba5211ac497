"""The same thing measured with several programs in turns, and who was best."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import track

from osmef.errors import OutputError
from tests.bench.room import ProgramError

AGENT = "agent"

Sample = Mapping[str, float | None]
"""Quantities by name; None for one that the program does not tell."""


@dataclass(frozen=True)
class Contest:
    """What is measured, and a way to measure it for each program."""

    what: str
    entrants: Mapping[str, Callable[[], Sample]]


@dataclass(frozen=True)
class Spread:
    """Repetitions of a measurement."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        low, middle, high = min(self.values), self.median, max(self.values)
        return f"{_digits(middle)} ({_digits(low)}-{_digits(high)})"


@dataclass
class Samples:
    """By contest and program."""

    of: dict[tuple[str, str], list[Sample]] = field(default_factory=lambda: defaultdict(list))
    failures: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def problems(self) -> list[str]:
        """Say who failed at what, how often, and why the first time."""
        return [
            f"{what}: {name} failed {len(why)} time{'s' * (len(why) > 1)}: {why[0]}"
            for (what, name), why in self.failures.items()
        ]

    def spread(self, what: str, who: str, quantity: str) -> Spread | None:
        values = [sample[quantity] for sample in self.of[what, who]]
        known = tuple(value for value in values if value is not None)
        return Spread(known) if known else None


@dataclass(frozen=True)
class Goal:
    """The agent's figure over that of the best other one: at least or at most 1."""

    more_is_better: bool

    def best(self, spreads: Mapping[str, Spread]) -> str:
        pick = max if self.more_is_better else min
        return pick(spreads, key=lambda name: spreads[name].median)

    def reached(self, ratio: float) -> bool:
        return ratio >= 1 if self.more_is_better else ratio <= 1

    def __str__(self) -> str:
        return "at least 1.0" if self.more_is_better else "at most 1.0"


MORE = Goal(more_is_better=True)
LESS = Goal(more_is_better=False)


def hold(console: Console, title: str, contests: Sequence[Contest], repeat: int) -> Samples:
    """Measure all, each program in each repetition; another one begins each time.

    A program that fails loses the repetition, and that is said.
    """
    samples = Samples()
    turns = [
        (contest, name)
        for number in range(repeat)
        for contest in contests
        for name in _rotated(list(contest.entrants), number)
    ]
    for contest, name in track(turns, description=title, console=console, transient=True):
        try:
            samples.of[contest.what, name].append(contest.entrants[name]())
        except (ProgramError, OutputError) as error:
            samples.failures[contest.what, name].append(str(error))
    return samples


def compare(
    samples: Samples, contests: Sequence[Contest], quantity: str, goal: Goal
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the header and the rows of a table: all programs, the best one, and the verdict."""
    names = list(dict.fromkeys(name for contest in contests for name in contest.entrants))
    header = ("", *names, "agent / best", "wanted", "verdict")
    rows = []
    for contest in contests:
        spreads = {name: samples.spread(contest.what, name, quantity) for name in names}
        cells = [str(spreads[name] or "-") for name in names]
        rows.append((contest.what, *cells, *verdict(spreads, goal)))
    return header, rows


def verdict(spreads: Mapping[str, Spread | None], goal: Goal) -> tuple[str, str, str]:
    """Return the ratio of medians, what is wanted of it, and whether it is so."""
    ours = spreads[AGENT]
    theirs = {name: s for name, s in spreads.items() if s is not None and name != AGENT}
    if ours is None or not theirs:
        return "-", str(goal), "not measured"
    ratio = ours.median / theirs[goal.best(theirs)].median
    return (
        f"{ratio:.2f} {goal.best(theirs)}",
        str(goal),
        "reached" if goal.reached(ratio) else "**not reached**",
    )


def _rotated(names: list[str], by: int) -> list[str]:
    by %= len(names)
    return names[by:] + names[:by]


def _digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
