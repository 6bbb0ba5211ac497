"""Number of trials of a cell: fixed, or by a sequential stopping rule."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag, model_validator

from osmef.scenario.base import Model, conflict
from osmef.scenario.fields import Share

MOST_TRIALS = 100_000
"""Trials that a cell can have."""

FEWEST_KNOWN = 8
"""With fewer values no interval of the median may be looked at after each one, at 95 %."""


class UntilKnown(Model):
    """Trials until the interval of a cell's median is narrow enough, or there are too many."""

    until: Share = Field(
        description="how far the 95 % interval of the median may reach from its middle, as a share"
        " of the median; it holds although it is looked at after each trial"
    )
    least: int = Field(default=6, ge=1, le=MOST_TRIALS, description="good trials in any case")
    most: int = Field(
        default=30, ge=FEWEST_KNOWN, le=MOST_TRIALS, description="trials, known or not; 8 can do"
    )
    metric: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="the metric to be known so well; by default the first one of the workload",
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
    Annotated[int, Field(ge=1, le=MOST_TRIALS), Tag(_COUNT)] | Annotated[UntilKnown, Tag(_RULE)],
    Discriminator(_count_or_rule),
]
"""So many trials, or the rule that ends them."""
