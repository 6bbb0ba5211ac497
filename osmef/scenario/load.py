"""Load a scenario file, YAML or JSON, and report all of its problems at once.

In order: the values of ``--set`` replace those of the file, the hosts of inventory files and the
flavors of instance classes are put in, ``argv``, ``ipv6`` and ``env`` become text as it is written,
and then the sweep becomes cells.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from osmef.errors import InputError, Problem
from osmef.scenario.names import UnknownNameError, assign, misplaced, resolve
from osmef.scenario.node import MAX_NODES, Builder, Entry, Keys, Node, SourceText, kind_of
from osmef.scenario.study import Study
from osmef.scenario.sweep import EXTRAS, identity, make_cells, read_sweep, with_classes
from osmef.scenario.text_file import is_json, read_nodes, read_text
from osmef.scenario.yaml_text import read_yaml, write_yaml

_KEY_WITHOUT_SPACE = re.compile(r"[a-z_]+:\S")
_CAMPAIGN_KEY = "scenarios"
_OWN_KEYS = {"workload", "endpoints", "sweep"}
# Keys of arguments, which are texts even if they look like numbers; in a sweep with their path.
_ARGUMENTS = re.compile(r"(?:.+\.)?(?:argv|ipv6|env)(?:\.[^.]+)?")
_WORD = re.compile(r"[-+.0-9A-Za-z]+")


def load(path: Path, overrides: Mapping[str, str] | None = None) -> Study:
    """Load a scenario file: JSON if its name ends in ``.json``, else YAML.

    ``overrides`` are values for this run by their names, each written as YAML; see ``override``.
    Raises InputError, with every Problem in the order of the file.
    """
    return load_text(read_text(path), path, overrides)


def load_text(text: str, path: Path, overrides: Mapping[str, str] | None = None) -> Study:
    """Load the text of a scenario file as ``load`` does; the path determines the format."""
    tree, builder = read_nodes(text, path)
    if tree is None:
        cure = "begin with a line such as name: my-test"
        raise builder.source.error(0, "the file is empty", cure)
    if not isinstance(tree.content, Mapping):
        what = f"a scenario is a mapping of keys to values, not {kind_of(tree.plain())}"
        cure = "begin with a line such as name: my-test"
        if isinstance(tree.content, str) and _KEY_WITHOUT_SPACE.match(tree.content):
            cure = "put a space after the colon, as in name: my-test"
        raise tree.source.error(tree.index, what, cure)
    if _CAMPAIGN_KEY in tree.content and _OWN_KEYS.isdisjoint(tree.content):
        cure = f"run it with: osmef campaign run {shlex.quote(str(path))}"
        key = tree.content[_CAMPAIGN_KEY].key
        raise key.source.error(key.index, "this is a campaign, not a scenario", cure)
    written = tree
    tree, problems = override(tree, overrides or {})
    tree, wrong = with_inventories(tree, path.parent)
    tree, wrong_classes = with_classes(tree)
    values = with_arguments(tree)
    sweep = read_sweep(values)
    cells, more, uncounted = make_cells(values.without("sweep"), sweep)
    problems = _first_of_each_place(builder.problems, problems + wrong + wrong_classes + more)
    if problems:
        raise InputError.from_problems(problems, uncounted)
    if tree is not written:
        data = values.plain()
        text = json.dumps(data, indent=2) + "\n" if is_json(path) else write_yaml(data)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Study(path, text, digest, cells[0].scenario, tuple(cells))


def _first_of_each_place(reading: list[Problem], values: list[Problem]) -> list[Problem]:
    """Drop problems of values that could not be parsed."""
    unread = {(p.file, p.line, p.column) for p in reading}
    return [*reading, *(p for p in values if (p.file, p.line, p.column) not in unread)]


def with_arguments(node: Node, *, is_named: bool = False) -> Node:
    """Return a tree in which all arguments are texts: ``-1`` and ``2.50`` stay as written.

    ``is_named`` is whether the keys are names of metrics, which may be called ``env``.
    """

    def read(key: str) -> Callable[[Node], Node]:
        if not is_named and _ARGUMENTS.fullmatch(key):
            return _texts
        return partial(with_arguments, is_named=key.endswith("metrics"))

    if isinstance(node.content, Mapping):
        entries = {key: Entry(one.key, read(key)(one.value)) for key, one in node.entries.items()}
        return replace(node, content=entries)
    if isinstance(node.content, tuple):
        items = (with_arguments(one, is_named=is_named) for one in node.content)
        return replace(node, content=tuple(items))
    return node


def _texts(node: Node) -> Node:
    if isinstance(node.content, Mapping):
        entries = {key: Entry(one.key, _texts(one.value)) for key, one in node.content.items()}
        return replace(node, content=entries)
    if isinstance(node.content, tuple):
        return replace(node, content=tuple(map(_texts, node.content)))
    return _text(node)


def _text(node: Node) -> Node:
    """Return a number or truth value as written in the file."""
    if not isinstance(node.content, bool | int | float):
        return node
    written = _WORD.match(node.source.text, node.index)
    return replace(node, content=written[0]) if written else node


def with_inventories(tree: Node, folder: Path) -> tuple[Node, list[Problem]]:
    """Return the scenario with the hosts of its inventories, each with its position there.

    ``folder`` is the scenario file's. Errors of an inventory are listed.
    """
    problems: list[Problem] = []
    sites = tree.get(("sites",))
    inventories = _Inventories(folder)
    for cloud in (*(("sites", name) for name in (sites.entries if sites else ())), ("provider",)):
        tree, wrong = _with_inventory(tree, cloud, inventories)
        problems += wrong
        if inventories.count > MAX_NODES:
            message = f"all inventories together hold more than {MAX_NODES} values"
            node = tree.nearest(cloud)
            return tree, [*problems, node.problem(message, "name fewer, or shorter ones")]
    return tree, problems


class _Inventories:
    """Inventories, each loaded once; ``count`` is the number of their values."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[Node | None, Builder]] = {}
        self.count = 0

    def read(self, name: str) -> tuple[Node | None, list[Problem]]:
        """Return the content of an inventory, and its problems. Raises InputError."""
        if name not in self._known:
            path = self._folder / Path(name).expanduser()
            self._known[name] = read_nodes(read_text(path), path)
        node, builder = self._known[name]
        self.count += builder.count
        return node, builder.problems


def _with_inventory(
    tree: Node, cloud: Keys, inventories: _Inventories
) -> tuple[Node, list[Problem]]:
    """Return the scenario with the hosts of a cloud's inventory.

    Without an inventory, or with one that is no text, it is returned unchanged.
    """
    named = tree.get((*cloud, "inventory"))
    if named is None or not isinstance(named.content, str) or not named.content:
        return tree, []
    if tree.get((*cloud, "hosts")) is not None:
        message = "the hosts are both in the scenario and in an inventory"
        return tree, [named.problem(message, "keep one of hosts and inventory")]
    try:
        hosts, wrong = inventories.read(named.content)
    except InputError as error:
        text = f"{error.where}: {error.message}"
        return tree, list(error.problems) or [named.problem(text, error.cure or "check the path")]
    except RuntimeError:  # of expanduser
        return tree, [
            named.problem(f"there is no home directory of {named.content}", "check the path")
        ]
    if hosts is None or not isinstance(hosts.content, Mapping):
        what = "empty" if hosts is None else kind_of(hosts.plain())
        at = named if hosts is None else hosts
        message = f"an inventory is a mapping of names to hosts, but {named.content} is {what}"
        return tree, [at.problem(message, "write lines such as my-host: {ssh: user@address}")]
    settings = tree.nearest(cloud).without("inventory").put(("hosts",), hosts)
    return tree.put(cloud, settings), wrong


def override(tree: Node, overrides: Mapping[str, str]) -> tuple[Node, list[Problem]]:
    """Override values of a scenario's tree by texts of YAML under their names.

    A list, or a value for an axis of the sweep, replaces that axis; any other value goes where
    the file has or would have its own, also inside mappings that the sweep goes through. Entries
    of ``exclude`` and ``include`` that name other values of it fall away.
    Problems name ``--set NAME`` as their file.
    """
    problems: list[Problem] = []
    for name, text in overrides.items():
        source = SourceText(f"--set {name}", text, is_option=True)
        try:
            paths = resolve(name, tree=tree)
            value, builder = read_yaml(source)
        except UnknownNameError as error:
            problems.append(source.problem(0, str(error), error.cure))
            continue
        except InputError as error:
            problems.extend(error.problems)
            continue
        problems.extend(builder.problems)
        wrong = misplaced(tree, paths[0])
        if wrong is not None:
            problems.append(source.problem(0, *wrong))
            continue
        tree = _apply(tree, name, paths, value or Node(source, 0, None))
    return tree, problems


def _apply(tree: Node, name: str, paths: tuple[Keys, ...], value: Node) -> Node:
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


def _paths(name: str) -> tuple[Keys, ...]:
    try:
        return resolve(name)
    except UnknownNameError:
        return ()


def _narrow(sweep: Node, paths: tuple[Keys, ...], values: Node) -> Node:
    """Drop entries of ``exclude`` and ``include`` with a value that was overridden."""
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


def _put_into_axes(sweep: Node, paths: tuple[Keys, ...], value: Node) -> Node:
    """Override a value inside of the sweep's mappings, such as whole endpoints."""
    for name, entry in sweep.entries.items():
        if entry.value.items and name not in EXTRAS:
            items = tuple(_inside(name, item, paths, value) for item in entry.value.items)
            sweep = sweep.put((name,), Node(entry.value.source, entry.value.index, items))
        elif name == "include":
            entries = tuple(_put_into_entry(item, paths, value) for item in entry.value.items)
            sweep = sweep.put((name,), Node(entry.value.source, entry.value.index, entries))
    return sweep


def _put_into_entry(item: Node, paths: tuple[Keys, ...], value: Node) -> Node:
    for name, entry in item.entries.items():
        item = item.put((name,), _inside(name, entry.value, paths, value))
    return item


def _inside(name: str, item: Node, paths: tuple[Keys, ...], value: Node) -> Node:
    for at in _paths(name):
        inner = tuple(p[len(at) :] for p in paths if p[: len(at)] == at and p != at)
        if inner:
            item = assign(item, inner, value)
    return item
