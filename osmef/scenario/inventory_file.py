"""Put the hosts of an inventory file where a scenario names it: ``provider.inventory``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from osmef.errors import InputError, Problem
from osmef.scenario.node import Node, kind_of
from osmef.scenario.text_file import read_nodes, read_text

_HERE = ("provider", "inventory")
_HOSTS = ("provider", "hosts")


def with_inventory(tree: Node, folder: Path) -> tuple[Node, list[Problem]]:
    """Return the scenario with the hosts of its inventory in it, each at its place in that file.

    Without an inventory, or with one that is no text, it comes back as it is. ``folder`` is where
    the scenario file lies. What is wrong with the inventory is listed.
    """
    named = tree.get(_HERE)
    if named is None or not isinstance(named.content, str) or not named.content:
        return tree, []
    if tree.get(_HOSTS) is not None:
        message = "the hosts stand in the scenario and in an inventory"
        return tree, [named.problem(message, "keep one of hosts and inventory")]
    try:
        path = folder / Path(named.content).expanduser()
        hosts, builder = read_nodes(read_text(path), path)
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
    provider = tree.nearest(_HERE[:1]).without("inventory").put(("hosts",), hosts)
    return tree.put(_HERE[:1], provider), builder.problems
