"""Names of a scenario's values in a sweep and in ``--set``.

A name is a key of the scenario, dotted where it is nested (``endpoints.sender.flavor``). A word
without a dot that is no key of the scenario itself means every value of that name: ``connections``
is ``workload.connections``, and ``flavor`` the flavor of all existing endpoints. The values of the
background, of a layer, of pairs and of ``repeat`` are named only by their paths. An item of a list
is named by its number, counted from 0: ``workload.run.1.argv.6``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from osmef.scenario.base import ByKind, keys_of
from osmef.scenario.model import USUAL_KINDS, Scenario
from osmef.scenario.node import Entry, Keys, Node
from osmef.units import parse_count

SWEPT = (
    "endpoints",
    "pairs",
    "placement",
    "tenancy",
    "layer",
    "family",
    "workload",
    "background",
    "lead",
    "stagger",
)
"""The keys of a scenario that may differ from cell to cell, with all that is under them."""

_MOST_LISTED = 40
"""So many names beside an unknown one are listed; of any kind of workload there are more."""

BY_KIND = ("provider", "workload", "background")
"""The keys whose settings depend on their ``kind``."""

_ONE_CLOUD = "name several clouds under sites, and sweep endpoints.receiver.site"
_WHOLE_RUN = "it holds for the whole run: set it beside the sweep"

_OTHER_NAMES = {
    "amazon": "aws",
    "ec2": "aws",
    "microsoft": "azure",
    "google": "gce",
    "gcp": "gce",
    "kvm": "libvirt",
    "qemu": "libvirt",
    "localhost": "local",
    "nova": "openstack",
    "baremetal": "static",
    "ssh": "static",
}
"""Other names of clouds, mapped to those of scenarios."""


class UnknownNameError(ValueError):
    """An unknown name; ``cure`` has the known ones."""

    def __init__(self, message: str, cure: str) -> None:
        super().__init__(message)
        self.cure = cure


def models_at(path: Iterable[str]) -> list[type[BaseModel]]:
    """List the possible models at a path; parts that are no keys of a model are skipped."""
    current: list[type[BaseModel]] = [Scenario]
    is_name = False
    for part in path:
        fields = [] if is_name else [keys_of(m)[part] for m in current if part in keys_of(m)]
        is_name = any(get_origin(field.annotation) is dict for field in fields)
        if fields:
            current = [n for field in fields for n in _models_of(field)]
    return current


def models_within(model: type[BaseModel], path: Keys) -> list[type[BaseModel]]:
    """List the possible models at a written path in a model, with names and numbers of entries."""
    types: list[Any] = [model]
    for part in path:
        around = [one for annotation in types for one in _containers(annotation)]
        types = [inner for one in around for inner in _inner(one, part)]
    found = [one for annotation in types for one in _containers(annotation)]
    return [one for one in found if _is_model(one)]


def default_kind(model: type[BaseModel]) -> str:
    """Return the ``kind`` of a settings model."""
    return str(model.model_fields["kind"].default)


def fields_with(models: Iterable[type[BaseModel]], key: str) -> list[str]:
    """List the fields of models in whose settings, or in whose entries', a key is known."""
    fields = ((name, field) for model in models for name, field in keys_of(model).items())
    return [name for name, field in fields if any(key in keys_of(m) for m in _models_of(field))]


def has_path(model: type[BaseModel], path: Keys) -> bool:
    """Return whether settings have a value at a path."""
    field = keys_of(model).get(path[0])
    if field is None:
        return False
    inner = _models_of(field)
    return len(path) == 1 or not inner or any(has_path(one, path[1:]) for one in inner)


def settings_around(path: Iterable[str]) -> Keys | None:
    """Return the prefix of a path to settings of several kinds; None without any."""
    top, *inner = path
    if top in BY_KIND:
        return (top,)
    if top == "layer":
        return (top, *inner[:1]) if inner and inner[0].isdecimal() else (top,)
    return (top, inner[0]) if top == "sites" and inner else None


def kind_at(tree: Node, path: Keys) -> object:
    """Return the kind in settings: a kind alone, or the key; None without."""
    node = tree.get((*path, "kind")) or tree.get(path)
    if node is None and path[0] == "layer":  # of one in a list
        node = tree.nearest(path)
        node = node.get(("kind",)) or node
    if node is None:
        return None
    return USUAL_KINDS.get(path[0]) if isinstance(node.content, Mapping) else node.plain()


def field_at(path: Keys) -> FieldInfo | None:
    """Return the field at a path; None outside of all models."""
    fields = (keys_of(m).get(path[-1]) for m in models_at(path[:-1]))
    return next((field for field in fields if field is not None), None)


@cache
def all_paths(tops: tuple[str, ...]) -> tuple[Keys, ...]:
    """List the paths of all values under these keys of the scenario, breadth first."""
    return tuple(dict.fromkeys(p for p in _walk(Scenario, ()) if p[0] in tops))


@cache
def short_names(tops: tuple[str, ...]) -> dict[str, tuple[Keys, ...]]:
    """Return the paths of each unqualified name under these keys."""
    found: dict[str, tuple[Keys, ...]] = {}
    for path in all_paths(tops):
        if path[0] not in {"background", "layer", "pairs", "repeat"} or len(path) == 1:
            found[path[-1]] = (*found.get(path[-1], ()), path)
    return found


def _kinds_of(tree: Node | None) -> tuple[str | None, ...]:
    """Return the kind of each of ``BY_KIND`` in a scenario; None where it may be any.

    That is of a swept one, too.
    """
    if tree is None:
        return (None,) * len(BY_KIND)
    sweep = tree.get(("sweep",))
    swept = set(sweep.entries) if sweep else set()
    found: list[str | None] = []
    for top in BY_KIND:
        kind = str(kind_at(tree, (top,)) or USUAL_KINDS[top])
        is_known = kind in {default_kind(model) for model in models_at((top,))}
        is_swept = bool(swept & {top, f"{top}.kind", "include"})
        found.append(kind if is_known and not is_swept else None)
    return tuple(found)


@cache
def _allowed_names(tops: tuple[str, ...], kinds: tuple[str | None, ...]) -> tuple[str, ...]:
    """Return the names under these keys that settings of these kinds have, see ``_kinds_of``."""
    models = {
        top: [model for model in models_at((top,)) if kind in {None, default_kind(model)}]
        for top, kind in zip(BY_KIND, kinds, strict=True)
    }

    def is_allowed(path: Keys) -> bool:
        around = models.get(path[0], [])
        return len(path) == 1 or not around or any(has_path(one, path[1:]) for one in around)

    paths = [".".join(path) for path in all_paths(tops) if is_allowed(path)]
    shorts = [name for name, those in short_names(tops).items() if any(map(is_allowed, those))]
    return tuple(dict.fromkeys([*paths, *shorts]))


def resolve(
    name: str,
    tops: tuple[str, ...] = tuple(Scenario.model_fields),
    tree: Node | None = None,
) -> tuple[Keys, ...]:
    """Return the paths under these keys that a name refers to. Raises UnknownNameError.

    Its cure names only what the kinds in the scenario ``tree`` have.
    """
    path = tuple(name.split("."))
    if path[0] in tops:
        return (path,)
    found = short_names(tops).get(name, ())
    if not found:
        cure = did_you_mean(name, _allowed_names(tops, _kinds_of(tree)), tops)
        if path[0] == "sweep":
            cure = "give the values of an axis as a list, such as --set connections=[1,10]"
        raise UnknownNameError(f"{name!r} is no value of a scenario", cure)
    if len({p[0] for p in found}) > 1:
        full = ", ".join(".".join(p) for p in found)
        raise UnknownNameError(f"{name!r} can mean several values", f"write one of: {full}")
    return found


def resolve_swept(name: str, tree: Node | None = None) -> tuple[Keys, ...]:
    """Return the paths that the name of an axis refers to, as ``resolve`` does."""
    if name.split(".", maxsplit=1)[0] in set(Scenario.model_fields) - set(SWEPT):
        cure = _ONE_CLOUD if name.startswith(("provider", "sites")) else _WHOLE_RUN
        raise UnknownNameError(f"{name} can't be swept", cure)
    known = _swept_names()
    if name in known or leads_inside(tuple(name.split("."))):
        return resolve(name, SWEPT)
    cure = _near_axis(name, _allowed_names(SWEPT, _kinds_of(tree)))
    if whole := [one for one in known if one.endswith(f".{name}")]:
        cure = f"write it with its path: {' or '.join(whole)}"
    raise UnknownNameError(f"{name!r} is no value that can be swept", cure)


def _near_axis(name: str, allowed: Sequence[str]) -> str:
    """Suggest the closest name of an axis: beside the known ones in the same place, if any."""
    place, _, last = name.rpartition(".")
    beside = [one for one in allowed if one.rpartition(".")[0] == place]
    usual = (*SWEPT, "connections", "duration", "interval", "flavor")
    if not place or not beside:
        return did_you_mean(name, allowed, usual)
    near = get_close_matches(last, [one.removeprefix(f"{place}.") for one in beside], n=1)
    known = beside if len(beside) <= _MOST_LISTED else usual
    return did_you_mean(name, [f"{place}.{one}" for one in near], known)


@cache
def _swept_names() -> dict[str, None]:
    """Return all allowed names of axes, in alphabetical order."""
    known = {".".join(p) for p in all_paths(SWEPT)} | short_names(SWEPT).keys()
    return dict.fromkeys(sorted(known))


def leads_inside(path: Keys) -> bool:
    """Return whether a path leads into a list of a scenario, or a mapping whose keys are names."""
    types: list[Any] = [Scenario]
    is_inside = False
    for part in path:
        around = [one for annotation in types for one in _containers(annotation)]
        is_inside |= any(_is_collection(one) for one in around)
        types = [inner for one in around for inner in _inner(one, part)]
    return is_inside and bool(types)


def _containers(annotation: Any) -> Iterator[Any]:
    """Give the models, lists and mappings that an annotation allows."""
    if isinstance(annotation, ByKind):
        yield from annotation.models()
    elif _is_collection(annotation) or _is_model(annotation):
        yield annotation
    else:
        for argument in get_args(annotation):
            yield from _containers(argument)


def _inner(container: Any, part: str) -> Iterator[Any]:
    """Give what a part of a path leads to in a model, a list or a mapping."""
    if not _is_collection(container):
        field = keys_of(container).get(part)
        marks: list[Any] = (
            [one for one in field.metadata if isinstance(one, ByKind)] if field else []
        )
        yield from marks or ([field.annotation] if field else [])
    elif get_origin(container) is dict or parse_count(part) is not None:
        yield get_args(container)[-1]


def misplaced(tree: Node, path: Keys) -> tuple[str, str] | None:
    """Return the problem that a list on a path is too short, with the cure."""
    node: Node | None = tree
    for at, key in enumerate(path):
        name, count = ".".join(path[:at]), len(node.items) if node is not None else 0
        if node is not None and isinstance(node.content, tuple):
            number = parse_count(key)
            if number is None or number >= count:
                ends = f"ends with {name}.{count - 1}" if count else "is empty"
                return f"there is no {name}.{key}: the list {ends}", "entries are counted from 0"
            node = node.items[number]
        elif parse_count(key) is not None and leads_inside(path[: at + 1]):
            return f"{name} is no list here, so it has no {key}", f"write the list {name} first"
        else:
            node = node.get((key,)) if node is not None else None
    return None


def assign(tree: Node, paths: tuple[Keys, ...], value: Node) -> Node:
    """Return a copy of a scenario with a value at these paths.

    Without ``endpoints`` there are a sender and a receiver. Of several paths only those to existing
    places count: a missing receiver gets no flavor.
    """
    deeper = [p for p in paths if p[0] == "endpoints" and len(p) > 1]
    if deeper and tree.get(("endpoints",)) is None:
        pair = [Entry(value, Node(value.source, value.index, {})) for _end in range(2)]
        both = dict(zip(("sender", "receiver"), pair, strict=True))
        tree = tree.put(("endpoints",), Node(value.source, value.index, both))
    if len(paths) > 1:
        paths = tuple(p for p in paths if (node := tree.get(p[:-1])) and node.content is not None)
    for path in paths:
        tree = tree.put(path, value)
    return tree


def did_you_mean(
    word: str, candidates: Iterable[str], known: Iterable[str], elsewhere: Iterable[str] = ()
) -> str:
    """Suggest the closest candidate, and the same word ``elsewhere``; list the known ones."""
    choices = list(dict.fromkeys(candidates))
    other = _OTHER_NAMES.get(word.lower(), "")
    near = [other] if other in choices else get_close_matches(word.lower(), choices, n=1)
    listing = f"choose from: {', '.join(dict.fromkeys(known))}"
    meant = " or ".join((*(f"{one!r}" for one in near), *elsewhere))
    return f"did you mean {meant}? {listing}" if meant else listing


def nearest_or_all(word: str, names: Iterable[str]) -> str:
    """Suggest the closest of many names; without a close one, list them."""
    choices = list(names)
    near = get_close_matches(word.lower(), choices, n=1)
    return f"did you mean {near[0]!r}?" if near else f"give one of: {', '.join(choices) or 'none'}"


def _walk(model: type[BaseModel], path: Keys) -> Iterator[Keys]:
    for name, field in keys_of(model).items():
        yield (*path, name)
        if not _is_collection(field.annotation):
            for inner in _models_of(field):
                yield from _walk(inner, (*path, name))


def _is_collection(annotation: Any) -> bool:
    """Return whether the annotation is a dict or list."""
    return getattr(annotation, "__origin__", None) in {dict, list}


def _models_of(field: FieldInfo) -> list[type[BaseModel]]:
    by_kind = [one for one in field.metadata if isinstance(one, ByKind)]
    return [*by_kind[0].models()] if by_kind else _models(field.annotation)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _models(annotation: Any) -> list[type[BaseModel]]:
    """List the models in a type; settings by kind have one for each kind."""
    arguments = get_args(annotation)
    for mark in arguments:
        if isinstance(mark, ByKind):
            return [*mark.models()]
    if _is_model(annotation):
        return [annotation]
    return [model for argument in arguments for model in _models(argument)]
