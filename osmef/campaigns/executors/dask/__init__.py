"""Sessions on the workers of a Dask cluster. Nothing outside this folder imports Dask."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from osmef.engine.cancellation import CancellationToken
from osmef.errors import InputError

if TYPE_CHECKING:
    from osmef.campaigns.executors.dask.executor import DaskExecutor
    from osmef.campaigns.executors.session import Measure


def connect(
    scheduler: str, stop: CancellationToken, notify: Callable[[str, str], None]
) -> tuple[DaskExecutor, Measure]:
    """Return the executor at a scheduler's address, and the function that its workers run.

    Raises InputError where Dask is not installed or no scheduler answers.
    """
    if not scheduler:
        cure = "give --scheduler ADDRESS, as `dask scheduler` printed it"
        raise InputError(
            "the address of the Dask cluster is missing", where="--executor", cure=cure
        )
    try:
        # It takes a while to load.
        from osmef.campaigns.executors.dask.executor import DaskExecutor  # noqa: PLC0415
        from osmef.campaigns.executors.dask.worker import measure  # noqa: PLC0415
    except ModuleNotFoundError as error:
        message = f"--executor dask needs the Python package {error.name}, which is not installed"
        cure = "pip install 'osmef[dask]'"
        raise InputError(message, where="--executor", cure=cure) from error
    return DaskExecutor(scheduler, stop, notify), measure
