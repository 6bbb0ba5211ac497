"""The ``workload`` part of a scenario: one settings model for each kind of workload.

To add a workload, add its model here and to ``WorkloadSettings``, and its class to
``osmef.workloads``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from osmef.scenario.base import Model, conflict
from osmef.scenario.fields import Duration
from osmef.units import format_duration


class BtcSettings(Model):
    """Bulk transfer capacity (RFC 3148): parallel TCP connections, timed, with one start."""

    kind: Literal["btc"] = Field(default="btc", description="the kind of workload")
    duration: Duration = Field(
        default=10.0, ge=0.1, le=86400.0, description="how long the sender sends"
    )
    interval: Duration = Field(
        default=1.0, ge=0.01, le=3600.0, description="length of the intervals of the time series"
    )
    connections: int = Field(default=1, ge=1, le=128, description="parallel TCP connections")

    @model_validator(mode="after")
    def _interval_fits(self) -> BtcSettings:
        if self.interval > self.duration:
            raise conflict(
                "the interval is longer than the duration",
                f"give an interval of at most {format_duration(self.duration)}",
                "interval",
                "duration",
            )
        return self


WorkloadSettings = Annotated[BtcSettings, Field()]
"""Any workload's settings; becomes a union discriminated by ``kind`` with the second workload."""
