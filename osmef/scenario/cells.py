"""From a scenario and its sweep to cells, each checked as a whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from pydantic_core import ErrorDetails

from osmef.errors import MOST_PROBLEMS, Problem
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
from osmef.scenario.study import ALONE, Cell, Scalar
from osmef.scenario.sweep import Combination, Sweep, identity

MAX_TRIALS = 100_000
MAX_LENGTH = 400_000_000
_MOST_SEEN = 2000

_BARE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:+-]*")


class _Findings:
    """The problems of all cells, each once, and whether there is any use in looking for more."""

    def __init__(self) -> None:
        self.problems: dict[Problem, None] = {}
        self.more = 0
        self._seen = 0

    @property
    def are_many(self) -> bool:
        """Whether so much is wrong that other cells are not looked at."""
        return len(self.problems) + self.more > MOST_PROBLEMS or self._seen > _MOST_SEEN

    def add(self, problems: Iterable[Problem]) -> None:
        """Take problems in; what is wrong in every cell comes again with each."""
        for problem in problems:
            self.problems[problem] = None
            self._seen += 1


def make_cells(tree: Node, sweep: Sweep) -> tuple[list[Cell], list[Problem], int]:
    """Make the cells of a scenario without its ``sweep`` key, and list what is wrong with it.

    Comes with how many problems there are at least beside those that are listed. Rules between
    several keys are checked in cells only: the scenario's own values need not go together where the
    sweep replaces them.
    """
    combinations = sweep.combinations()
    singles = _singles(sweep)
    if _is_too_much(tree, sweep, len(combinations) + len(singles)):
        combinations, singles = [], singles[:1]
    findings = _Findings()
    _check_single_values(tree, singles, findings)
    cells: dict[str, tuple[Combination, Cell]] = {}
    for combination in combinations:
        if findings.are_many:
            break
        cell_tree = _with(tree, combination)
        scenario, errors, _ = examine(cell_tree)
        findings.add(_explained(errors, cell_tree, combination))
        if scenario is None:
            continue
        scenario, unknown = resolve(scenario, cell_tree)
        findings.add(unknown)
        first = cells.setdefault(
            scenario.model_dump_json(), (combination, _cell(combination, scenario, cell_tree))
        )
        if first[0] is not combination:
            findings.add([_same(combination, *first)])
    found = [cell for _, cell in cells.values()]
    problems = [*findings.problems, *sweep.problems]
    unused = () if problems else _unused_sites(found, tree)
    return found, [*problems, *_too_many(found, tree), *unused], findings.more


def _is_too_much(tree: Node, sweep: Sweep, count: int) -> bool:
    """Note where so many cells of such a length would be made that it took minutes to read them."""
    length = len(json.dumps(tree.plain()))
    if sweep.node is None or count * length <= MAX_LENGTH:
        return False
    sweep.note(
        sweep.node,
        f"the sweep makes {count} cells and values of {length} characters each; {MAX_LENGTH}"
        " together is the limit",
        "sweep fewer values, or split the scenario",
    )
    return True


def _explained(
    errors: Sequence[ErrorDetails], tree: Node, combination: Combination
) -> Iterator[Problem]:
    for error in errors:
        if is_conflict(error):
            yield explain_conflict(error, tree, combination)
        else:
            yield explain(error, tree)


def _too_many(cells: Sequence[Cell], tree: Node) -> Iterator[Problem]:
    if not cells:
        return
    repeat = cells[0].scenario.repetitions
    trials = sum(cell.scenario.trials for cell in cells) * repeat
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


def _singles(sweep: Sweep) -> list[Combination]:
    """Return what sets nothing, and what sets one value alone, each once."""
    return [(), *((Assignment(a.name, a.paths, v),) for a in sweep.axes for v in a.values)]


def _check_single_values(tree: Node, singles: Sequence[Combination], findings: _Findings) -> None:
    """Check every value that is written, whether or not a cell uses it."""
    for combination in singles:
        if findings.are_many:
            return
        changed = _with(tree, combination)
        _, errors, more = examine(changed)
        findings.more = max(findings.more, more)
        plain = [error for error in errors if not is_conflict(error)]
        findings.add(explain(error, changed) for error in plain)


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
    return Cell(key or ALONE, values, scenario, problem)


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
