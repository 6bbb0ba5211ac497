"""The settings of ping-pong over HTTP."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from osmef.scenario.base import Model, conflict
from osmef.scenario.fields import Duration, Size
from osmef.units import format_duration, format_size

Sizes = Annotated[
    list[Annotated[Size, Field(ge=1, le=2**30)]], Field(min_length=1, max_length=1000)
]
"""Sizes of messages; as many as fit in one command of the agent."""

# What the agent keeps a record of.
_MOST_REQUESTS = 10_000_000

# The widest range that the agent draws from without replacement.
_WIDEST_RANGE = 100_000_000


class PingPongSettings(Model):
    """Ping-pong over HTTP, as ppbench: siege asks ping, which asks pong for messages of sizes."""

    kind: Literal["pingpong"] = Field(default="pingpong", description="the kind of workload")
    sizes: Sizes | None = Field(
        default=None, description="message sizes; by default they are drawn from a range"
    )
    min: Size = Field(default=1, ge=1, le=2**30, description="smallest size of the range")
    max: Size = Field(default=500_000, ge=1, le=2**30, description="largest size of the range")
    coverage: float = Field(
        default=0.002, gt=0, le=1, description="share of the sizes of the range that is drawn"
    )
    replacement: bool = Field(default=True, description="whether a size may be drawn again")
    seed: int = Field(
        default=0, ge=0, lt=2**31, description="of the draw; every trial asks for the same sizes"
    )
    repetitions: int = Field(default=1, ge=1, le=10_000_000, description="requests of each size")
    connections: int = Field(
        default=1, ge=1, le=1000, description="requests at a time of each pair"
    )
    rate: float | None = Field(
        default=None,
        ge=0.001,
        le=1e6,
        description="open loop: requests per second of each pair, timed from when they are due;"
        " by default the next one follows the answer at once",
    )
    relay: bool = Field(
        default=True,
        description="true: siege and ping at the sender, pong at the receiver, and what ping"
        " measures counts; false: siege asks pong itself",
    )
    keep_alive: bool = Field(
        default=True, description="false: siege opens a new connection for each request"
    )
    retries: int = Field(
        default=10, ge=0, le=1000, description="how often ping repeats a request that failed"
    )
    timeout: Duration = Field(
        default=10.0,
        ge=0.1,
        le=3600.0,
        description="how long a request may take; ping gives up on pong after half of it",
    )
    deadline: Duration | None = Field(
        default=None,
        ge=0.1,
        le=86400.0,
        description="how long all requests of a trial may take; it fails then;"
        " by default twice the estimate, and at least 10 minutes",
    )

    @property
    def requests(self) -> int:
        """The number of requests between each pair in one trial."""
        # as the agent rounds: 0.29 of 100 is a little less than 29 in binary
        drawn = int((self.max - self.min + 1) * self.coverage + 0.5) or 1
        return self.repetitions * (len(self.sizes) if self.sizes else drawn)

    @model_validator(mode="after")
    def _sizes_or_a_range(self) -> PingPongSettings:
        for key in ("min", "max", "coverage", "replacement"):
            if self.sizes is not None and key in self.model_fields_set:
                raise conflict(f"with sizes, {key} has no say", f"remove {key} or sizes", key)
        return self

    @model_validator(mode="after")
    def _ping_is_there_for_retries(self) -> PingPongSettings:
        if not self.relay and "retries" in self.model_fields_set:
            raise conflict(
                "without the relay, retries has no say: it is ping that repeats a request",
                "remove retries, or relay",
                "retries",
            )
        return self

    @model_validator(mode="after")
    def _range_has_sizes(self) -> PingPongSettings:
        if self.min > self.max:
            raise conflict(
                "the smallest size is larger than the largest one",
                f"give a min of at most {format_size(self.max)}",
                *("min", "max"),
            )
        return self

    @model_validator(mode="after")
    def _range_can_be_drawn_from(self) -> PingPongSettings:
        if not self.replacement and self.max - self.min + 1 > _WIDEST_RANGE:
            raise conflict(
                f"without replacement the range may have {_WIDEST_RANGE} sizes",
                "leave replacement out, or take a narrower range",
                *("replacement", "max", "min"),
            )
        return self

    @model_validator(mode="after")
    def _requests_can_be_kept(self) -> PingPongSettings:
        if self.requests > _MOST_REQUESTS:
            raise conflict(
                f"a trial would make {self.requests} requests; {_MOST_REQUESTS} is the limit",
                "lower coverage or repetitions",
                *("repetitions", "coverage"),
            )
        return self

    @model_validator(mode="after")
    def _rate_keeps_the_deadline(self) -> PingPongSettings:
        length = self.requests / self.rate if self.rate else 0.0
        if self.deadline is not None and length > self.deadline:
            raise conflict(
                f"at this rate {self.requests} requests take {format_duration(length)},"
                " longer than the deadline",
                "raise deadline or rate, or ask for less",
                *("rate", "deadline"),
            )
        return self
