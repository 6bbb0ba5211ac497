"""Field types of the scenario file: quantities with units, names, and the closed vocabularies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic.fields import FieldInfo

from osmef.units import (
    DURATION_UNITS,
    RATE_UNITS,
    SIZE_UNITS,
    format_duration,
    format_rate,
    format_size,
    parse_duration,
    parse_rate,
    parse_size,
)


class Placement(StrEnum):
    """Where the receiver stands, seen from the sender."""

    SAME_HOST = "same-host"
    DIFFERENT_HOST = "different-host"


class Tenancy(StrEnum):
    """Whether sender and receiver belong to one tenant (project, account, VPC)."""

    SAME_TENANT = "same-tenant"
    DIFFERENT_TENANT = "different-tenant"


class EndpointKind(StrEnum):
    """What an endpoint is."""

    VM = "vm"
    HOST = "host"


class Layer(StrEnum):
    """The network that joins two physical hosts."""

    BARE = "bare"
    OVERLAY = "overlay"


class Family(StrEnum):
    """The version of IP that carries what is measured."""

    IPV4 = "ipv4"
    IPV6 = "ipv6"


class Order(StrEnum):
    """The order of the trials."""

    SEQUENTIAL = "sequential"
    RANDOM = "random"


class OnMismatch(StrEnum):
    """What to do with a cell whose achieved placement is not the requested one."""

    FAIL = "fail"
    RECORD = "record"


@dataclass(frozen=True)
class Quantity:
    """Marks a field whose number carries a unit; ``show`` writes it for people."""

    show: Callable[[float], str]


def quantity_of(field: FieldInfo) -> Quantity | None:
    """Return the mark of a field whose number carries a unit, also where it may be absent."""
    marks = [*field.metadata, *_marks(field.annotation)]
    return next((mark for mark in marks if isinstance(mark, Quantity)), None)


def _marks(annotation: object) -> list[object]:
    return [mark for part in get_args(annotation) for mark in getattr(part, "__metadata__", ())]


def _quantity(parse: Callable[[str], float]) -> Callable[[object], float]:
    def read(value: object) -> float:
        if isinstance(value, str):
            return parse(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return parse(str(value))
        return parse("")

    return read


def _schema(units: Iterable[str], *examples: str) -> WithJsonSchema:
    choices = "|".join(re.escape(unit) for unit in units)
    pattern = rf"^\s*([0-9]+(\.[0-9]+)?\s*({choices})|0+(\.0+)?)\s*$"
    written = {"type": "string", "pattern": pattern, "examples": list(examples)}
    return WithJsonSchema({"anyOf": [written, {"const": 0}]})


Duration = Annotated[
    float,
    BeforeValidator(_quantity(parse_duration)),
    Quantity(format_duration),
    _schema(DURATION_UNITS, "10s", "500ms"),
]
"""Seconds, written with a unit."""

Rate = Annotated[
    float,
    BeforeValidator(_quantity(parse_rate)),
    Quantity(format_rate),
    _schema(RATE_UNITS, "1Gbit/s"),
]
"""Bits per second, written with a unit."""

Size = Annotated[
    int,
    BeforeValidator(_quantity(parse_size)),
    Quantity(format_size),
    _schema(SIZE_UNITS, "64KiB", "1MB"),
]
"""Bytes, written with a unit."""

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=48)]
"""Lower-case letters, digits and dashes: it becomes part of directory and resource names."""
