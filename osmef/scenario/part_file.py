"""Files that hold the value of one key of a scenario: ours, and a user's on top of it."""

from __future__ import annotations

import os
from pathlib import Path

from osmef.errors import InputError
from osmef.scenario.explain import examine, explain, explain_conflict, is_conflict
from osmef.scenario.model import Scenario
from osmef.scenario.node import Entry, Node
from osmef.scenario.text_file import read_nodes, read_text


def user_directory() -> Path:
    """Return where a user's own files are: ``osmef`` below XDG's directory of configurations."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "osmef"


def read_part(path: Path, key: str) -> tuple[Scenario, Node | None]:
    """Return a scenario that says nothing but what the file holds for a key, and its node.

    A file that is not there, or is empty, holds nothing. Raises InputError, with every Problem.
    """
    if not path.exists():
        return Scenario(name="part"), None
    node, builder = read_nodes(read_text(path), path)
    if node is None:
        return Scenario(name="part"), None
    name = Node(node.source, node.index, "part")
    entries = {"name": Entry(name, name), key: Entry(node, node)}
    tree = Node(node.source, node.index, entries)
    scenario, errors, more = examine(tree)
    problems = list(builder.problems)
    for error in errors:
        one = explain_conflict(error, tree, ()) if is_conflict(error) else explain(error, tree)
        problems.append(one)
    if problems or scenario is None:
        raise InputError.from_problems(problems, more)
    return scenario, node
