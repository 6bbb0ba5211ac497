from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from osmef.results.rundir import RunDirectory
from osmef.results.trial import Interval, Trial
from osmef.scenario.fields import Placement, Tenancy

BASE = Trial(
    index=0,
    cell="connections=1",
    repetition=0,
    group=0,
    values={"connections": 1},
    senders=["vm-1"],
    receivers=["vm-2"],
    placement=Placement.DIFFERENT_HOST,
    tenancy=Tenancy.SAME_TENANT,
    distance=2,
    workload="btc",
    started_at=datetime(2026, 11, 21, 3, 15, tzinfo=UTC),
    wall_s=1.25,
    status="ok",
    metrics={"aggregate_btc_bps": 9.4e8, "retransmits": None},
)


@pytest.fixture(scope="session")
def make_trial() -> Callable[..., Trial]:
    def make(index: int, **changes: object) -> Trial:
        return BASE.model_copy(update={"index": index, **changes})

    return make


@pytest.fixture(scope="session")
def make_intervals() -> Callable[[int], list[Interval]]:
    def make(trial: int) -> list[Interval]:
        return [
            Interval(
                trial=trial,
                endpoint=f"vm-{1 + (role == 'receiver')}",
                role=role,
                flow=flow,
                start_s=float(second),
                length_s=1.0,
                bytes=1000 * trial + flow,
                retransmits=second if role == "sender" else None,
                rtt_us=31.5,
                cwnd=10 if role == "sender" else None,
            )
            for role in ("sender", "receiver")
            for flow in range(2)
            for second in range(3)
        ]

    return make


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDirectory]:
    with RunDirectory.create(
        tmp_path / "results", "quickstart", "name: quickstart\n", ".yaml"
    ) as run:
        yield run
