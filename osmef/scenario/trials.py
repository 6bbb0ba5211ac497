"""Trials of a cell: their number, fixed or by a sequential stopping rule, and their pairs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from osmef.scenario.base import Model, conflict
from osmef.scenario.fields import Share


class PairsAt(StrEnum):
    """Whether the pairs of a cell are measured concurrently or in turn."""

    ONCE = "once"
    IN_TURN = "in turn"
    SIDE_BY_SIDE = "side by side"


class Pairs(Model):
    """Pairs of senders and receivers, in equal number, matched in order.

    They are all made before the first trial, and kept.
    """

    count: int = Field(ge=1, le=256, description="how many pairs")
    at: PairsAt = Field(
        default=PairsAt.IN_TURN,
        strict=False,
        description="`once`: a trial is all pairs, with one start; `in turn`: each pair has trials"
        " of its own, one after the other; `side by side`: the same, and those of pairs that share"
        " no host run at one time",
    )

    @property
    def trials(self) -> int:
        """How many trials a repetition of the cell has."""
        return 1 if self.at is PairsAt.ONCE else self.count

    @property
    def at_most(self) -> int:
        """How many of these trials may run concurrently."""
        return self.count if self.at is PairsAt.SIDE_BY_SIDE else 1


def _count_alone(value: object) -> object:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return {"count": value} if is_count else value


AnyPairs = Annotated[Pairs, BeforeValidator(_count_alone, json_schema_input_type=int | Pairs)]
"""Pairs, or their number alone."""


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
