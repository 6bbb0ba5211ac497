"""Conducting a campaign: what the commands ``run`` and ``start`` say of how, and ``--executor``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from osmef.campaigns.clock import RealClock
from osmef.campaigns.executor import Threads
from osmef.campaigns.holder import this_process
from osmef.campaigns.live import Live, forget, show_in
from osmef.campaigns.metrics import metrics_file
from osmef.campaigns.rows import Phase, Standing
from osmef.campaigns.score import Score
from osmef.campaigns.session import End, Measurer, Work
from osmef.cli.console import err
from osmef.engine.stop import Stop, stop_on_signals
from osmef.errors import InputError

if TYPE_CHECKING:
    from osmef.campaigns.conduct import Means
    from osmef.campaigns.store import Store

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


@dataclass(frozen=True)
class How:
    """How a campaign is conducted: what the options say."""

    executor: Kind
    parallel: int
    scheduler: str
    metrics: Path | None
    until_idle: bool = False

    def options(self) -> list[str]:
        """Return them as options of ``run``."""
        found = ["--parallel", str(self.parallel), "--executor", self.executor.value]
        found += ["--scheduler", self.scheduler] if self.scheduler else []
        found += ["--metrics", str(self.metrics.resolve())] if self.metrics else []
        return [*found, *(["--until-idle"] if self.until_idle else [])]


def conduct(store: Store, standing: Standing, score: Score, how: How, tell: Tell) -> Phase:
    """Conduct a campaign until it is over, or somebody stops it. Raises InputError."""
    from osmef.campaigns.conduct import Conductor  # noqa: PLC0415 - SQLAlchemy is slow to load

    with stop_on_signals(lambda text: err.print(f"[yellow]{text}[/]")) as stop:
        means = _means(how, stop, tell)
        try:
            with metrics_file(how.metrics, store, standing.name, tell):
                return Conductor(store, standing, score, means, stop).run()
        except BaseException:
            stop.request("the campaign has failed")  # what runs is cleaned up before we leave
            raise
        finally:
            means.executor.close()


def _means(how: How, stop: Stop, tell: Tell) -> Means:
    from osmef.campaigns.conduct import Means  # noqa: PLC0415 - SQLAlchemy is slow to load

    if how.executor is Kind.THREADS:
        measurer = Measurer(stop, partial(_Shown, tell))
        here = partial(_measure, measurer)
        return Means(
            this_process(),
            RealClock(),
            Threads(how.parallel),
            here,
            tell,
            measurer.halt,
            until_idle=how.until_idle,
        )
    if not how.scheduler:
        cure = "give --scheduler ADDRESS, as `dask scheduler` printed it"
        raise InputError("nobody knows where the Dask cluster is", where="--executor", cure=cure)
    try:
        from osmef.campaigns import away, dask  # noqa: PLC0415 - it takes a while to load
    except ModuleNotFoundError as error:
        message = f"--executor dask needs the Python package {error.name}, which is not installed"
        cure = "pip install 'osmef[dask]'"
        raise InputError(message, where="--executor", cure=cure) from error
    cluster = dask.Dask(how.scheduler, stop, tell)
    return Means(
        this_process(),
        RealClock(),
        cluster,
        away.measure,
        tell,
        cluster.halt,
        cluster.clear,
        until_idle=how.until_idle,
    )


class _Shown(Live):
    """Shows a session to who watches it, and tells what a reader of its numbers has to know."""

    def __init__(self, tell: Tell, work: Work) -> None:
        super().__init__(partial(show_in, Path(work.directory)))
        self._tell, self._name = tell, f"{work.slot} {work.platform}"

    def warning(self, text: str) -> None:
        """Tell it."""
        self._tell("note", f"{self._name}: {text}")


def _measure(measurer: Measurer, work: Work) -> End:
    try:
        return measurer.measure(work)
    finally:
        forget(Path(work.directory))
