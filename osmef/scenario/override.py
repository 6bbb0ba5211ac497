"""Values that replace those of a scenario file, for one run: ``--set NAME=VALUE``."""

from __future__ import annotations

from collections.abc import Mapping

from osmef.errors import InputError, Problem
from osmef.scenario.names import UnknownNameError, assign, resolve
from osmef.scenario.node import Node, Path, Source
from osmef.scenario.sweep import EXTRAS, identity
from osmef.scenario.yaml_text import read_yaml


def override(tree: Node, overrides: Mapping[str, str]) -> tuple[Node, list[Problem]]:
    """Put values, each a text of YAML under its name, into a scenario file's tree.

    A list, or a value for an axis of the sweep, replaces that axis; any other value goes where
    the file has or would have its own, also inside mappings that the sweep goes through. Entries
    of ``exclude`` and ``include`` that name other values of it fall away.
    Problems name ``--set NAME`` as their file.
    """
    problems: list[Problem] = []
    for name, text in overrides.items():
        source = Source(f"--set {name}", text)
        try:
            paths = resolve(name)
            value, builder = read_yaml(source)
        except UnknownNameError as error:
            problems.append(source.problem(0, str(error), error.cure))
            continue
        except InputError as error:
            problems.extend(error.problems)
            continue
        problems.extend(builder.problems)
        tree = _apply(tree, name, paths, value or Node(source, 0, None))
    return tree, problems


def _apply(tree: Node, name: str, paths: tuple[Path, ...], value: Node) -> Node:
    sweep = tree.get(("sweep",)) or Node(value.source, value.index, {})
    axis = next((n for n in sweep.entries if n not in EXTRAS and _paths(n) == paths), None)
    is_list = isinstance(value.content, tuple)
    values = value if is_list else Node(value.source, value.index, (value,))
    if axis is None and not is_list:
        tree = assign(tree, paths, value)
        sweep = _put_into_axes(sweep, paths, value)
    else:
        sweep = sweep.put((axis or name,), values)
    if not sweep.entries:
        return tree
    sweep = _narrow(sweep, paths, values)
    return tree.put(("sweep",), sweep) if sweep.entries else tree.without("sweep")


def _paths(name: str) -> tuple[Path, ...]:
    try:
        return resolve(name)
    except UnknownNameError:
        return ()


def _narrow(sweep: Node, paths: tuple[Path, ...], values: Node) -> Node:
    """Drop the entries of ``exclude`` and ``include`` that name a value which is gone."""
    kept = {identity(value) for value in values.items}
    for extra in EXTRAS:
        old = sweep.get((extra,))
        if old is None or not old.items:
            continue
        new = tuple(
            item
            for item in old.items
            if all(
                _paths(name) != paths or identity(entry.value) in kept
                for name, entry in item.entries.items()
            )
        )
        sweep = (
            sweep.put((extra,), Node(old.source, old.index, new)) if new else sweep.without(extra)
        )
    return sweep


def _put_into_axes(sweep: Node, paths: tuple[Path, ...], value: Node) -> Node:
    """Put a value into the mappings that the sweep goes through, such as whole endpoints."""
    for name, entry in sweep.entries.items():
        if entry.value.items and name not in EXTRAS:
            items = tuple(_inside(name, item, paths, value) for item in entry.value.items)
            sweep = sweep.put((name,), Node(entry.value.source, entry.value.index, items))
        elif name == "include":
            entries = tuple(_put_into_entry(item, paths, value) for item in entry.value.items)
            sweep = sweep.put((name,), Node(entry.value.source, entry.value.index, entries))
    return sweep


def _put_into_entry(item: Node, paths: tuple[Path, ...], value: Node) -> Node:
    for name, entry in item.entries.items():
        item = item.put((name,), _inside(name, entry.value, paths, value))
    return item


def _inside(name: str, item: Node, paths: tuple[Path, ...], value: Node) -> Node:
    for at in _paths(name):
        inner = tuple(p[len(at) :] for p in paths if p[: len(at)] == at and p != at)
        if inner:
            item = assign(item, inner, value)
    return item
