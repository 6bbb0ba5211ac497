"""``--executor``: where the sessions of a campaign run."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from osmef.campaigns.clock import RealClock
from osmef.campaigns.conduct import Means
from osmef.campaigns.executor import Threads
from osmef.campaigns.holder import this_process
from osmef.campaigns.live import Live, forget, show_in
from osmef.campaigns.session import End, Work, measure
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


def make_means(kind: Kind, parallel: int, scheduler: str, stop: Stop, tell: Tell) -> Means:
    """Return what a conductor needs to run sessions there. Raises InputError."""
    if kind is Kind.THREADS:
        here = partial(_measure_here, stop=stop)
        return Means(this_process(), RealClock(), Threads(parallel), here, tell)
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
    return Means(this_process(), RealClock(), cluster, away.measure, tell, clear=cluster.clear)


def _measure_here(work: Work, stop: Stop) -> End:
    directory = Path(work.directory)
    try:
        return measure(work, stop, Live(partial(show_in, directory)))
    finally:
        forget(directory)
