"""The summary of a run, ``summary.json``: its cells, endpoints, and what layers cost."""

from __future__ import annotations

import datetime
from enum import StrEnum
from typing import Any, Self

from pydantic import Field, model_validator

from osmef.results.measure import Better, Measure
from osmef.results.trial import SCHEMA_VERSION, Bottleneck
from osmef.scenario.base import Model
from osmef.scenario.fields import EndpointKind, Placement, Tenancy
from osmef.scenario.location import Location
from osmef.scenario.study import Scalar

CPU_PER_GB = Measure(
    name="cpu_s_per_gb", unit="s/GB", better=Better.LOWER, label="CPU per GB",
    help="CPU time of both endpoints, all that was not idle there, divided by the data that came,"
    " in 10^9 bytes; that of an encryption or a bridge, which the kernel does, is in it",
    source="proc(5), `/proc/stat`",
)  # fmt: skip


class LayerCost(Model):
    """Overhead of a layer: how many times as large a number is with it as without."""

    values: dict[str, Scalar] = Field(
        description="all else that was swept, and the place, where they differ: both are the same"
    )
    layer: str = Field(description="the layer, as cells have it")
    reference: str = Field(description="the layer that it is compared with")
    metric: str = Field(description="name of the metric")
    unit: str | None = Field(description="the metric's unit")
    n: int = Field(description="how many were compared")
    compared: str = Field(
        description="what n counts: `blocks`, in each of which both have a trial; `pairs` of"
        " endpoints with trials of their own; or `trials`, unpaired, where the run has less than"
        " two blocks"
    )
    reference_median: float = Field(description="median of all trials of the reference")
    median: float = Field(description="median of all trials with the layer")
    ratio: float | None = Field(
        description="layer to reference, of Hodges and Lehmann; the median of the ratios where one"
        " of them is 0, as the layer transferred nothing; null where the reference did not"
    )
    ci95_low: float | None = Field(
        description="lower end of the 95 % interval of the ratio; null of too few"
    )
    ci95_high: float | None = Field(description="upper end of that interval")
    p: float | None = Field(description="of a ratio of 1 (Wilcoxon; unpaired: Mann and Whitney)")
    p_holm: float | None = Field(description="the same, corrected over the whole list (Holm)")


class Verdict(StrEnum):
    """Verdict on a bound, by the interval of a median."""

    MET = "met"
    MISSED = "missed"
    UNDECIDED = "undecided"


class MetricSummary(Model):
    """A metric over the trials of a cell, with the exact order-statistic interval of its median."""

    n: int = Field(description="trials that have the metric")
    median: float | None = Field(description="median")
    mean: float | None = Field(description="arithmetic mean")
    stdev: float | None = Field(description="sample standard deviation (n - 1)")
    cov_percent: float | None = Field(description="coefficient of variation, 100 * stdev / |mean|")
    min: float | None = Field(description="smallest")
    max: float | None = Field(description="largest")
    ci95_low: float | None = Field(description="lower end of the exact 95 % interval of the median")
    ci95_high: float | None = Field(description="upper end of that interval")
    ci95_reason: str | None = Field(
        default=None, description="why there is no interval; null where there is one"
    )
    pairs: int | None = Field(
        default=None,
        description="of how many pairs of endpoints, where each has trials of its own: then median"
        " and interval are those of the medians of pairs; null else, and the interval is of the"
        " endpoints that were measured",
    )
    sessions: int | None = Field(
        default=None,
        description="of how many sessions, if an imported run has several: then median and interval"
        " are those of the medians of sessions; null else",
    )
    between_percent: float | None = Field(
        default=None,
        description="standard deviation between pairs, in percent of the mean; null without pairs",
    )
    within_percent: float | None = Field(
        default=None,
        description="standard deviation within a pair, in percent of the mean; null without pairs",
    )
    per_price: float | None = Field(
        default=None,
        description="of a rate that is better higher: median / hourly price of a VM of the cell,"
        " the mean one where they differ; null where a price is unknown, or currencies differ",
    )


class Cost(Model):
    """A sum of money. Currencies are never converted."""

    amount: float = Field(description="how much")
    currency: str = Field(description="ISO 4217")


class HourlyPrice(Cost):
    """The price of an hour of a VM."""

    region: str | None = Field(description="region that it holds for; null for all of them")
    date: datetime.date = Field(description="day on which it was in force")
    source: str = Field(description="who says so")


class RunInfo(Model):
    """Metadata of a run: what ran, when, and with which versions and seed."""

    id: str = Field(description="name of the run directory, SCENARIO-TIME-ID")
    scenario: str = Field(description="the scenario's name")
    description: str = Field(description="the scenario's description")
    scenario_digest: str | None = Field(
        description="sha256 of the scenario file; null if the run was imported"
    )
    provider: str | None = Field(
        description="kind of cloud, or of all sites, as in `aws+gce`; null if the run was imported"
        " and the files do not say"
    )
    sites: dict[str, str] = Field(
        default_factory=dict,
        description="kind of cloud of each site by its name, if it has several",
    )
    tags: dict[str, str] = Field(description="the scenario's tags")
    seed: int | None = Field(
        description="of the random order; the same file and seed give the same order; null if the"
        " run was imported"
    )
    started_at: datetime.datetime | None = Field(
        description="when the first start of the run began; null if an imported run does not say"
    )
    ended_at: datetime.datetime | None = Field(
        description="when the run ended; null if it was interrupted"
    )
    worked_s: float | None = Field(
        default=None,
        description="how long OSMeF worked on the run, without the time before it was resumed or"
        " extended, in seconds; null if it was imported, or is of an older version",
    )
    complete: bool = Field(description="whether every planned trial was run")
    session: str | None = Field(
        default=None,
        description="time slot of a campaign; null without a campaign, or of several sessions",
    )
    window: str | None = Field(
        default=None, description="name of the window that the session was in; null as well"
    )
    platform: str | None = Field(
        default=None,
        description="what the campaign calls what was measured: scenario, provider, class; null"
        " without a campaign",
    )
    vms_since: datetime.datetime | None = Field(
        default=None,
        description="since when its VMs exist, where a campaign kept them between sessions;"
        " null where they were made for this run",
    )
    vms_held_by: str | None = Field(
        default=None,
        description="the run directory whose journal has these VMs; null where it is this one",
    )
    versions: dict[str, str] = Field(description="osmef, agent protocol, python, kernel")
    warnings: list[str] = Field(description="what a reader of the numbers has to know")
    repeated: int = Field(
        default=0,
        description="failed trials that were measured again, each time counted; the newest record"
        " of a trial is the one that counts",
    )
    vm_hours: float | None = Field(
        default=None,
        description="how long the VMs existed, added up: each from when the run began to make it"
        " until all were gone, or while it used them if they were kept; null if the run was"
        " imported",
    )
    cost: Cost | None = Field(
        default=None,
        description="what these hours cost by price list, without traffic, disks and addresses;"
        " null where a price is unknown, or currencies differ",
    )


class EndpointInfo(Model):
    """An endpoint: what was asked for, what it really was, and its facts."""

    name: str = Field(
        description="ROLE-FLAVOR-HOST-TENANT as slots of the plan, or the host; with sites the site"
        " before it"
    )
    kind: EndpointKind | None = Field(
        description="what it is; null if an imported run does not say"
    )
    flavor: str | None = Field(
        description="the provider's name of its size; null for a physical host"
    )
    vcpus: int | None = Field(description="CPUs that it really got; null where unknown")
    image: str | None = Field(
        default=None, description="the cloud's id of its image; null where unknown"
    )
    network: str | None = Field(
        default=None,
        description="what its cloud says of the rate of its network, such as `Up to 10 Gigabit`;"
        " null where it says nothing",
    )
    requested: Location = Field(description="site, and host and tenant as slots of the plan")
    achieved: Location = Field(description="where it really is, read back from the cloud")
    earlier: list[Location] = Field(
        default_factory=list,
        description="where it was before it was recreated, with `on_mismatch: retry N`, or before"
        " the cloud moved it",
    )
    price: HourlyPrice | None = Field(
        default=None,
        description="what an hour of it costs by price list; null where that is not known, as of"
        " spare (spot) capacity",
    )
    data_address: str | None = Field(
        description="address at which it is measured, IPv4; null if an imported run does not say"
    )
    data_address6: str | None = Field(
        default=None, description="address at which it is measured, IPv6; null without one"
    )
    listen_address: str | None = Field(
        default=None,
        description="its own IPv4 address, where NAT translates data_address to it; else null",
    )
    warnings: list[str] = Field(description="what differs from what was asked for")
    agent_sha256: str | None = Field(
        description="SHA-256 of the agent that ran on it; null if the run was imported"
    )
    facts: dict[str, Any] = Field(
        description="facts before the first and after the last group; and `path_mtu_bytes`, of the"
        " paths to those that it sent to, by their names"
    )


class Expectation(Model):
    """Expectation of the scenario for a median of a cell, and its verdict."""

    metric: str = Field(description="name of the metric")
    expected: str = Field(description="the bound as the scenario has it")
    bound: float = Field(description="the same as a number, in the unit of the metric")
    verdict: Verdict = Field(
        strict=False,
        description="`met` where the whole 95 % interval of the median is within the bound,"
        " `missed` where none of it is, else `undecided`; without an interval, too",
    )


class CellInfo(Model):
    """A cell: its values, where its ends stood, and its metrics."""

    key: str = Field(description="the swept values in one text; `all` without a sweep")
    values: dict[str, Scalar] = Field(description="the swept values by name")
    workload: str = Field(description="kind of the workload")
    settings: dict[str, Any] = Field(
        default_factory=dict,
        description="what of the workload's settings is not as it is by default, swept ones among"
        " them",
    )
    background: str | None = Field(
        default=None, description="kind of the workload beside it; null without one"
    )
    senders: list[str] = Field(description="names of the sending endpoints")
    receivers: list[str] = Field(
        description="names of the receiving endpoints, every sender sends to each;"
        " the sender's for loopback"
    )
    placement: Placement | None = Field(
        description="as requested; null if an imported cell does not say"
    )
    tenancy: Tenancy | None = Field(
        description="as requested; null between two sites, or if an imported cell does not say"
    )
    achieved_placement: Placement | None = Field(
        description="read back from the cloud; null if it does not report, or pairs differ"
    )
    achieved_tenancy: Tenancy | None = Field(
        description="read back from the cloud; null where an end has no tenant"
    )
    distance: int | None = Field(
        description="from the achieved locations: 0, 2 or 4; null if they are not known, or not all"
        " pairs are equally far apart"
    )
    requested_distance: int | None = Field(
        description="from the requested placement and tenancy; null where the cloud decides"
    )
    mismatch: list[str] = Field(
        default_factory=list,
        description="what differs from the request, or is unknown: `placement`, `tenancy`,"
        " `distance`",
    )
    connections: int | None = Field(
        description="parallel connections of each pair; null for a workload without"
    )
    n_ok: int = Field(description="trials that went well")
    n_failed: int = Field(
        description="trials that failed; they are in trials.jsonl with the reason"
    )
    expectations: list[Expectation] = Field(
        default_factory=list, description="what the scenario expected of the medians (`expect`)"
    )
    price_per_hour: Cost | None = Field(
        default=None,
        description="what an hour of all its VMs costs; null where a price is unknown, or"
        " currencies differ",
    )
    repeat_until: float | None = Field(
        default=None,
        description="share of the median that the interval's ends had to come within"
        " (`repeat: {until: ...}`); intervals hold under repeated checks then; null with a fixed"
        " number of trials",
    )
    start_spread_s: float | None = Field(
        default=None,
        description="largest `start_spread_s` of these trials, seconds; null without any",
    )
    limited_by: dict[Bottleneck, int] = Field(
        default_factory=dict,
        description="what limited the measured connections of these trials: how many of them each",
    )
    metrics: dict[str, MetricSummary] = Field(
        description="one entry for each metric, over the trials that went well"
    )

    def median_of(self, metric: str) -> float | None:
        """Return the median of a metric; None if it was not measured."""
        found = self.metrics.get(metric)
        return found.median if found else None


class Summary(Model):
    """The result of a run, for machines. What is unknown is null."""

    schema_version: int = Field(
        default=SCHEMA_VERSION,
        description="grows by one with each change of this file; older versions still load",
    )
    run: RunInfo = Field(description="what ran, when, and with what")
    endpoints: list[EndpointInfo] = Field(description="every endpoint of the run")
    measures: list[Measure] = Field(
        description="what the metrics of the cells are, in the order in which they are declared"
    )
    cells: list[CellInfo] = Field(description="one entry for each cell, in the order of the sweep")
    layers: list[LayerCost] = Field(
        default_factory=list,
        description="what each layer costs, where `layer` was swept with `bare` among them",
    )

    @model_validator(mode="after")
    def _every_metric_has_a_measure(self) -> Summary:
        reported = {measure.name for measure in self.measures}
        if len(reported) < len(self.measures):
            raise ValueError("two of its measures have one name")
        names = dict.fromkeys(name for cell in self.cells for name in cell.metrics)
        unknown = [name for name in names if name not in reported]
        if unknown:
            raise ValueError(f"nothing in measures says what these are: {', '.join(unknown)}")
        return self


class Declared(Model):
    """What frames need of a summary: ``measures.json``, for as long as there is no summary."""

    schema_version: int = Field(default=SCHEMA_VERSION, description="as in the summary")
    scenario: str | None = Field(default=None, description="the scenario's name")
    provider: str | None = Field(default=None, description="as in the summary's run")
    flavors: dict[str, str | None] = Field(
        default_factory=dict, description="the flavor of each endpoint"
    )
    prices: dict[str, Cost] = Field(
        default_factory=dict, description="price_per_hour of each cell that has one"
    )
    repeat_until: dict[str, float] = Field(
        default_factory=dict, description="that of each cell that has one"
    )
    measures: list[Measure] = Field(description="as in the summary")

    @classmethod
    def of(cls, summary: Summary) -> Self:
        """Return it for a run, by its summary before the first trial."""
        cells = summary.cells
        return cls(
            scenario=summary.run.scenario,
            provider=summary.run.provider,
            flavors={end.name: end.flavor for end in summary.endpoints},
            prices={one.key: one.price_per_hour for one in cells if one.price_per_hour},
            repeat_until={one.key: one.repeat_until for one in cells if one.repeat_until},
            measures=summary.measures,
        )


def summary_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a summary as OSMeF writes it."""
    schema = Summary.model_json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "Summary of an OSMeF run",
    }
