from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from osmef.errors import OutputError
from tests.bench.contest import AGENT, LESS, MORE, Contest, Goal, Spread, compare, hold


def hold_quietly(contest: Contest, repeat: int) -> tuple[list[str], list[tuple[str, ...]]]:
    samples = hold(Console(file=StringIO()), "test", [contest], repeat)
    _, rows = compare(samples, [contest], "figure", MORE)
    return samples.problems, rows


@pytest.mark.parametrize(
    ("goal", "agent", "ratio", "verdict"),
    [
        (MORE, 30, "1.50 b", "reached"),
        (MORE, 20, "1.00 b", "reached"),
        (MORE, 15, "0.75 b", "**not reached**"),
        (LESS, 5, "0.50 a", "reached"),
        (LESS, 15, "1.50 a", "**not reached**"),
    ],
)
def test_the_agent_is_compared_with_the_best_of_the_others(
    goal: Goal, agent: float, ratio: str, verdict: str
) -> None:
    figures = {AGENT: agent, "a": 10.0, "b": 20.0}
    entrants = {n: (lambda f=f: {"figure": f}) for n, f in figures.items()}
    contest = Contest("line", entrants)
    samples = hold(Console(file=StringIO()), "test", [contest], 3)
    header, [row] = compare(samples, [contest], "figure", goal)
    cells = dict(zip(header, row, strict=True))
    assert cells["agent / best"] == ratio
    assert cells["verdict"] == verdict


def test_programs_take_turns_and_another_one_begins_each_time() -> None:
    order: list[str] = []

    def measure(name: str) -> dict[str, float | None]:
        order.append(name)
        return {"figure": 1.0}

    entrants = {name: (lambda n=name: measure(n)) for name in (AGENT, "a")}
    hold_quietly(Contest("line", entrants), 3)
    assert order == [AGENT, "a", "a", AGENT, AGENT, "a"]


def test_a_peer_that_fails_is_left_out_and_named() -> None:
    def fail() -> dict[str, float | None]:
        raise OutputError("it prints nothing")

    contest = Contest("line", {AGENT: lambda: {"figure": 1.0}, "a": fail})
    problems, [row] = hold_quietly(contest, 2)
    assert problems == ["line: a failed 2 times: it prints nothing"]
    assert row[-1] == "not measured"


def test_a_quantity_that_a_program_does_not_report_is_not_shown_as_zero() -> None:
    contest = Contest("line", {AGENT: lambda: {"figure": 1.0}, "a": lambda: {"figure": None}})
    _, [row] = hold_quietly(contest, 1)
    assert row[2] == "-"


def test_spread_shows_median_least_and_greatest() -> None:
    assert str(Spread((3.0, 1.0, 2.25))) == "2.25 (1-3)"
    assert str(Spread((12345.6,))) == "12346 (12346-12346)"
