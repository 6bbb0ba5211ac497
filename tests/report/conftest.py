from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import pandas as pd
import pytest

from osmef.analysis.describe import describe
from osmef.results.measure import Measure
from osmef.results.summary import CellInfo, EndpointInfo, RunInfo, Summary
from osmef.scenario.fields import EndpointKind, Placement, Tenancy
from osmef.scenario.location import Location
from osmef.scenario.study import Scalar
from tests.declared import measures_in, with_measures

RUN = RunInfo(
    id="vm-to-vm-20261121T031500Z-3f9a",
    scenario="vm-to-vm",
    description="The four placements",
    scenario_digest="0" * 64,
    provider="local",
    tags={},
    seed=42,
    started_at=datetime(2026, 11, 21, 3, 15, tzinfo=UTC),
    ended_at=datetime(2026, 11, 21, 3, 55, tzinfo=UTC),
    complete=True,
    versions={"osmef": "0.1.0"},
    warnings=[],
)


PLACES = (
    ("same-host", "same-tenant", 1.1e10),
    ("different-host", "same-tenant", 9.4e8),
    ("same-host", "different-tenant", 8.2e8),
    ("different-host", "different-tenant", 8.0e8),
)
"""The placements of the paper, and the aggregate rate of each, in bit/s."""
COUNTS = (1, 5, 10, 20, 30, 50)
"""Its numbers of connections."""


class PaperCell(NamedTuple):
    """A cell of the paper: its place, its connections, the rate of each trial, and its flavor."""

    placement: str
    tenancy: str
    connections: int
    aggregate_bps: list[float]
    swept: dict[str, Scalar]


def paper_cells(trials: int, flavors: Sequence[str], counts: Sequence[int]) -> Iterator[PaperCell]:
    """Yield the cells of the paper; each further flavor is faster by 30 %."""
    for size, flavor in enumerate(flavors or [""]):
        for placement, tenancy, rate in PLACES:
            for count in counts:
                top = rate * (1 + 0.3 * size) * (1 - count / 400)
                swept: dict[str, Scalar] = {"endpoints.sender.flavor": flavor} if flavor else {}
                bps = [top * (1 + 0.02 * (trial - trials / 2)) for trial in range(trials)]
                yield PaperCell(placement, tenancy, count, bps, swept)


def _distance(placement: Placement, tenancy: Tenancy) -> int:
    if tenancy is Tenancy.DIFFERENT_TENANT:
        return 4
    return 2 if placement is Placement.DIFFERENT_HOST else 0


@pytest.fixture(scope="session")
def make_cell() -> Callable[..., CellInfo]:
    """Make a cell of the scenario vm-to-vm from its place, its connections and its trials."""

    def make(
        placement: str = "different-host",
        tenancy: str = "same-tenant",
        connections: int = 1,
        aggregate_bps: Sequence[float | None] = (9.4e8,) * 6,
        **changes: object,
    ) -> CellInfo:
        per_connection = [None if bps is None else bps / connections for bps in aggregate_bps]
        extra = changes.pop("values", {})
        assert isinstance(extra, dict)
        values: dict[str, Scalar] = {
            "placement": placement,
            "tenancy": tenancy,
            "connections": connections,
            **extra,
        }
        distance = _distance(Placement(placement), Tenancy(tenancy))
        failed = sum(bps is None for bps in aggregate_bps)
        cell = CellInfo(
            key=",".join(f"{key}={value}" for key, value in values.items()),
            values=values,
            workload="btc",
            senders=["vm-1"],
            receivers=["vm-2"],
            placement=Placement(placement),
            tenancy=Tenancy(tenancy),
            achieved_placement=Placement(placement),
            achieved_tenancy=Tenancy(tenancy),
            distance=distance,
            requested_distance=distance,
            connections=connections,
            n_ok=len(aggregate_bps) - failed,
            n_failed=failed,
            metrics={
                "aggregate_btc_bps": describe(aggregate_bps),
                "connection_btc_bps": describe(per_connection),
                "jain_fairness": describe([0.998 for bps in aggregate_bps if bps]),
                "cpu_sender_percent": describe([21.4 for bps in aggregate_bps if bps]),
                "cpu_receiver_percent": describe([135.2 for bps in aggregate_bps if bps]),
                "retransmits": describe([12.0 for bps in aggregate_bps if bps]),
                "rtt_mean_us": describe([31250.0 for bps in aggregate_bps if bps]),
            },
        )
        return cell.model_copy(update=changes)

    return make


@pytest.fixture(scope="session")
def make_summary() -> Callable[..., Summary]:
    def make(
        *cells: CellInfo, kind: EndpointKind = EndpointKind.VM, others: Sequence[Measure] = ()
    ) -> Summary:
        endpoints = [
            EndpointInfo(
                name=name,
                kind=kind,
                flavor=None,
                vcpus=None,
                requested=Location(),
                achieved=Location(),
                data_address="10.1.0.5",
                warnings=[],
                agent_sha256="0" * 64,
                facts={},
            )
            for name in ("vm-1", "vm-2")
        ]
        measures = measures_in(cells, others)
        return Summary(run=RUN, endpoints=endpoints, measures=measures, cells=list(cells))

    return make


@pytest.fixture(scope="session")
def paper_summary(
    make_cell: Callable[..., CellInfo], make_summary: Callable[..., Summary]
) -> Callable[..., Summary]:
    """Make a summary of the paper: four placements, 1 to 50 connections, six trials each."""

    def make(
        trials: int = 6, flavors: Sequence[str] = (), counts: Sequence[int] = COUNTS
    ) -> Summary:
        cells = paper_cells(trials, flavors, counts)
        return make_summary(*(make_cell(*place, values=swept) for *place, swept in cells))

    return make


@pytest.fixture(scope="session")
def make_trials() -> Callable[..., pd.DataFrame]:
    """Make trials of one cell, as `osmef.load` gives them, from its place and its rates."""

    def make(
        placement: str = "different-host",
        tenancy: str = "same-tenant",
        connections: int | None = 1,
        aggregate_bps: Sequence[float | None] = (9.4e8,) * 6,
        **changes: object,
    ) -> pd.DataFrame:
        swept = {k: v for k, v in changes.items() if k not in (*FIXED, *METRICS)}
        values = {"placement": placement, "tenancy": tenancy, "connections": connections, **swept}
        good = [bps is not None for bps in aggregate_bps]
        rates = [float("nan") if bps is None else bps for bps in aggregate_bps]
        fixed = {
            "run": RUN.id, "scenario": RUN.scenario, "provider": "local",
            "cell": ",".join(f"{key}={value}" for key, value in values.items()),
            "trial": range(1, len(rates) + 1), "session": None,
            "senders": "vm-1", "receivers": "vm-2", "placement": placement, "tenancy": tenancy,
            "achieved_placement": placement, "achieved_tenancy": tenancy,
            "distance": _distance(Placement(placement), Tenancy(tenancy)),
            "connections": connections, **swept, "status": "ok", "workload": "btc",
            "aggregate_btc_bps": rates,
            "connection_btc_bps": [bps / (connections or 1) for bps in rates],
            "jain_fairness": [0.998 if ok else None for ok in good],
            "cpu_sender_percent": [21.4 if ok else None for ok in good],
            "cpu_receiver_percent": [135.2 if ok else None for ok in good],
        }  # fmt: skip
        frame = pd.DataFrame({**fixed, **changes}, index=range(len(rates)))
        return with_measures(frame.astype({"distance": "Int64", "connections": "Int64"}), swept)

    return make


FIXED = ("run", "scenario", "provider", "cell", "session", "senders", "receivers", "distance",
         "achieved_placement", "achieved_tenancy", "workload", "status")  # fmt: skip
METRICS = ("aggregate_btc_bps", "connection_btc_bps", "jain_fairness", "offered_bps",
           "loss_percent", "jitter_us", "mops", "time_s")  # fmt: skip


@pytest.fixture(scope="session")
def paper(make_trials: Callable[..., pd.DataFrame]) -> Callable[..., pd.DataFrame]:
    """Make the trials of the paper, as `paper_summary` makes their summary."""

    def make(
        trials: int = 6, flavors: Sequence[str] = (), counts: Sequence[int] = COUNTS
    ) -> pd.DataFrame:
        cells = paper_cells(trials, flavors, counts)
        frames = [make_trials(*place, **swept) for *place, swept in cells]
        return pd.concat(frames, ignore_index=True)

    return make
