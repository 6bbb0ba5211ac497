"""A Dask cluster as the executor sees it: workers with tags, jobs, letters and replies."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import Client, KilledWorker, Queue
from distributed import Future as DaskFuture

from osmef.campaigns.executors.dask.worker import ControllerReply, WorkerMessage, attend
from osmef.errors import InputError

SLOTS = "osmef"
"""The resource of a worker that says how many sessions it runs at once."""

Ended = Callable[[str, object], None]

Job = Callable[[Path], Any]
"""What a worker does with its copy of a run directory; it travels to it by pickle."""


@dataclass(frozen=True)
class Worker:
    """A worker. Its tags are Dask's resources: ``osmef``, and each provider that it measures."""

    address: str
    host: str
    tags: Mapping[str, float]

    @property
    def slots(self) -> int:
        """How many sessions it runs at once."""
        return int(self.tags.get(SLOTS, 0))

    def takes(self, provider: str) -> bool:
        """Tell whether it measures a provider of the campaign; "" is the scenario's own."""
        return self.slots > 0 and (not provider or self.tags.get(provider, 0) >= 1)


class Lost(Exception):  # noqa: N818 - it says what became of a worker
    """The worker of a job was lost."""


@dataclass(frozen=True)
class Assignment:
    """A job for a worker, and the name and files of its run directory.

    ``token`` names this attempt, ``provider`` what it measures.
    """

    token: str
    provider: str
    job: Job
    name: str
    files: Mapping[str, bytes]


class Cluster:
    """The connection to a scheduler. Raises OSError and TimeoutError where it is lost.

    To begin and to end it may take ``connect_s`` seconds each.
    """

    def __init__(self, address: str, connect_s: float) -> None:
        self._connect_s = connect_s
        try:
            self._client = Client(address, timeout=connect_s, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(
                f"no Dask scheduler answers: {error}",
                where=f"--scheduler {address}",
                cure="start one with `dask scheduler`, and see that its address is right",
            ) from error
        self._office = f"osmef-{uuid.uuid4().hex}"
        self._letters = Queue(self._office, client=self._client)
        self._backs: dict[str, Queue] = {}

    def workers(self) -> dict[str, Worker]:
        """Return the workers that are there now, by their addresses."""
        found = self._client.scheduler_info(n_workers=-1)["workers"]
        return {
            address: Worker(address, one["host"], one.get("resources") or {})
            for address, one in found.items()
        }

    def submit(self, given: Assignment, to: Sequence[Worker], ended: Ended) -> DaskFuture:
        """Give a job to one of these workers; ``ended`` gets its token, and what became of it."""
        tags = {SLOTS: 1.0} | ({given.provider: 1.0} if given.provider else {})
        sent: DaskFuture = self._client.submit(
            attend,
            given.job,
            self._office,
            given.token,
            given.name,
            given.files,
            key=given.token,
            workers=[one.address for one in to],
            resources=tags,
            retries=0,
            pure=False,
        )
        sent.add_done_callback(lambda one: ended(given.token, _outcome(one)))
        return sent

    def letters(self, timeout_s: float) -> list[WorkerMessage]:
        """Return what workers have sent; wait for the first a while."""
        try:
            first = self._letters.get(timeout=timeout_s)
        except TimeoutError:
            return []
        return [WorkerMessage(*one) for one in (first, *self._letters.get(batch=True))]

    def reply(self, back: str, replies: Sequence[ControllerReply]) -> None:
        """Send replies to a worker, all in one message."""
        if back not in self._backs:
            self._backs[back] = Queue(back, client=self._client)
        self._backs[back].put([tuple(vars(one).values()) for one in replies])

    def beat(self, backs: Set[str]) -> None:
        """Tell these workers that we live, and forget how to reply to others."""
        for back in self._backs.keys() - backs:
            self._backs.pop(back).close()
        for back in backs:
            self.reply(back, [ControllerReply("", 0, None)])

    @property
    def is_there(self) -> bool:
        """Whether the connection to the scheduler has not been lost."""
        return bool(self._client.status == "running")

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError, TimeoutError, RuntimeError):
            self._client.close(timeout=self._connect_s)


def _outcome(sent: DaskFuture) -> object:
    """Return what a job returned or raised; Lost where Dask says that it lost it."""
    try:
        return sent.result()
    except (CancelledError, KilledWorker):
        return Lost()
    except Exception as error:
        return error
