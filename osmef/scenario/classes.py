"""Classes of instances: ``flavor: class:memory`` is the same kind of VM on every provider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from osmef.errors import InputError, Problem
from osmef.scenario.fields import EndpointKind, Flavor
from osmef.scenario.model import EndpointSettings, Scenario
from osmef.scenario.names import did_you_mean
from osmef.scenario.node import Entry, Node
from osmef.scenario.part_file import read_part, user_directory

PREFIX = "class:"
_OURS = Path(__file__).parent / "classes.yaml"


def with_classes(tree: Node) -> tuple[Node, list[Problem]]:
    """Return the scenario with the classes that it uses and does not define itself in it.

    A run keeps them so as they were when it began. What is wrong with the files is listed.
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
    """Yield the classes that stand anywhere in a scenario."""
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
    """Return a cell's scenario with flavors in the place of classes; what is unknown is listed.

    A class that is a cloud's default becomes the flavor of each end that names none.
    """
    problems: list[Problem] = []
    ends: dict[str, EndpointSettings] = {}
    for name, end in scenario.endpoints.each.items():
        flavor, place = _flavor(scenario, name, end)
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
            problems.append(tree.nearest(place).problem(f"there is no class {word!r}", cure))
    if not ends:
        return scenario, problems
    endpoints = scenario.endpoints.model_copy(update=ends)
    return scenario.model_copy(update={"endpoints": endpoints}), problems


def _flavor(
    scenario: Scenario, name: str, end: EndpointSettings
) -> tuple[Flavor | None, tuple[str, ...]]:
    """Return what size a VM is to have, and the key that says so: its own, or the cloud's."""
    if end.flavor is not None or end.kind is EndpointKind.HOST:
        return end.flavor, ("endpoints", name, "flavor")
    cloud = ("provider",) if end.site is None else ("sites", end.site)
    return scenario.clouds[end.site].usual_flavor, (*cloud, "default_flavor")
