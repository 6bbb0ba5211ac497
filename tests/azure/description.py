"""What Azure takes, as the vendor's own packages describe it: paths, versions, and bodies.

The functions that build requests know each operation's path, method and API version; the models
know the fields of a body by their names on the wire, their types, and which are required.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
import typing
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any

from azure.mgmt.compute import models as compute_models
from azure.mgmt.compute.operations import _operations as compute
from azure.mgmt.network import models as network_models
from azure.mgmt.network.operations import _operations as network
from azure.mgmt.resource.resources import models as resource_models
from azure.mgmt.resource.resources.operations import _operations as resources
from azure.mgmt.resource.subscriptions.operations import _operations as subscriptions

from tests.azure import schedules

PACKAGES = {
    "compute": (compute, compute_models),
    "network": (network, network_models),
    "resources": (resources, resource_models),
    "subscriptions": (subscriptions, None),
}
_SIMPLE: dict[type, tuple[type, ...]] = {
    str: (str,),
    bool: (bool,),
    int: (int,),
    float: (int, float),
    datetime: (str,),
}

_OPEN = {"VirtualMachineSizeTypes"}
"""Lists of words that the vendor says are not all: see the model's own description."""


class RefusedError(Exception):
    """A request that Azure would refuse, with its code and message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.status, self.code, self.message = status, code, message


@dataclass(frozen=True)
class Operation:
    """An operation: ``path`` matches its own, ``statuses`` are those of success."""

    name: str
    method: str
    path: re.Pattern[str]
    version: str
    statuses: tuple[int, ...]


@cache
def operation(package: str, name: str) -> Operation:
    """Return an operation of a package, such as compute's virtual_machines_get."""
    if name in schedules.OPERATIONS:
        verb, fine = schedules.OPERATIONS[name]
        return Operation(name, verb, _matching(schedules.PATH), schedules.VERSION, fine)
    whole, builder = _source(package), f"build_{name}_request("
    # What builds the request is a function; the only call of it, much later, knows the answers.
    function = whole[whole.index(f"def {builder}") :]
    path = re.search(r'_url = "([^"]+)"', function)
    method = re.search(r'method="([A-Z]+)"', function)
    version = re.search(r'"api-version", "([^"]+)"', function)
    statuses = re.search(r"status_code not in \[([0-9, ]+)\]", whole[whole.rindex(builder) :])
    assert path
    assert method
    assert version
    assert statuses
    codes = tuple(int(one) for one in statuses[1].split(","))
    return Operation(name, method[1], _matching(path[1]), version[1], codes)


def _matching(path: str) -> re.Pattern[str]:
    pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path))
    return re.compile(f"{pattern}/?", re.IGNORECASE)


@cache
def _source(package: str) -> str:
    return inspect.getsource(PACKAGES[package][0])


def refuse_malformed(package: str, model: str, body: Any) -> None:
    """Raise RefusedError where a body is not what the model of a package describes."""
    if model == "Schedule":
        where = schedules.wrong(body)
        if where is not None:
            raise RefusedError(400, "InvalidRequestContent", f"wrong, missing or unknown: {where}")
        return
    _refuse(body, getattr(PACKAGES[package][1], model), model)


def _refuse(value: Any, wanted: Any, where: str) -> None:
    origin = typing.get_origin(wanted)
    if origin in {typing.Union, types.UnionType}:
        _refuse_union(value, typing.get_args(wanted), where)
    elif origin is list:
        _require(isinstance(value, list), where, value)
        for number, one in enumerate(value):
            _refuse(one, typing.get_args(wanted)[0], f"{where}[{number}]")
    elif origin is dict:
        _require(isinstance(value, dict), where, value)
        for key, one in value.items():
            _refuse(one, typing.get_args(wanted)[1], f"{where}.{key}")
    elif isinstance(wanted, type) and wanted in _SIMPLE:
        fits = isinstance(value, _SIMPLE[wanted])
        _require(fits and (wanted is bool or not isinstance(value, bool)), where, value)
    elif isinstance(wanted, type) and issubclass(wanted, Enum):
        _require(value in {one.value for one in wanted}, where, value)
    elif hasattr(wanted, "_attr_to_rest_field") or hasattr(wanted, "as_dict"):
        _refuse_model(value, wanted, where)


def _refuse_union(value: Any, choices: tuple[Any, ...], where: str) -> None:
    if value is None and type(None) in choices:
        return
    real = [one for one in choices if one is not type(None)]
    # "str or one of these words" takes any word where the vendor may add some: take theirs only.
    words = [one for one in real if isinstance(one, type) and issubclass(one, Enum)]
    strict = [one for one in words if one.__name__ not in _OPEN]
    _refuse(value, (strict or [one for one in real if one not in words])[0], where)


def _require(fits: bool, where: str, value: Any) -> None:
    if not fits:
        message = f"Error converting value {value!r}. Path '{where}'."
        raise RefusedError(400, "InvalidRequestFormat", message)


def _refuse_model(value: Any, model: Any, where: str) -> None:
    _require(isinstance(value, dict), where, value)
    fields = _fields(model)
    for key, one in value.items():
        if key not in fields:
            message = f"Could not find member '{key}' on object of type '{model.__name__}'."
            raise RefusedError(400, "InvalidRequestContent", f"{message} Path '{where}.{key}'.")
        writable, kind, _ = fields[key]
        if not writable:
            message = f"Property '{where}.{key}' is read-only."
            raise RefusedError(400, "PropertyChangeNotAllowed", message)
        _refuse(one, kind, f"{where}.{key}")
    for key, (writable, _, required) in fields.items():
        if required and writable and value.get(key) is None:
            message = f"Required parameter '{where}.{key}' is missing (null)."
            raise RefusedError(400, "InvalidParameter", message)


@cache
def _fields(model: Any) -> dict[str, tuple[bool, Any, bool]]:
    """Return of each field by its name on the wire: whether writable, its type, if required."""
    model()  # the SDK describes a model when it first makes one
    found = {}
    hints: dict[str, Any] = {}
    for one in reversed(model.__mro__):
        if one.__module__.endswith(".models._models"):
            module = sys.modules[one.__module__]
            package = sys.modules[one.__module__.rpartition(".")[0]]
            space = {**vars(module), "_models": package}
            for name, hint in inspect.get_annotations(one).items():
                hints[name] = _resolved(hint, space)
    for name, rest in model._attr_to_rest_field.items():
        writable = rest._visibility is None or "create" in rest._visibility
        kind = hints.get(name, Any)
        required = not rest._is_optional
        found[rest._rest_name] = (writable, kind, required)
    return found


def _resolved(hint: Any, space: dict[str, Any]) -> Any:
    holder = type("Holder", (), {"__annotations__": {"it": hint}})
    return typing.get_type_hints(holder, space, space)["it"]
