"""The JSON Schema of a scenario file, for editors and other programs."""

from __future__ import annotations

from typing import Any

from osmef.scenario.fields import Quantity
from osmef.scenario.model import Scenario
from osmef.scenario.names import SWEPT, all_paths, field_at, models_at
from osmef.scenario.node import Path
from osmef.scenario.sweep import MAX_CELLS

Json = dict[str, Any]

_BY_KIND = ("provider", "workload")


def json_schema() -> Json:
    """Return the schema of a scenario file (JSON Schema 2020-12).

    It knows keys, types, choices and units. Ranges of quantities, and rules between keys, are
    beyond it: only ``load`` judges those.
    """
    schema = Scenario.model_json_schema()
    for key in _BY_KIND:
        _allow_kind_alone(schema["properties"], key)
    for path in all_paths(tuple(Scenario.model_fields)):
        _write_default_with_unit(schema, path)
    schema["properties"]["sweep"] = _sweep_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "osmef-scenario",
        **schema,
        "title": "OSMeF scenario",
    }


def _allow_kind_alone(properties: Json, key: str) -> None:
    kinds = [model.model_fields["kind"].default for model in models_at((key,))]
    settings = properties[key]
    told = {name: settings.pop(name) for name in ("description", "default") if name in settings}
    properties[key] = {**told, "anyOf": [{"enum": kinds}, settings]}


def _write_default_with_unit(schema: Json, path: Path) -> None:
    field = field_at(path)
    for mark in field.metadata if field else ():
        if isinstance(mark, Quantity):
            part = schema
            for step in _pointer(path):
                part = part[step]
            part["default"] = mark.show(part["default"])


def _sweep_schema() -> Json:
    names: dict[str, list[Path]] = {}
    for path in all_paths(SWEPT):
        names.setdefault(".".join(path), []).append(path)
    for path in all_paths(SWEPT):
        if len(path) > 1 and _means_one_thing(path[-1]):
            names.setdefault(path[-1], []).append(path)
    values = {name: _any_of(paths) for name, paths in names.items()}
    axes = {
        name: {"type": "array", "minItems": 1, "uniqueItems": True, "items": value}
        for name, value in values.items()
    }
    combination = {
        "type": "object",
        "properties": values,
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
        "properties": {
            **axes,
            "exclude": {**combinations, "description": "combinations that are left out"},
            "include": {**combinations, "description": "combinations that are added"},
        },
    }


def _means_one_thing(word: str) -> bool:
    return len({p[0] for p in all_paths(tuple(Scenario.model_fields)) if p[-1] == word}) == 1


def _any_of(paths: list[Path]) -> Json:
    pointers = {f"#/{'/'.join(_pointer(path))}": None for path in paths}
    references = [{"$ref": pointer} for pointer in pointers]
    return references[0] if len(references) == 1 else {"anyOf": references}


def _pointer(path: Path) -> list[str]:
    if len(path) == 1:
        return ["properties", path[0]]
    model = next(m for m in models_at(path[:-1]) if path[-1] in m.model_fields)
    return ["$defs", model.__name__, "properties", path[-1]]
