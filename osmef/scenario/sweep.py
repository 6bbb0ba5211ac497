"""The ``sweep`` of a scenario file: axes, ``exclude`` and ``include``, as in CI matrices.

The cells are the grid of all axes, the last one changing fastest, without those that an entry of
``exclude`` matches, and after them one cell for each entry of ``include``; what an entry does not
name keeps the scenario's own value.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, product

from osmef.errors import MOST_PROBLEMS, Problem
from osmef.scenario.explain import Assignment
from osmef.scenario.names import UnknownNameError, resolve_swept
from osmef.scenario.node import Node, Path, kind_of, quoted
from osmef.scenario.workload import WORKLOAD_SETS

MAX_CELLS = 10_000
_SHOWN = 20
_MOST_LOOKS = 10_000_000
EXTRAS = ("exclude", "include")

Combination = tuple[Assignment, ...]


@dataclass(frozen=True)
class Axis:
    """A name and its values."""

    name: str
    paths: tuple[Path, ...]
    values: tuple[Node, ...]

    @cached_property
    def identities(self) -> dict[str, Assignment]:
        """What it sets, by the identity of the value."""
        return {identity(v): Assignment(self.name, self.paths, v) for v in self.values}

    @property
    def told(self) -> str:
        """Its first values, as a reader would write them."""
        shown = ", ".join(one.text for one in islice(self.identities.values(), _SHOWN))
        more = len(self.values) - _SHOWN
        return f"{shown} and {more} more" if more > 0 else shown


@dataclass
class Sweep:
    """What a sweep says, and what is wrong with it. No node means no sweep: one cell."""

    node: Node | None
    axes: list[Axis] = field(default_factory=list)
    exclude: list[Combination] = field(default_factory=list)
    include: list[Combination] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def combinations(self) -> list[Combination]:
        """List what each cell sets, in order; notes where that is nothing or too much."""
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
        """Return what ``exclude`` leaves out: for some axes together the values, by identity."""
        order = {axis.paths: number for number, axis in enumerate(self.axes)}
        found: dict[tuple[int, ...], set[tuple[str, ...]]] = defaultdict(set)
        for entry in self.exclude:
            values = sorted((order[one.paths], identity(one.value)) for one in entry)
            found[tuple(at for at, _ in values)].add(tuple(value for _, value in values))
        return list(found.items())

    @property
    def is_hopeless(self) -> bool:
        """Whether more is wrong already than anybody reads."""
        return len(self.problems) > MOST_PROBLEMS

    def note(self, node: Node, message: str, cure: str) -> None:
        """Note a problem."""
        self.problems.append(node.problem(message, cure))


def identity(value: Node) -> str:
    """Return a text that two values have in common only where they are written alike."""
    return json.dumps(value.plain(), sort_keys=True)


def read_sweep(node: Node | None) -> Sweep:
    """Read what stands under ``sweep``."""
    sweep = Sweep(node)
    if node is None:
        return sweep
    if not node.entries:
        given = "" if node.content in ({}, None) else f", but it is {kind_of(node.plain())}"
        sweep.note(node, f"sweep must name values to go through{given}", _EXAMPLE)
        return sweep
    for name, entry in node.entries.items():
        if name not in EXTRAS and not sweep.is_hopeless:
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
    if paths == (("workload",),) and value.content in WORKLOAD_SETS:
        kinds = WORKLOAD_SETS[str(value.content)]
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
            sweep.note(item, f"{quoted(item.plain())} stands twice in {name}", "remove one of them")
            continue
        seen.add(identity(item))
        values.append(item)
    sweep.axes.append(Axis(name, paths, tuple(values)))


_LIST = "write its values in brackets, such as [1, 10]"


def _resolve(sweep: Sweep, name: str, key: Node) -> tuple[Path, ...] | None:
    try:
        return resolve_swept(name)
    except UnknownNameError as error:
        sweep.note(key, str(error), error.cure)
        return None


def _read_extra(sweep: Sweep, name: str, value: Node) -> None:
    example = f"write lines such as - {{placement: same-host, connections: 50}} under {name}"
    if not isinstance(value.content, tuple) or not value.content:
        sweep.note(value, f"{name} must be a list of combinations", f"{example}, or remove it")
        return
    for item in value.content:
        if sweep.is_hopeless:
            return
        if not item.entries:
            sweep.note(item, f"an entry of {name} must be a mapping of names to values", example)
            continue
        entry = _read_entry(sweep, item)
        if len(entry) < len(item.entries):
            continue  # what is wrong with it is noted
        if name == "include":
            sweep.include.append(entry)
        elif _can_match(sweep, entry):
            sweep.exclude.append(entry)


def _read_entry(sweep: Sweep, item: Node) -> Combination:
    named = {axis.paths: axis.name for axis in sweep.axes}
    result: list[Assignment] = []
    for name, entry in item.entries.items():
        paths = None if sweep.is_hopeless else _resolve(sweep, name, entry.key)
        if paths is None:
            continue
        twice = [a.name for a in result if set(a.paths) & set(paths)]
        if twice:
            sweep.note(entry.key, f"{name} and {twice[0]} are the same value", "keep one of them")
            continue
        result.append(Assignment(named.get(paths, name), paths, entry.value))
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
            sweep.note(assignment.value, message, f"its values are: {axis.told}")
        else:
            continue
        good = False
    return good
