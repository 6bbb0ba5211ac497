"""What is found of a token bucket in one trial."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from osmef.results.exchange import Direction
from osmef.scenario.base import Model


class Ranged(Model):
    """A number with its 95 % interval, which is null where too little was seen for one."""

    value: float = Field(description="the estimate")
    low: float | None = Field(description="lower end of the interval")
    high: float | None = Field(description="upper end")


class Ending(StrEnum):
    """Why a transfer that looks for a bucket has ended."""

    PROVED = "proved"
    TIME = "time"
    BYTES = "bytes"


class Filling(Model):
    """What a bucket let through after a rest."""

    rest_s: float = Field(description="how long nothing was sent, seconds")
    bytes: Ranged | None = Field(
        description="payload beyond the sustained rate; null where that rate was not reached again"
    )


class Emptied(Model):
    """A bucket that was emptied. Rates in bits per second, sizes in bytes, of payload."""

    burst_bps: Ranged = Field(description="rate until the bucket was empty")
    sustained_bps: Ranged = Field(description="rate from then on")
    size_bytes: Ranged = Field(
        description="what passed beyond the sustained rate until the bucket was empty"
    )
    fell_s: Ranged = Field(description="when it was empty, seconds from the start")


class BucketFound(Model):
    """What one pair showed of a bucket, if there is one."""

    sender: str = Field(description="the endpoint that sent the data")
    receiver: str = Field(description="the endpoint that got them")
    direction: Direction = Field(description="as of the transfer")
    ended: Ending = Field(
        description="why the first transfer ended: burst and sustained rate were `proved`, or the"
        " limit of `time` or `bytes` came first"
    )
    elapsed_s: float = Field(description="how long it took")
    bytes: int = Field(description="payload that the receiver got in it")
    emptied: Emptied | None = Field(
        description="the bucket; null where the rate has not fallen to another one"
    )
    fillings: list[Filling] = Field(
        default_factory=list, description="what it gave after each rest of `refill`"
    )
    filling_bps: Ranged | None = Field(
        default=None, description="rate at which it fills; null without such rests"
    )
