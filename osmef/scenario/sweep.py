"""The ``sweep`` of a scenario file: axes, ``exclude`` and ``include``, as in CI matrices.

The cells are the grid of all axes, the last one changing fastest, without those that an entry of
``exclude`` matches, and after them one cell for each entry of ``include``; what an entry does not
name keeps the scenario's own value. Each cell is checked as a whole scenario.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, product
from pathlib import Path

from pydantic_core import ErrorDetails

from osmef.errors import MOST_PROBLEMS, InputError, Problem
from osmef.scenario.explain import (
    Assignment,
    examine,
    explain,
    explain_conflict,
    is_conflict,
    write_scalar,
)
from osmef.scenario.fields import EndpointKind, Flavor
from osmef.scenario.model import EndpointSettings, Scenario
from osmef.scenario.names import (
    UnknownNameError,
    assign,
    did_you_mean,
    misplaced,
    resolve_swept,
)
from osmef.scenario.node import Entry, Keys, Node, kind_of, quoted
from osmef.scenario.study import ALONE, Cell, Scalar
from osmef.scenario.text_file import read_part, user_directory
from osmef.scenario.workload import WORKLOAD_SETS

PREFIX = "class:"
_OURS = Path(__file__).parent / "classes.yaml"


def with_classes(tree: Node) -> tuple[Node, list[Problem]]:
    """Return the scenario with the campaign's classes that it uses and does not define.

    A run keeps their content from its start. Errors of the files are listed.
    """
    written = tree.get(("classes",))
    wanted = {name: None for name in _used(tree) if written is None or name not in written.entries}
    if not wanted or (written is not None and not isinstance(written.content, Mapping)):
        return tree, []
    try:
        known = _known()
    except InputError as error:
        return tree, list(error.problems) or [tree.problem(error.message, error.cure or "")]
    for name in wanted:
        if name in known:
            tree = tree.put(("classes", name), known[name].value)
    return tree, []


def _used(node: Node) -> Iterator[str]:
    """Yield the classes in a scenario."""
    if isinstance(node.content, str) and node.content.startswith(PREFIX):
        yield node.content.removeprefix(PREFIX)
    for inner in (*node.items, *(entry.value for entry in node.entries.values())):
        yield from _used(inner)


def _known() -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for path in (_OURS, user_directory() / _OURS.name):
        node = read_part(path, "classes")[1]
        found |= node.entries if node else {}
    return found


def resolve(scenario: Scenario, tree: Node) -> tuple[Scenario, list[Problem]]:
    """Return a cell's scenario with flavors instead of classes; unknown ones are problems.

    A class that is a cloud's default becomes the flavor of each end that names none.
    """
    problems: list[Problem] = []
    ends: dict[str, EndpointSettings] = {}
    for name, end in scenario.endpoints.given_ends.items():
        flavor, assignment = _flavor(scenario, name, end)
        if not isinstance(flavor, str) or not flavor.startswith(PREFIX):
            continue
        word = flavor.removeprefix(PREFIX)
        if word in scenario.classes:
            there = scenario.classes[word].flavor(scenario.clouds[end.site].kind)
            ends[name] = end.model_copy(update={"flavor": there})
            if isinstance(there, str) and there.startswith(PREFIX):
                where = tree.nearest(("classes", word))
                problem = f"the class {word!r} names another class, {there!r}"
                problems.append(where.problem(problem, "name a flavor, or vcpus and ram"))
        else:
            names = sorted({*scenario.classes, *_known()})
            cure = did_you_mean(word, names, names)
            problems.append(tree.nearest(assignment).problem(f"there is no class {word!r}", cure))
    if not ends:
        return scenario, problems
    endpoints = scenario.endpoints.model_copy(update=ends)
    return scenario.model_copy(update={"endpoints": endpoints}), problems


def _flavor(
    scenario: Scenario, name: str, end: EndpointSettings
) -> tuple[Flavor | None, tuple[str, ...]]:
    """Return a VM's flavor, and its key: of the endpoint, or of the cloud."""
    if end.flavor is not None or end.kind is EndpointKind.HOST:
        return end.flavor, ("endpoints", name, "flavor")
    cloud = ("provider",) if end.site is None else ("sites", end.site)
    return scenario.clouds[end.site].usual_flavor, (*cloud, "default_flavor")


MAX_CELLS = 10_000
_SHOWN = 20
_MOST_LOOKS = 10_000_000
EXTRAS = ("exclude", "include")

Combination = tuple[Assignment, ...]
MAX_TRIALS = 100_000
MAX_LENGTH = 400_000_000
_MOST_SEEN = 2000

_BARE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:+-]*")


@dataclass(frozen=True)
class SweepAxis:
    """A name and its values."""

    name: str
    paths: tuple[Keys, ...]
    values: tuple[Node, ...]
    key: Node

    @cached_property
    def assignments(self) -> list[Assignment]:
        """Its values, each as the assignment of a cell."""
        return [Assignment(self.name, self.paths, value, self.key) for value in self.values]

    @cached_property
    def identities(self) -> dict[str, Assignment]:
        """The assignments by the identity of the value."""
        return {identity(one.value): one for one in self.assignments}

    @property
    def values_text(self) -> str:
        """Its first values in the syntax of a file."""
        shown = ", ".join(one.text for one in islice(self.identities.values(), _SHOWN))
        more = len(self.values) - _SHOWN
        return f"{shown} and {more} more" if more > 0 else shown


@dataclass
class Sweep:
    """A parsed sweep of the scenario ``tree``, and its problems.

    No node means no sweep: one cell.
    """

    node: Node | None
    tree: Node
    axes: list[SweepAxis] = field(default_factory=list)
    exclude: list[Combination] = field(default_factory=list)
    include: list[Combination] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def combinations(self) -> list[Combination]:
        """List the assignments of each cell, in order; notes an empty or too large sweep."""
        if self.node is None:
            return [()]
        size = math.prod(len(axis.values) for axis in self.axes) if self.axes else 0
        if size + len(self.include) > MAX_CELLS:
            self.note(
                self.node,
                f"the sweep makes {size + len(self.include)} cells; {MAX_CELLS} is the limit",
                "sweep fewer values, or split the scenario",
            )
            return []
        return self._grid() + self.include

    def _grid(self) -> list[Combination]:
        if not self.axes:
            return []
        columns = [list(axis.identities.items()) for axis in self.axes]
        banned = self._banned()
        if self.node and len(banned) * math.prod(map(len, columns)) > _MOST_LOOKS:
            cure = "name the same axes in more entries of it, or split the scenario"
            self.note(self.node, "exclude names too many different sets of axes", cure)
            return []
        rows = []
        for row in product(*columns):
            values = [value for value, _ in row]
            if not any(tuple(values[at] for at in axes) in those for axes, those in banned):
                rows.append(tuple(assignment for _, assignment in row))
        if not rows and not self.include and self.node and not self.problems:
            self.note(self.node, "exclude leaves no cell to measure", "exclude less")
        return rows

    def _banned(self) -> list[tuple[tuple[int, ...], set[tuple[str, ...]]]]:
        """Return the combinations of ``exclude``: for some axes together the values' identities."""
        order = {axis.paths: number for number, axis in enumerate(self.axes)}
        found: dict[tuple[int, ...], set[tuple[str, ...]]] = defaultdict(set)
        for entry in self.exclude:
            values = sorted((order[one.paths], identity(one.value)) for one in entry)
            found[tuple(at for at, _ in values)].add(tuple(value for _, value in values))
        return list(found.items())

    @property
    def has_too_many_problems(self) -> bool:
        """Whether the limit of problems is exceeded."""
        return len(self.problems) > MOST_PROBLEMS

    def note(self, node: Node, message: str, cure: str) -> None:
        """Note a problem."""
        self.problems.append(node.problem(message, cure))


def identity(value: Node) -> str:
    """Return a text that is equal for equal values only."""
    return json.dumps(value.plain(), sort_keys=True)


def read_sweep(tree: Node) -> Sweep:
    """Parse the value of ``sweep`` in a scenario."""
    node = tree.get(("sweep",))
    sweep = Sweep(node, tree)
    if node is None:
        return sweep
    if not node.entries:
        given = "" if node.content in ({}, None) else f", but it is {kind_of(node.plain())}"
        sweep.note(node, f"sweep must name values to go through{given}", _EXAMPLE)
        return sweep
    for name, entry in node.entries.items():
        if name not in EXTRAS and not sweep.has_too_many_problems:
            _read_axis(sweep, name, entry.key, entry.value)
    for name in EXTRAS:
        if name in node.entries:
            _read_extra(sweep, name, node.entries[name].value)
    return sweep


_EXAMPLE = "write for example sweep: {connections: [1, 10]}, or remove it"


def _read_axis(sweep: Sweep, name: str, key: Node, value: Node) -> None:
    paths = _resolve(sweep, name, key)
    if paths is None:
        return
    for other in sweep.axes:
        if set(paths) & set(other.paths):
            sweep.note(key, f"{name} and {other.name} are the same value", "keep one of them")
            return
    kinds = WORKLOAD_SETS.get(value.content) if isinstance(value.content, str) else None
    if paths == (("workload",),) and kinds is not None:
        value = replace(value, content=tuple(replace(value, content=kind) for kind in kinds))
    if not isinstance(value.content, tuple):
        given = "empty" if value.content is None else kind_of(value.plain())
        sweep.note(value, f"the axis {name} must be a list, but it is {given}", _LIST)
        return
    if not value.content:
        sweep.note(value, f"the axis {name} has no values", f"{_LIST}, or remove the axis")
        return
    seen: set[str] = set()
    values = []
    for item in value.content:
        if identity(item) in seen:
            sweep.note(
                item, f"{quoted(item.plain())} is listed twice in {name}", "remove one of them"
            )
            continue
        seen.add(identity(item))
        values.append(item)
    sweep.axes.append(SweepAxis(name, paths, tuple(values), key))


_LIST = "write its values in brackets, such as [1, 10]"


def _resolve(sweep: Sweep, name: str, key: Node) -> tuple[Keys, ...] | None:
    try:
        return resolve_swept(name, sweep.tree)
    except UnknownNameError as error:
        sweep.note(key, str(error), error.cure)
        return None


def _read_extra(sweep: Sweep, name: str, value: Node) -> None:
    example = f"write lines such as - {{placement: same-host, connections: 50}} under {name}"
    if not isinstance(value.content, tuple) or not value.content:
        sweep.note(value, f"{name} must be a list of combinations", f"{example}, or remove it")
        return
    for item in value.content:
        if sweep.has_too_many_problems:
            return
        if not item.entries:
            sweep.note(item, f"an entry of {name} must be a mapping of names to values", example)
            continue
        entry = _read_entry(sweep, item)
        if len(entry) < len(item.entries):
            continue  # its errors are listed
        if name == "include":
            sweep.include.append(entry)
        elif _can_match(sweep, entry):
            sweep.exclude.append(entry)


def _read_entry(sweep: Sweep, item: Node) -> Combination:
    named = {axis.paths: axis.name for axis in sweep.axes}
    result: list[Assignment] = []
    for name, entry in item.entries.items():
        paths = None if sweep.has_too_many_problems else _resolve(sweep, name, entry.key)
        if paths is None:
            continue
        twice = [a.name for a in result if set(a.paths) & set(paths)]
        if twice:
            sweep.note(entry.key, f"{name} and {twice[0]} are the same value", "keep one of them")
            continue
        result.append(Assignment(named.get(paths, name), paths, entry.value, entry.key))
    return tuple(result)


def _can_match(sweep: Sweep, entry: Sequence[Assignment]) -> bool:
    axes = {axis.paths: axis for axis in sweep.axes}
    good = True
    for assignment in entry:
        axis = axes.get(assignment.paths)
        if axis is None:
            known = ", ".join(a.name for a in sweep.axes) or "none"
            message = f"exclude names {assignment.name}, which is no axis of this sweep"
            sweep.note(assignment.value, message, f"the axes are: {known}")
        elif identity(assignment.value) not in axis.identities:
            message = f"exclude matches no cell: {assignment.text} is not in {assignment.name}"
            sweep.note(assignment.value, message, f"its values are: {axis.values_text}")
        else:
            continue
        good = False
    return good


class _Findings:
    """Problems of all cells, each once, within a limit."""

    def __init__(self) -> None:
        self.problems: dict[Problem, None] = {}
        self.more = 0
        self._seen = 0

    @property
    def are_many(self) -> bool:
        """Whether the limit is reached, so that other cells are not validated."""
        return len(self.problems) + self.more > MOST_PROBLEMS or self._seen > _MOST_SEEN

    def add(self, problems: Iterable[Problem]) -> None:
        """Add problems, each once: many are the same in every cell."""
        for problem in problems:
            self.problems[problem] = None
            self._seen += 1


def make_cells(tree: Node, sweep: Sweep) -> tuple[list[Cell], list[Problem], int]:
    """Return the cells of a scenario without its ``sweep`` key, and their problems.

    Also returns the least number of further problems that are not listed. Rules between several
    keys are checked in cells only: the scenario's own values may conflict where the sweep replaces
    them.
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
        cell_tree, wrong = _with(tree, combination)
        if wrong is not None:
            findings.add([wrong])
            continue
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
    """Note a sweep whose total size would take minutes to validate."""
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
            yield explain(error, tree, combination)


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
    """Return the empty assignment, and each single value once."""
    return [(), *((one,) for axis in sweep.axes for one in axis.assignments)]


def _check_single_values(tree: Node, singles: Sequence[Combination], findings: _Findings) -> None:
    """Validate every value of an axis, used by a cell or not."""
    for combination in singles:
        if findings.are_many:
            return
        changed, wrong = _with(tree, combination)
        if wrong is not None:  # the place may exist in cells where another axis sets the list
            continue
        _, errors, more = examine(changed)
        findings.more = max(findings.more, more)
        plain = [error for error in errors if not is_conflict(error)]
        findings.add(explain(error, changed, combination) for error in plain)


def _with(tree: Node, combination: Combination) -> tuple[Node, Problem | None]:
    """Return a scenario with the values of a combination; or those without a place in it."""
    # Deeper paths are set last, so that endpoints does not overwrite endpoints.sender.flavor.
    for assignment in sorted(combination, key=lambda a: len(a.paths[0])):
        wrong = misplaced(tree, assignment.paths[0])
        if wrong is not None:
            return tree, assignment.value.problem(*wrong)
        tree = assign(tree, assignment.paths, assignment.value)
    return tree, None


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
    """Return the problem of a duplicate combination."""
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
    assignment = changed[-1] if changed else combination[-1]
    return assignment.value.problem(
        f"this combination is a cell already: {cell.key}", "remove one of them"
    )
