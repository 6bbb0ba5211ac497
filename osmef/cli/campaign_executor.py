"""``--executor``: where the sessions of a campaign run."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from osmef.campaigns.clock import RealClock
from osmef.campaigns.executor import Threads
from osmef.campaigns.holder import this_process
from osmef.campaigns.keeper import Keeper
from osmef.campaigns.live import Live, forget, show_in
from osmef.campaigns.means import Means
from osmef.campaigns.model import Vms
from osmef.campaigns.read import Programme
from osmef.campaigns.session import End, Measurer, Work, measure
from osmef.engine.stop import Stop
from osmef.errors import InputError

Tell = Callable[[str, str], None]


class Kind(StrEnum):
    """Where sessions run."""

    THREADS = "threads"
    DASK = "dask"


ExecutorKind = Annotated[
    Kind,
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
        help="Sessions at once, on different clouds. Workers of Dask say themselves how many.",
    ),
]
Metrics = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Keep it up to date with metrics for Prometheus."),
]


def options_of(kind: Kind, parallel: int, scheduler: str, metrics: Path | None) -> list[str]:
    """Return the options of ``run`` that say so."""
    found = ["--parallel", str(parallel), "--executor", kind.value]
    found += ["--scheduler", scheduler] if scheduler else []
    return [*found, *(["--metrics", str(metrics.resolve())] if metrics else [])]


def check_executor(kind: Kind, programme: Programme) -> None:
    """Refuse to keep VMs on workers that may be lost, and with them the keys. Raises InputError."""
    if kind is Kind.DASK and programme.campaign.vms is Vms.KEPT:
        raise InputError(
            "a Dask cluster can't keep VMs from session to session",
            where=str(programme.path),
            cure="write vms: fresh, or run it with --executor threads",
        )


def make_means(kind: Kind, parallel: int, scheduler: str, stop: Stop, tell: Tell) -> Means:
    """Return what a conductor needs to run sessions there. Raises InputError."""
    if kind is Kind.THREADS:
        keeper = Keeper(RealClock())
        here = Measurer(stop, partial(_measure_here, tell=tell, keeper=keeper))
        return Means(
            this_process(),
            RealClock(),
            Threads(parallel),
            here.measure,
            tell,
            halt=here.halt,
            keeper=keeper,
        )
    if not scheduler:
        cure = "give --scheduler ADDRESS, as `dask scheduler` printed it"
        raise InputError("nobody knows where the Dask cluster is", where="--executor", cure=cure)
    try:
        from osmef.campaigns import away, dask  # noqa: PLC0415 - it takes a while to load
    except ModuleNotFoundError as error:
        message = f"--executor dask needs the Python package {error.name}, which is not installed"
        cure = "pip install 'osmef[dask]'"
        raise InputError(message, where="--executor", cure=cure) from error
    cluster = dask.Dask(scheduler, stop, tell)
    return Means(
        this_process(),
        RealClock(),
        cluster,
        away.measure,
        tell,
        halt=cluster.halt,
    )


class _Here(Live):
    """Shows what a session does, and tells what a reader of its numbers has to know."""

    def __init__(self, work: Work, tell: Tell) -> None:
        super().__init__(partial(show_in, Path(work.directory)))
        self._tell, self._name = tell, f"{work.slot} {work.platform}"

    def warning(self, text: str) -> None:
        """Tell it."""
        self._tell("note", f"{self._name}: {text}")


def _measure_here(work: Work, stop: Stop, tell: Tell, keeper: Keeper) -> End:
    directory = Path(work.directory)
    try:
        return measure(work, stop, _Here(work, tell), keeper)
    finally:
        forget(directory)
