"""From a scenario and its sweep to cells, each checked as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from osmef.errors import Problem
from osmef.scenario.classes import resolve
from osmef.scenario.explain import (
    Assignment,
    examine,
    explain,
    explain_conflict,
    is_conflict,
    write_scalar,
)
from osmef.scenario.model import Scenario
from osmef.scenario.names import assign
from osmef.scenario.node import Node
from osmef.scenario.study import Cell, Scalar
from osmef.scenario.sweep import Combination, Sweep, identity

MAX_TRIALS = 100_000

_BARE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:+-]*")


def make_cells(tree: Node, sweep: Sweep) -> tuple[list[Cell], list[Problem]]:
    """Make the cells of a scenario without its ``sweep`` key, and list what is wrong with it.

    Rules between several keys are checked in cells only: the scenario's own values need not go
    together where the sweep replaces them.
    """
    problems = dict.fromkeys(_single_values(tree, sweep))
    cells: dict[str, tuple[Combination, Cell]] = {}
    for combination in sweep.combinations():
        cell_tree = _with(tree, combination)
        scenario, errors = examine(cell_tree)
        for error in errors:
            if is_conflict(error):
                problems[explain_conflict(error, cell_tree, combination)] = None
            else:
                problems[explain(error, cell_tree)] = None
        if scenario is None:
            continue
        scenario, unknown = resolve(scenario, cell_tree)
        problems |= dict.fromkeys(unknown)
        first = cells.setdefault(
            scenario.model_dump_json(), (combination, _cell(combination, scenario, cell_tree))
        )
        if first[0] is not combination:
            problems[_same(combination, *first)] = None
    found = [cell for _, cell in cells.values()]
    unused = () if problems or sweep.problems else _unused_sites(found, tree)
    return found, [*problems, *sweep.problems, *_too_many(found, tree), *unused]


def _too_many(cells: Sequence[Cell], tree: Node) -> Iterator[Problem]:
    if not cells:
        return
    repeat = cells[0].scenario.repeat
    trials = len(cells) * repeat
    if trials > MAX_TRIALS:
        yield tree.nearest(("repeat",)).problem(
            f"{len(cells)} cells, repeat: {repeat} make {trials} trials; {MAX_TRIALS} is the limit",
            "repeat less, sweep fewer values, or split the scenario",
        )


def _unused_sites(cells: Sequence[Cell], tree: Node) -> Iterator[Problem]:
    sites, used = tree.get(("sites",)), {end.site for cell in cells for end in cell.scenario.ends}
    for name, entry in sites.entries.items() if sites and cells else ():
        if name not in used:
            cure = f"remove it, or write site: {name} for an endpoint"
            yield entry.key.problem(f"no endpoint is at the site {name!r}", cure)


def _single_values(tree: Node, sweep: Sweep) -> Iterator[Problem]:
    """Check every value that is written, whether or not a cell uses it."""
    single = [()] + [(Assignment(a.name, a.paths, v),) for a in sweep.axes for v in a.values]
    for combination in single:
        changed = _with(tree, combination)
        for error in examine(changed)[1]:
            if not is_conflict(error):
                yield explain(error, changed)


def _with(tree: Node, combination: Combination) -> Node:
    # What is nested deeper goes last, so that endpoints do not wipe out endpoints.sender.flavor.
    for assignment in sorted(combination, key=lambda a: len(a.paths[0])):
        tree = assign(tree, assignment.paths, assignment.value)
    return tree


def _cell(combination: Combination, scenario: Scenario, tree: Node) -> Cell:
    def problem(key: str, message: str, cure: str) -> Problem:
        return tree.nearest(tuple(key.split("."))).problem(message, cure)

    key = ",".join(f"{a.name}={_key_text(a)}" for a in combination)
    values = tuple((a.name, _scalar(a)) for a in combination)
    return Cell(key or "all", values, scenario, problem)


def _key_text(assignment: Assignment) -> str:
    plain = assignment.value.plain()
    if isinstance(plain, str) and not _BARE.fullmatch(plain):
        return write_scalar(plain)
    return assignment.text


def _scalar(assignment: Assignment) -> Scalar:
    plain = assignment.value.plain()
    return plain if isinstance(plain, Scalar) else assignment.text


def _same(combination: Combination, first: Combination, cell: Cell) -> Problem:
    """Say that a combination measures what an earlier one does already."""
    earlier = {a.paths: a for a in first}
    changed = [
        a for a in combination if a.paths in earlier and a.value is not earlier[a.paths].value
    ]
    different = [a for a in changed if identity(a.value) != identity(earlier[a.paths].value)]
    if different and len(combination) == len(first):
        last = different[-1]
        return last.value.problem(
            f"{last.name}: {last.text} measures the same as {earlier[last.paths].text}",
            "remove one of them",
        )
    place = changed[-1] if changed else combination[-1]
    return place.value.problem(
        f"this combination is a cell already: {cell.key}", "remove one of them"
    )
