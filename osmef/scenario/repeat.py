"""How many trials a cell has: a number, or as many as it takes to know its result."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator

from osmef.scenario.base import Model, conflict

FEWEST_KNOWN = 8
"""With fewer values no interval of the median may be looked at after each one, at 95 %."""

_PERCENT = re.compile(r"(\d{1,4}(?:\.\d{1,6})?) ?%")
_LEAST_PERCENT, _MOST_PERCENT = 0.01, 100.0


def _share(value: object) -> object:
    found = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if found is None or not _LEAST_PERCENT <= float(found[1]) <= _MOST_PERCENT:
        raise ValueError(f"{value!r} is no share; write a percentage from 0.01 % to 100 %: '5 %'")
    return float(found[1]) / 100


Share = Annotated[
    float,
    BeforeValidator(_share),
    WithJsonSchema({"type": "string", "pattern": _PERCENT.pattern, "examples": ["5 %"]}),
]
"""A share, written in percent; a fraction of 1 in the model."""


class UntilKnown(Model):
    """Trials until the interval of a cell's median is narrow enough, or there are too many."""

    until: Share = Field(
        description="how far the 95 % interval of the median may reach from its middle, as a share"
        " of the median; it holds although it is looked at after each trial"
    )
    least: int = Field(default=6, ge=1, le=100_000, description="good trials in any case")
    most: int = Field(
        default=30, ge=FEWEST_KNOWN, le=100_000, description="trials, known or not; 8 can do"
    )
    metric: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="the metric whose median is to be known; by default the workload's first one",
    )

    @model_validator(mode="after")
    def _ends_after_it_began(self) -> UntilKnown:
        if self.least > self.most:
            raise conflict(
                f"least: {self.least} is more than most: {self.most}",
                "make most at least as large as least",
                *("least", "most"),
            )
        return self


def _count_or_rule(value: object) -> str:
    return _RULE if isinstance(value, dict | UntilKnown) else _COUNT


_COUNT, _RULE = "(count)", "(rule)"
REPEAT_TAGS = (_COUNT, _RULE)
"""What pydantic puts into the path of an error below ``repeat``; no key is called so."""

Repeat = Annotated[
    Annotated[int, Field(ge=1, le=100_000), Tag(_COUNT)] | Annotated[UntilKnown, Tag(_RULE)],
    Discriminator(_count_or_rule),
]
"""So many trials, or the rule that ends them."""
