"""Money, prices, and instance classes in scenarios and related files."""

from __future__ import annotations

import datetime
import math
import re
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field, WithJsonSchema

from osmef.scenario.base import Model
from osmef.scenario.clouds.base import Text
from osmef.scenario.fields import FlavorNeed, Size

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
