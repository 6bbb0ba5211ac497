"""Several pairs of a sender and a receiver, and when each is measured."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from osmef.scenario.base import Model


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
