"""The summary of a run: ``summary.json``."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from osmef.results.trial import SCHEMA_VERSION
from osmef.scenario.base import Model
from osmef.scenario.fields import EndpointKind, Placement, Tenancy
from osmef.scenario.location import Location
from osmef.scenario.study import Scalar


class Metric(Model):
    """A metric over the trials of a cell.

    ``ci95_low`` and ``ci95_high`` are the exact order-statistic interval of the median; where it
    does not exist they are null and ``ci95_reason`` says why. ``stdev`` is the sample standard
    deviation (n - 1) and ``cov_percent`` is 100 * stdev / mean.
    """

    n: int
    median: float | None
    mean: float | None
    stdev: float | None
    cov_percent: float | None
    min: float | None
    max: float | None
    ci95_low: float | None
    ci95_high: float | None
    ci95_reason: str | None = None


class RunInfo(Model):
    """What ran, when, and with which versions and seed."""

    id: str
    scenario: str
    description: str
    scenario_digest: str = Field(description="sha256 of the scenario file")
    provider: str
    tags: dict[str, str]
    seed: int
    started_at: datetime
    ended_at: datetime | None
    complete: bool = Field(description="whether every planned trial was run")
    versions: dict[str, str] = Field(description="osmef, agent protocol, python, kernel")
    warnings: list[str]


class EndpointInfo(Model):
    """An endpoint: what was asked for, what it really was, and its facts."""

    name: str
    kind: EndpointKind
    flavor: str | None
    vcpus: int | None
    requested: Location = Field(description="host and tenant as slots of the plan")
    achieved: Location
    data_address: str
    warnings: list[str]
    agent_sha256: str
    facts: dict[str, Any] = Field(description="facts before the first and after the last group")


class CellInfo(Model):
    """A cell: its values, where its ends stood, and its metrics."""

    key: str
    values: dict[str, Scalar]
    sender: str
    receiver: str
    placement: Placement = Field(description="as requested")
    tenancy: Tenancy = Field(description="as requested")
    achieved_placement: Placement | None
    achieved_tenancy: Tenancy | None
    distance: int | None = Field(description="from the achieved locations: 0, 2 or 4")
    requested_distance: int
    connections: int | None
    n_ok: int
    n_failed: int
    metrics: dict[str, Metric]


class Summary(Model):
    """The result of a run, for machines. Units stand in the names; what is unknown is null."""

    schema_version: int = SCHEMA_VERSION
    run: RunInfo
    endpoints: list[EndpointInfo]
    cells: list[CellInfo]
