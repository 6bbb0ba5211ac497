"""Field types of the scenario file: quantities with units, names, enumerations, and money.

Also the expectation of a metric: a bound such as ``>= 5 Gbit/s``.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, NamedTuple, get_args

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, WithJsonSchema
from pydantic.fields import FieldInfo

from osmef.scenario.base import Model
from osmef.units import (
    DURATION_UNITS,
    RATE_UNITS,
    SIZE_UNITS,
    convert,
    format_duration,
    format_rate,
    format_share,
    format_size,
    parse_duration,
    parse_rate,
    parse_size,
)

DATA_PORTS = range(20000, 21000)
"""TCP and UDP. They lie below the ports that kernels choose by themselves for outgoing traffic."""


Text = Annotated[str, Field(min_length=1, max_length=255)]

_BOUND = re.compile(
    r"(>=|<=) ?([0-9]{1,15}(?:\.[0-9]{1,9})?)(?![0-9]) ?(?![eE][0-9])([A-Za-zµ%/0-9]{0,12})"
)
_BOUND_CURE = "write it as '>= 5 Gbit/s', '<= 500 us' or '<= 0.1 %'"


class Placement(StrEnum):
    """Requested placement of the receiver relative to the sender; any: as the cloud places it."""

    SAME_HOST = "same-host"
    DIFFERENT_HOST = "different-host"
    ANY = "any"


class Tenancy(StrEnum):
    """Tenancy: whether sender and receiver belong to one tenant (project, account, VPC)."""

    SAME_TENANT = "same-tenant"
    DIFFERENT_TENANT = "different-tenant"


class EndpointKind(StrEnum):
    """Type of an endpoint."""

    VM = "vm"
    HOST = "host"


class ProviderNetwork(StrEnum):
    """A network of the provider: the underlay, or the overlay of two physical hosts."""

    BARE = "bare"
    OVERLAY = "overlay"


Layer = ProviderNetwork
"""The name that providers of other packages may import."""


class Family(StrEnum):
    """IP version of the measured traffic."""

    IPV4 = "ipv4"
    IPV6 = "ipv6"


class TrialOrder(StrEnum):
    """Order of the trials."""

    SEQUENTIAL = "sequential"
    RANDOM = "random"


RECORD = "record"
"""Value of ``on_mismatch``: keep the numbers, with the place where they were measured."""

_ON_MISMATCH = re.compile(r"fail|record|retry +([1-9]|1[0-9]|20)")


def _on_mismatch(value: object) -> str:
    text = value if isinstance(value, str) else ""
    if not _ON_MISMATCH.fullmatch(text):
        raise ValueError(f"{text!r} is none of the choices; write fail, record, or 'retry 3'")
    return text


OnMismatch = Annotated[
    str,
    BeforeValidator(_on_mismatch),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": f"^({_ON_MISMATCH.pattern})$",
            "examples": ["fail", RECORD, "retry 3"],
        }
    ),
]
"""What to do with a cell whose achieved placement is not the requested one."""


def tries_of(on_mismatch: str) -> int:
    """Return how often endpoints are recreated for a cell: N of ``retry N``, else 0."""
    word, _, count = on_mismatch.partition(" ")
    return int(count) if word == "retry" else 0


@dataclass(frozen=True)
class Quantity:
    """Marks a field with a unit; ``show`` formats it."""

    show: Callable[[float], str]


def quantity_of(field: FieldInfo) -> Quantity | None:
    """Return the quantity of a field, also of an optional one."""
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


_PERCENT = re.compile(r"(\d{1,4}(?:\.\d{1,6})?) ?%")


def _share(least: float, most: float) -> Callable[[object], float]:
    def read(value: object) -> float:
        found = percent_of(value)
        if found is None or not least <= found <= most:
            cure = _share_cure(value) or f"a percentage from {least:g} % to {most:g} %, such as 5 %"
            raise ValueError(f"{value!r} is no share; write {cure}")
        return found / 100

    return read


def percent_of(value: object) -> float | None:
    """Parse a percentage such as ``5 %``; None for another text."""
    found = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    return float(found[1]) if found else None


def _share_cure(value: object) -> str:
    """Return the cure: a number without percent sign as a percentage."""
    number = percent_of(f"{value}%")
    if not number:
        return ""
    return f"{number:g} %" if number >= 1 else f"{100 * number:g} % for a share of {number:g}"


def _share_schema(example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": _PERCENT.pattern, "examples": [example]})


Share = Annotated[
    float, BeforeValidator(_share(0.01, 100.0)), Quantity(format_share), _share_schema("5 %")
]
"""A share, written in percent; a fraction of 1 in the model."""

LossShare = Annotated[
    float, BeforeValidator(_share(0.0, 50.0)), Quantity(format_share), _share_schema("0.1 %")
]
"""A share that may be nothing, and is at most a half, written likewise."""


def _whole_path(value: str) -> str:
    if re.fullmatch(_WHOLE_PATH, value) is None:
        cure = "begin it with / or ~/"
        raise ValueError(f"{value[:60]!r} is not an absolute path; {cure}")
    return value


_WHOLE_PATH = "~?/.+"
HomePath = Annotated[
    str,
    AfterValidator(_whole_path),
    WithJsonSchema({"type": "string", "pattern": f"^{_WHOLE_PATH}$"}),
]
"""A path that means the same wherever the scenario file lies."""


def _directory(text: str) -> str:
    if _DIRECTORY.fullmatch(text) is None:
        raise ValueError("this is no directory; write a path from /, or {dir} for that of the run")
    return text


_DIRECTORY = re.compile(r"\{dir\}|/[^\x00-\x1f\x7f]{0,3000}")

RUN_DIRECTORY = "{dir}"
"""Of a directory: that of the run."""

Directory = Annotated[
    str,
    AfterValidator(_directory),
    WithJsonSchema({"type": "string", "pattern": f"^({_DIRECTORY.pattern})$"}),
]
"""A directory of an endpoint, by its path from ``/``, or that of the run."""

NAME = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"
Name = Annotated[str, Field(pattern=NAME, max_length=48)]
"""Lower-case letters, digits and dashes: it becomes part of directory and resource names."""


class FlavorNeed(Model):
    """Minimum size of a VM, for which the provider chooses the smallest flavor.

    Written in place of the flavor's name. Hashable, as a name is.
    """

    vcpus: int = Field(ge=1, le=1024, description="CPUs that the VM must have at least")
    ram: Size | None = Field(
        default=None, ge=2**20, le=2**50, description="memory that it must have at least"
    )

    def __str__(self) -> str:
        """Return its short name, such as ``2vcpu-4gib``."""
        return f"{self.vcpus}vcpu" + ("" if self.ram is None else f"-{_exact_size(self.ram)}")


def _exact_size(count: int) -> str:
    """Format a number of bytes in the largest unit that divides it."""
    for unit, factor in (("tib", 2**40), ("gib", 2**30), ("mib", 2**20), ("mb", 10**6)):
        if count % factor == 0:
            return f"{count // factor}{unit}"
    return f"{count}b"


def _one_or_several(value: object) -> str:
    return SEVERAL if isinstance(value, list) else ONE


ONE, SEVERAL = "(one)", "(several)"
"""What pydantic puts into the path of an error below one or several; no key is called so."""
ONE_OR_SEVERAL = Discriminator(_one_or_several)


def _name_or_need(value: object) -> str:
    return _NEED if isinstance(value, dict | FlavorNeed) else _NAME


_NAME, _NEED = "(name)", "(need)"
FLAVOR_TAGS = (_NAME, _NEED)
"""What pydantic puts into the path of an error below a flavor; no key is called so."""

Flavor = Annotated[
    Annotated[str, Field(min_length=1), Tag(_NAME)] | Annotated[FlavorNeed, Tag(_NEED)],
    Discriminator(_name_or_need),
]
"""The provider's own name of a size, or what the VM needs."""


@dataclass(frozen=True)
class Bound:
    """A lower or upper bound of a metric; without ``unit`` in that of the metric."""

    at_least: bool
    value: float
    unit: str

    def within(self, unit: str | None) -> float:
        """Convert the bound to the unit of a metric. Raises ValueError."""
        return convert(self.value, self.unit, unit or "1") if self.unit else self.value


def read_bound(text: str) -> Bound:
    """Parse a bound. Raises ValueError with problem and cure."""
    found = _BOUND.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text[:60]!r} is no bound; {_BOUND_CURE}")
    return Bound(found[1] == ">=", float(found[2]), found[3].replace("µs", "us"))


def _check(text: str) -> str:
    read_bound(text)
    return text


Expected = Annotated[
    str,
    Field(max_length=60, examples=[">= 5 Gbit/s", "<= 500 us"]),
    AfterValidator(_check),
]
"""A bound as text."""


_MONEY = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([A-Z]{3})")


class Money(NamedTuple):
    """An amount in one currency (ISO 4217). Currencies are never converted."""

    amount: float
    currency: str

    def __str__(self) -> str:
        """Format it: ``12.35 USD``, and small amounts with three digits."""
        digits = (
            2 if self.amount >= 1 or not self.amount else 2 - math.floor(math.log10(self.amount))
        )
        return f"{self.amount:.{digits}f} {self.currency}"


def parse_money(text: str) -> Money:
    """Parse a sum such as ``0.0104 USD``. Raises ValueError."""
    match = _MONEY.fullmatch(text)
    if match is None or not 0 < float(match[1]) < math.inf:
        raise ValueError(f"{text[:60]!r} is no sum of money; write it like 5 USD or 0.0104 EUR")
    return Money(float(match[1]), match[2])


def _money(text: str) -> str:
    parse_money(text)
    return text


Sum = Annotated[
    str,
    AfterValidator(_money),
    WithJsonSchema(
        {"type": "string", "pattern": f"^{_MONEY.pattern}$", "examples": ["5 USD", "0.0104 EUR"]}
    ),
]
"""A sum of money above 0, written with its currency."""


class Price(Model):
    """Hourly price of a VM in a price list."""

    provider: Text = Field(description="kind of the cloud, such as aws")
    region: Text | None = Field(
        default=None, description="region that it holds for; by default all of them"
    )
    flavor: Text = Field(description="the provider's name of the VM's size")
    per_hour: Sum = Field(description="price of an hour on demand, such as `0.0104 USD`")
    date: datetime.date = Field(description="day on which it was in force, such as 2026-03-01")
    source: Text = Field(description="who says so: a price list, an API, a contract")

    @property
    def money(self) -> Money:
        """The hourly price."""
        return parse_money(self.per_hour)


class InstanceClass(Model):
    """A class of VMs across providers: by need, or by flavor for each provider."""

    vcpus: int = Field(ge=1, le=1024, description="CPUs that the VM must have at least")
    ram: Size | None = Field(
        default=None, ge=2**20, le=2**50, description="memory that it must have at least"
    )
    flavors: dict[str, Text] = Field(
        default_factory=dict,
        description="flavor by kind of provider; elsewhere the smallest one that fits",
    )

    def flavor(self, provider: str) -> str | FlavorNeed:
        """Return the flavor to request from a provider."""
        need = FlavorNeed.model_construct(vcpus=self.vcpus, ram=self.ram)  # checked here already
        return self.flavors.get(provider, need)
