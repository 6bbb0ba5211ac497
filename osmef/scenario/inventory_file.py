"""Put the hosts of inventory files where a scenario names them: ``provider.inventory``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from osmef.errors import InputError, Problem
from osmef.scenario.node import MAX_NODES, Builder, Node, kind_of
from osmef.scenario.node import Path as Keys
from osmef.scenario.text_file import read_nodes, read_text


def with_inventories(tree: Node, folder: Path) -> tuple[Node, list[Problem]]:
    """Return the scenario with the hosts of its inventories in it, each at its place in that file.

    ``folder`` is where the scenario file lies. What is wrong with an inventory is listed.
    """
    problems: list[Problem] = []
    sites = tree.get(("sites",))
    shelf = _Shelf(folder)
    for cloud in (*(("sites", name) for name in (sites.entries if sites else ())), ("provider",)):
        tree, wrong = _with_inventory(tree, cloud, shelf)
        problems += wrong
        if shelf.count > MAX_NODES:
            message = f"all inventories together hold more than {MAX_NODES} values"
            place = tree.nearest(cloud)
            return tree, [*problems, place.problem(message, "name fewer, or shorter ones")]
    return tree, problems


class _Shelf:
    """Inventories, each read once; ``count`` is how many values the scenario has of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[Node | None, Builder]] = {}
        self.count = 0

    def read(self, name: str) -> tuple[Node | None, list[Problem]]:
        """Return what an inventory holds, and what is wrong in it. Raises InputError."""
        if name not in self._known:
            path = self._folder / Path(name).expanduser()
            self._known[name] = read_nodes(read_text(path), path)
        node, builder = self._known[name]
        self.count += builder.count
        return node, builder.problems


def _with_inventory(tree: Node, cloud: Keys, shelf: _Shelf) -> tuple[Node, list[Problem]]:
    """Return the scenario with the hosts of a cloud's inventory in it.

    Without an inventory, or with one that is no text, it comes back as it is.
    """
    named = tree.get((*cloud, "inventory"))
    if named is None or not isinstance(named.content, str) or not named.content:
        return tree, []
    if tree.get((*cloud, "hosts")) is not None:
        message = "the hosts stand in the scenario and in an inventory"
        return tree, [named.problem(message, "keep one of hosts and inventory")]
    try:
        hosts, wrong = shelf.read(named.content)
    except InputError as error:
        told = f"{error.where}: {error.message}"
        return tree, list(error.problems) or [named.problem(told, error.cure or "check the path")]
    except RuntimeError:  # of expanduser
        return tree, [named.problem(f"nobody has the home of {named.content}", "check the path")]
    if hosts is None or not isinstance(hosts.content, Mapping):
        what = "empty" if hosts is None else kind_of(hosts.plain())
        at = named if hosts is None else hosts
        message = f"an inventory is a mapping of names to hosts, but {named.content} is {what}"
        return tree, [at.problem(message, "write lines such as my-host: {ssh: user@address}")]
    settings = tree.nearest(cloud).without("inventory").put(("hosts",), hosts)
    return tree.put(cloud, settings), wrong
