"""The JSON Schema of a scenario file, for editors and other programs."""

from __future__ import annotations

import re
from typing import Any

from pydantic.fields import FieldInfo

from osmef.scenario.base import keys_of
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

Json = dict[str, Any]


def json_schema() -> Json:
    """Return the schema of a scenario file (JSON Schema 2020-12).

    It knows keys, types, choices and units. Ranges of quantities, and rules between keys, are
    beyond it: only ``load`` judges those.
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
    told: Json = {
        name: settings.pop(name) for name in ("description", "default") if name in settings
    }
    choices = settings.pop("anyOf", [settings])
    return {**told, "anyOf": [{"enum": kinds}, *map(_any_kind, choices)]}


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
    """List the JSON pointers of a path, one for each model that may be there."""
    if len(path) == 1:
        return [(["properties", path[0]], Scenario.model_fields[path[0]])]
    return [
        (["$defs", model.__name__, "properties", path[-1]], keys_of(model)[path[-1]])
        for model in models_at(path[:-1])
        if path[-1] in keys_of(model)
    ]
