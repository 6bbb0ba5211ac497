"""Options of campaigns: ``--state``, their database, and ``--executor``, where sessions run."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from osmef.campaigns.conductor.cleanup import ConductorContext
from osmef.campaigns.executors import dask
from osmef.campaigns.executors.session import (
    CancellableSessions,
    SessionJob,
    SessionResult,
    ThreadExecutor,
    measure,
)
from osmef.campaigns.process_identity import this_process
from osmef.campaigns.schedule.calendar import RealClock
from osmef.campaigns.schedule.load import LoadedCampaign
from osmef.campaigns.schedule.model import Vms
from osmef.campaigns.vm_pool import VmPool
from osmef.campaigns.watching.monitoring import LiveStatus, forget, show_in
from osmef.cli.completion import complete_campaign
from osmef.engine.cancellation import CancellationToken
from osmef.errors import InputError
from osmef.files import real_path

STATE = "OSMEF_STATE"
"""The variable of the environment that names it."""

CampaignName = Annotated[
    str,
    typer.Argument(help="Name of a campaign.", metavar="NAME", autocompletion=complete_campaign),
]

StateUrl = Annotated[
    str,
    typer.Option(
        "--state",
        metavar="URL",
        envvar=STATE,
        help="Database of campaigns, as SQLAlchemy names it; by default SQLite in your home.",
    ),
]


NotifyCallback = Callable[[str, str], None]


class ExecutorKind(StrEnum):
    """Executor that runs sessions."""

    THREADS = "threads"
    DASK = "dask"


ExecutorOption = Annotated[
    ExecutorKind,
    typer.Option("--executor", help="Run sessions here, or on the workers of a Dask cluster."),
]
Scheduler = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        envvar="DASK_SCHEDULER_ADDRESS",
        help="With --executor dask: its scheduler, such as tls://10.0.0.1:8786.",
    ),
]


Parallel = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        max=1000,
        help="Sessions at once, on different clouds. Workers of Dask declare theirs.",
    ),
]
Metrics = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File of metrics for Prometheus, kept up to date."),
]


def options_of(
    kind: ExecutorKind, parallel: int, scheduler: str, metrics: Path | None
) -> list[str]:
    """Return the options of ``run`` that select an executor."""
    found = ["--parallel", str(parallel), "--executor", kind.value]
    found += ["--scheduler", scheduler] if scheduler else []
    return [*found, *(["--metrics", str(real_path(metrics))] if metrics else [])]


def check_executor(kind: ExecutorKind, loaded: LoadedCampaign) -> None:
    """Refuse a VM pool on workers, which may be lost with its keys. Raises InputError."""
    if kind is ExecutorKind.DASK and loaded.campaign.vms is Vms.KEPT:
        raise InputError(
            "a Dask cluster can't keep VMs from session to session",
            where=str(loaded.path),
            cure="write vms: fresh, or run it with --executor threads",
        )


def make_context(
    kind: ExecutorKind,
    parallel: int,
    scheduler: str,
    stop: CancellationToken,
    notify: NotifyCallback,
) -> ConductorContext:
    """Return the dependencies of a conductor with this executor. Raises InputError."""
    if kind is ExecutorKind.THREADS:
        vm_pool = VmPool(RealClock())
        here = CancellableSessions(stop, partial(_measure_here, notify=notify, vm_pool=vm_pool))
        return ConductorContext(
            this_process(),
            RealClock(),
            ThreadExecutor(parallel),
            here.measure,
            notify,
            halt=here.halt,
            vm_pool=vm_pool,
        )
    cluster, measure_there = dask.connect(scheduler, stop, notify)
    return ConductorContext(
        this_process(),
        RealClock(),
        cluster,
        measure_there,
        notify,
        halt=cluster.halt,
    )


class _Here(LiveStatus):
    """Observer that publishes the live status and prints warnings."""

    def __init__(self, work: SessionJob, notify: NotifyCallback) -> None:
        super().__init__(partial(show_in, Path(work.directory)))
        self._notify, self._name = notify, f"{work.slot} {work.platform}"

    def warning(self, text: str) -> None:
        """Print a warning."""
        self._notify("note", f"{self._name}: {text}")


def _measure_here(
    work: SessionJob, stop: CancellationToken, notify: NotifyCallback, vm_pool: VmPool
) -> SessionResult:
    directory = Path(work.directory)
    try:
        return measure(work, stop, _Here(work, notify), vm_pool)
    finally:
        forget(directory)
