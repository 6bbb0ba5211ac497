"""The JSON Schema of a scenario file, and descriptions of its keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from osmef.scenario.base import ByKind, keys_of
from osmef.scenario.explain import write_scalar
from osmef.scenario.fields import quantity_of
from osmef.scenario.model import Scenario
from osmef.scenario.names import (
    BY_KIND,
    SWEPT,
    all_paths,
    default_kind,
    leads_inside,
    models_at,
    short_names,
)
from osmef.scenario.node import Keys
from osmef.scenario.sweep import MAX_CELLS
from osmef.scenario.workload import WORKLOAD_SETS
from osmef.units import format_duration, format_rate, format_share, format_size


@dataclass(frozen=True)
class Style:
    """Markup of literals, and of links to models."""

    code: Callable[[str], str]
    model: Callable[[type[BaseModel]], str]


PLAIN = Style(code=str, model=lambda model: f"the keys of {model.__name__}")

_WORDS = {
    str: "text",
    int: "whole number",
    float: "number",
    datetime: "time, ISO 8601 in UTC",
    date: "day, such as 2026-03-01",
    Any: "value",
}
_QUANTITIES: dict[Any, str] = {
    format_duration: "duration",
    format_rate: "rate",
    format_size: "size",
    format_share: "share",
}
_LIMITS = (("ge", "at least"), ("le", "at most"), ("lt", "below"), ("max_length", "at most"))


def default_of(field: FieldInfo, style: Style) -> str:
    """Return the default of a key in the syntax of a scenario."""
    if field.is_required():
        return "must be written"
    value = field.get_default(call_default_factory=True)
    if value in (None, "", {}):
        return "none"
    quantity = quantity_of(field)
    return style.code(quantity.show(value) if quantity else _written(value))


def _written(value: Any) -> str:
    """Return a default in the syntax of a scenario: settings by their kind."""
    if hasattr(value, "kind"):
        return str(value.kind)
    plain = TypeAdapter(Any).dump_python(value, mode="json", exclude_unset=True)
    return plain if isinstance(plain, str) else write_scalar(plain)


def type_of(field: FieldInfo, style: Style) -> str:
    """Describe the type of a key, with its limits."""
    quantity = quantity_of(field)
    show: Callable[[float], str] = quantity.show if quantity else str
    text = _of_field(field, style)
    if quantity is not None:
        text = _QUANTITIES[quantity.show] + " or null" * ("null" in text)
    limits = [
        f"{words} {show(getattr(mark, name)) if name != 'lt' else '2^63'}"
        + (_counted(field) if name == "max_length" else "")
        for mark in field.metadata
        for name, words in _LIMITS
        if hasattr(mark, name)
    ]
    return ", ".join([text, *limits])


def _of_field(field: FieldInfo, style: Style) -> str:
    if marks := [one for one in field.metadata if isinstance(one, ByKind)]:
        return _of_kinds(marks[0], style)
    return words(field.annotation, style)


def _of_kinds(mark: ByKind, style: Style) -> str:
    several = ["a list of these"] if mark.stacks else []
    kinds = (words(model, style) for model in mark.models())
    return " or ".join([*map(style.code, mark.also), *kinds, *several])


def _counted(field: FieldInfo) -> str:
    """Return the unit of a value's length."""
    return " of them" if get_origin(field.annotation) in {list, dict} else " characters"


def words(annotation: Any, style: Style) -> str:
    """Describe a type."""
    if get_args(annotation):
        return _compound(annotation, style)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(style.code(str(choice.value)) for choice in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        kind = annotation.model_fields.get("kind")
        alone = (
            f"{style.code(kind.default)}, or "
            if kind and get_origin(kind.annotation) is Literal
            else ""
        )
        return f"{alone}{style.model(annotation)}"
    return (
        " or ".join(map(style.code, ("true", "false")))
        if annotation is bool
        else _WORDS[annotation]
    )


def _compound(annotation: Any, style: Style) -> str:
    """Describe a compound type."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(style.code(str(value)) for value in inner)
    if origin in (list, tuple):
        return f"list of: {words(inner[0], style)}"
    if origin is dict:
        return f"mapping of names to: {words(inner[1], style)}"
    if hasattr(annotation, "__metadata__"):
        if marks := [one for one in annotation.__metadata__ if isinstance(one, ByKind)]:
            return _of_kinds(marks[0], style)
        return words(inner[0], style)
    parts = [words(one, style) for one in inner if one is not NoneType]
    return " or ".join([*dict.fromkeys(parts), *(["null"] if NoneType in inner else [])])


Json = dict[str, Any]


def json_schema() -> Json:
    """Return the schema of a scenario file (JSON Schema 2020-12).

    It knows keys, types, choices and units. It has no ranges of quantities and no rules between
    keys: only ``load`` checks those.
    """
    schema = Scenario.model_json_schema()
    properties = schema["properties"]
    for key in BY_KIND:
        properties[key] = _or_kind_alone(properties[key], key)
    sites = properties["sites"]["patternProperties"]
    for pattern, settings in sites.items():
        sites[pattern] = _or_kind_alone(settings, "sites")
    for path in all_paths(tuple(Scenario.model_fields)):
        _write_default_with_unit(schema, path)
    schema["properties"]["sweep"] = _sweep_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "osmef-scenario",
        **schema,
        "title": "OSMeF scenario",
    }


def _or_kind_alone(settings: Json, key: str) -> Json:
    kinds = [default_kind(model) for model in models_at((key,))]
    base: Json = {
        name: settings.pop(name) for name in ("description", "default") if name in settings
    }
    choices = settings.pop("anyOf", [settings])
    return {**base, "anyOf": [{"enum": kinds}, *map(_any_kind, choices)]}


def _any_kind(settings: Json) -> Json:
    """Allow settings of any kind: without ``kind`` several may match."""
    return {"anyOf": settings["oneOf"]} if "oneOf" in settings else settings


def _write_default_with_unit(schema: Json, path: Keys) -> None:
    for pointer, field in _pointers(path):
        quantity = quantity_of(field)
        part = schema
        for step in pointer:
            part = part[step]
        default = field.get_default(call_default_factory=True)
        if quantity and default is not None and not field.is_required():
            part["default"] = quantity.show(default)


def _sweep_schema() -> Json:
    names: dict[str, list[Keys]] = {}
    for path in all_paths(SWEPT):
        names.setdefault(".".join(path), []).append(path)
    for word, paths in short_names(SWEPT).items():
        if word not in names and _means_one_thing(word):
            names[word] = list(paths)
    values = {name: _any_of(paths) for name, paths in names.items()}
    axes = {
        name: {"type": "array", "minItems": 1, "uniqueItems": True, "items": value}
        for name, value in values.items()
    }
    axes["workload"] = {"anyOf": [axes["workload"], {"enum": list(WORKLOAD_SETS)}]}
    around = [path for path in all_paths(SWEPT) if leads_inside((*path, "0"))]
    inside = [rf"^{re.escape('.'.join(path))}\.[^.]+(\..+)?$" for path in around]
    combination = {
        "type": "object",
        "properties": values,
        "patternProperties": dict.fromkeys(inside, True),
        "additionalProperties": False,
        "minProperties": 1,
    }
    combinations = {"type": "array", "minItems": 1, "items": combination}
    return {
        "description": f"lists of values to go through; the cells are their grid, {MAX_CELLS} at"
        " most. A name is a key of the scenario, dotted where it is nested; a word alone means"
        " every value so called",
        "type": "object",
        "minProperties": 1,
        "additionalProperties": False,
        "patternProperties": {name: {"type": "array", "minItems": 1} for name in inside},
        "properties": {
            **axes,
            "exclude": {**combinations, "description": "combinations that are left out"},
            "include": {**combinations, "description": "combinations that are added"},
        },
    }


def _means_one_thing(word: str) -> bool:
    return len({p[0] for p in short_names(tuple(Scenario.model_fields))[word]}) == 1


def _any_of(paths: list[Keys]) -> Json:
    pointers = {f"#/{'/'.join(pointer)}": None for path in paths for pointer, _ in _pointers(path)}
    references = [{"$ref": pointer} for pointer in pointers]
    return references[0] if len(references) == 1 else {"anyOf": references}


def _pointers(path: Keys) -> list[tuple[list[str], FieldInfo]]:
    """List the JSON pointers of a path, one for each possible model."""
    if len(path) == 1:
        return [(["properties", path[0]], Scenario.model_fields[path[0]])]
    return [
        (["$defs", model.__name__, "properties", path[-1]], keys_of(model)[path[-1]])
        for model in models_at(path[:-1])
        if path[-1] in keys_of(model)
    ]
