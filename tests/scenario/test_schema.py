from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from osmef.errors import InputError
from osmef.scenario.load import load_text
from osmef.scenario.model import Scenario
from osmef.scenario.names import SWEPT, all_paths
from osmef.scenario.node import SourceText
from osmef.scenario.schema import json_schema
from osmef.scenario.yaml_text import read_yaml

ROOT = Path(__file__).parents[2] / "scenarios"
EXAMPLES = sorted(path for path in ROOT.rglob("*.*") if path.parent.name != "campaigns")
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def data_of(path: Path) -> Any:
    node, _builder = read_yaml(SourceText(path.name, path.read_text()))
    assert node is not None
    return node.plain()


def accepted(data: object) -> bool:
    return bool(VALIDATOR.is_valid(data))


def loads(data: object) -> bool:
    try:
        load_text(json.dumps(data), Path("f.json"))
    except InputError:
        return False
    return True


def test_is_a_valid_schema_with_a_name() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == "osmef-scenario"
    assert schema["title"] == "OSMeF scenario"


def test_every_key_is_described() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == {*Scenario.model_fields, "sweep"}
    for part in (schema, *schema["$defs"].values()):
        properties = part.get("properties", {})
        assert [key for key in properties if not properties[key].get("description")] == []


def test_defaults_conform_to_their_own_schema() -> None:
    schema = json_schema()
    models = [schema, *schema["$defs"].values()]
    properties = [p for model in models for p in model.get("properties", {}).values()]
    with_default = [p for p in properties if "default" in p]
    assert with_default
    for part in with_default:
        validator = jsonschema.Draft202012Validator({**part, "$defs": schema["$defs"]})
        assert validator.is_valid(part["default"]), part


def test_every_swept_name_has_its_schema() -> None:
    swept = json_schema()["properties"]["sweep"]["properties"]
    assert {".".join(path) for path in all_paths(SWEPT)} <= set(swept)
    assert {"connections", "flavor", "exclude", "include"} <= set(swept)
    assert "kind" not in swept


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_conform(path: Path) -> None:
    VALIDATOR.validate(data_of(path))


GOOD = [
    {"name": "a"},
    {"name": "a", "provider": "local", "workload": "btc"},
    {"name": "a", "provider": {"kind": "local", "link_rate": "1.5 Gbit/s"}, "pause": 0},
    {"name": "a", "endpoints": {"loopback": {"kind": "host"}}, "seed": None},
    {"name": "a", "sweep": {"flavor": ["small", None], "exclude": [{"flavor": None}]}},
    {"name": "a", "sweep": {"endpoints": [{"sender": {}, "receiver": {}}]}},
    {
        "name": "a",
        "sites": {"here": "local", "there": {"kind": "local", "hosts": 3}, "third": {"hosts": 2}},
        "endpoints": {"sender": {"site": "here"}, "receiver": {"zone": "z"}},
        "sweep": {"endpoints.receiver.site": ["here", "there", "third"]},
    },
    {
        "name": "a",
        "workload": {"kind": "program", "run": [{"on": "sender", "argv": ["sleep", 1]}]},
        "sweep": {
            "workload.run.0.argv.1": [1, 2, 3],
            "exclude": [{"workload.run.0.argv.1": 3}],
        },
    },
]


@pytest.mark.parametrize("data", GOOD)
def test_accepts_what_loads(data: dict[str, Any]) -> None:
    assert loads(data)
    assert accepted(data)


def places(data: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if at:
        yield at
    if isinstance(data, dict):
        for key, value in data.items():
            yield from places(value, (*at, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from places(value, (*at, index))


def changed(data: Any, at: tuple[str | int, ...], value: object) -> Any:
    result = copy.deepcopy(data)
    inner = result
    for step in at[:-1]:
        inner = inner[step]
    inner[at[-1]] = value
    return result


FULL = {
    "name": "a",
    "description": "x",
    "provider": {"kind": "local", "hosts": 2, "link_rate": "1Gbit/s", "cpu_overcommit": True},
    "endpoints": {
        "sender": {"kind": "vm", "flavor": "small"},
        "receiver": {"flavor": {"vcpus": 2}},
    },
    "placement": "same-host",
    "workload": {"kind": "btc", "duration": "5s", "interval": "1s"},
    "sweep": {
        "tenancy": ["same-tenant", "different-tenant"],
        "connections": [1, 2],
        "include": [{"connections": 5}],
    },
    "repeat": 2,
    "order": "random",
    "pause": "1s",
    "tags": {"a": "b"},
}
WRONG_VALUES: tuple[object, ...] = (None, True, 7, -1, "nonsense", [], ["x"], {}, {"nonsense": 1})


@pytest.mark.parametrize("at", list(places(FULL)), ids=lambda at: ".".join(map(str, at)))
def test_refuses_what_has_the_wrong_structure(at: tuple[str | int, ...]) -> None:
    assert loads(FULL)
    assert accepted(FULL)
    for value in WRONG_VALUES:
        data = changed(FULL, at, value)
        if loads(data):
            assert accepted(data), (at, value)
        elif not only_rules_between_values(at, value):
            assert not accepted(data), (at, value)


def only_rules_between_values(at: tuple[str | int, ...], value: object) -> bool:
    """Tell what no schema can see: half a pair of endpoints."""
    return at[0] == "endpoints" and len(at) < 3 and value in (None, {})


@pytest.mark.parametrize("exclude", [*WRONG_VALUES, [{}], [{"repeat": 2}], [{"connections": "1"}]])
def test_refuses_shapeless_exclusions(exclude: object) -> None:
    data = {"name": "a", "sweep": {"connections": [1, 2], "exclude": exclude}}
    assert not loads(data)
    assert not accepted(data)
