"""Executor on a Dask cluster: each session on a worker whose resources include its provider.

The controller keeps the run directory, and a worker works on a copy of it (``worker``). A lost
worker loses only the trial it was in: the next worker destroys the orphans in the journal, and
continues with the missing trials. Dask's own retry of a lost job is refused.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, cast

from distributed import Client, KilledWorker, Queue
from distributed import Future as DaskFuture

import osmef
from osmef.campaigns.executors.dask.worker import (
    BEAT_S,
    ControllerReply,
    MessageKind,
    WorkerMessage,
    run_job,
)
from osmef.campaigns.executors.session import (
    Measure,
    SessionJob,
    SessionResult,
    clear,
    open_many_files,
)
from osmef.campaigns.watching.monitoring import LIVE, forget, show_in
from osmef.engine.cancellation import CancellationToken
from osmef.engine.events import Event, WorkerAssigned, WorkerLost
from osmef.engine.journal import Journal
from osmef.errors import InputError, Interrupted, OsmefError, StorageError
from osmef.files import exists
from osmef.providers import AMBIENT
from osmef.providers.base import Resource
from osmef.results.files import append_line, files_below, storage, write_atomically
from osmef.results.rundir import RunDirectory

SLOTS = "osmef"
"""The resource of a worker that says how many sessions it runs at once."""

Ended = Callable[[str, object], None]

Job = Callable[[Path], Any]
"""What a worker does with its copy of a run directory; it travels to it by pickle."""


@dataclass(frozen=True)
class Worker:
    """A worker. Its Dask resources are ``osmef``, and each provider that it may measure."""

    address: str
    host: str
    tags: Mapping[str, float]

    @property
    def slots(self) -> int:
        """How many sessions it runs concurrently."""
        return int(self.tags.get(SLOTS, 0))

    def may_measure(self, provider: str) -> bool:
        """Return whether it may measure a provider of the campaign; "" is the scenario's own."""
        return self.slots > 0 and (not provider or self.tags.get(provider, 0) >= 1)


class WorkerLostError(Exception):
    """The worker of a job was lost."""


@dataclass(frozen=True)
class WorkerJob:
    """A task for a worker, with the name and files of its run directory.

    ``token`` names this attempt, ``provider`` what it measures.
    """

    token: str
    provider: str
    job: Job
    name: str
    files: Mapping[str, bytes]


class Cluster:
    """The connection to a scheduler. Raises OSError and TimeoutError when it is lost.

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
        self._queue_name = f"osmef-{uuid.uuid4().hex}"
        self._messages = Queue(self._queue_name, client=self._client)
        self._addresses: dict[str, Queue] = {}

    def workers(self) -> dict[str, Worker]:
        """Return the present workers by address."""
        found = self._client.scheduler_info(n_workers=-1)["workers"]
        return {
            address: Worker(address, one["host"], one.get("resources") or {})
            for address, one in found.items()
        }

    def submit(self, given: WorkerJob, to: Sequence[Worker], ended: Ended) -> DaskFuture:
        """Submit a task to one of these workers; ``ended`` gets its token and outcome."""
        tags = {SLOTS: 1.0} | ({given.provider: 1.0} if given.provider else {})
        sent: DaskFuture = self._client.submit(
            run_job,
            given.job,
            self._queue_name,
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

    def messages(self, timeout_s: float) -> list[WorkerMessage]:
        """Return the messages of workers; wait a limited time for the first."""
        try:
            first = self._messages.get(timeout=timeout_s)
        except TimeoutError:
            return []
        return [WorkerMessage(*one) for one in (first, *self._messages.get(batch=True))]

    def reply(self, address: str, replies: Sequence[ControllerReply]) -> None:
        """Send replies to a worker in one message."""
        if address not in self._addresses:
            self._addresses[address] = Queue(address, client=self._client)
        self._addresses[address].put([tuple(vars(one).values()) for one in replies])

    def send_heartbeats(self, addresses: Set[str]) -> None:
        """Send a heartbeat to these workers, and drop the reply channels of others."""
        for address in self._addresses.keys() - addresses:
            self._addresses.pop(address).close()
        for address in addresses:
            self.reply(address, [ControllerReply("", 0, None)])

    @property
    def is_connected(self) -> bool:
        """Whether the scheduler is connected."""
        return bool(self._client.status == "running")

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError, TimeoutError, RuntimeError):
            self._client.close(timeout=self._connect_s)


def _outcome(sent: DaskFuture) -> object:
    """Return the result or exception of a task; Lost if Dask lost its worker."""
    try:
        return sent.result()
    except (CancelledError, KilledWorker):
        return WorkerLostError()
    except Exception as error:
        return error


_MOST_LOSSES = 3
_RECONNECT_S = 10.0

NotifyCallback = Callable[[str, str], None]
_TAKEN_BACK = "the controller has given this session to another worker"
_STAY_HERE = {"lock", LIVE}


@dataclass(frozen=True)
class ClusterTimeouts:
    """Time-outs of a cluster, in seconds.

    ``connect_s`` is for its scheduler to answer, ``worker_s`` for a worker that takes a session.
    ``look_s`` lies between two looks at which workers are there.
    """

    connect_s: float = 10.0
    worker_s: float = 120.0
    look_s: float = 2.0


USUAL = ClusterTimeouts()


@dataclass(eq=False)
class _DaskTask:
    """A task between submission and end. ``what`` names it in messages.

    ``bound`` is the machine whose worker alone can do it. It is looked for in the journal when the
    job is sent: to look again for each of thousands that wait takes longer than they do.
    """

    job: Job
    provider: str
    what: str
    copy: RunMirror
    future: Future[object] = field(default_factory=Future)
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    since: float = field(default_factory=time.monotonic)
    sent: DaskFuture | None = None
    worker: Worker | None = None
    bound: str | None = None
    address: str | None = None
    losses: int = 0
    only_cleanup: bool = False
    noted: bool = False
    session: int | None = None
    halted: str | None = None


class DaskExecutor:
    """Executor on a cluster. Cancellation reaches workers; ``notify`` is called for lost ones."""

    def __init__(
        self,
        address: str,
        stop: CancellationToken,
        notify: NotifyCallback,
        waits: ClusterTimeouts = USUAL,
    ) -> None:
        open_many_files()
        self._address, self._stop, self._notify, self._waits = address, stop, notify, waits
        self._cluster: Cluster | None = Cluster(address, waits.connect_s)
        self._workers = self._cluster.workers()
        self._tasks: dict[str, _DaskTask] = {}
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._beaten = self._looked = 0.0
        self._thread = threading.Thread(target=self._serve, name="dask", daemon=True)
        self._thread.start()

    @property
    def capacity(self) -> int:
        """How many sessions all workers run concurrently."""
        return sum(one.slots for one in list(self._workers.values()))

    def submit(self, measure: Measure, work: SessionJob) -> Future[SessionResult]:
        """Start a session on a worker, which gets ``measure`` by pickle."""
        what = f"{work.slot} {work.platform}"
        job = partial(_measure, measure, work)
        make = partial(_DaskTask, job, work.provider, what, session=work.session)
        return cast("Future[SessionResult]", self._submit(Path(work.directory), make))

    def halt(self, session: int) -> None:
        """Cancel a session whose lease another process has taken over."""
        with self._lock:
            for task in self._tasks.values():
                if task.session == session:
                    task.halted = "another process has taken the session over"

    def clear(self, directory: Path, provider: str) -> Future[None]:
        """Destroy leftover resources of a session, on a worker."""
        make = partial(_DaskTask, clear, provider, directory.name, only_cleanup=True)
        return cast("Future[None]", self._submit(directory, make))

    def close(self) -> None:
        """Disconnect. Running sessions are cancelled when their heartbeats time out."""
        self._closed.set()
        self._thread.join()
        with self._lock:
            for task in list(self._tasks.values()):
                self._end(task, Interrupted("the campaign's conductor has ended"))
        if self._cluster is not None:
            self._cluster.close()

    def _submit(self, directory: Path, make: Callable[[RunMirror], _DaskTask]) -> Future[object]:
        try:
            task = make(RunMirror(directory))
        except StorageError as error:
            failed: Future[object] = Future()
            failed.set_exception(error)
            return failed
        with self._lock:
            self._tasks[task.token] = task
            self._dispatch(task)
        return task.future

    def _fitting(self, task: _DaskTask) -> list[Worker]:
        fit = [one for one in self._workers.values() if one.may_measure(task.provider)]
        return [one for one in fit if task.bound in {None, one.host}]

    def _dispatch(self, task: _DaskTask) -> None:
        """Submit a task if a suitable worker has capacity."""
        try:
            task.bound = task.copy.bound_to
            to = self._fitting(task)
            if self._cluster is None or not to:
                return
            files = task.copy.files()
            given = WorkerJob(task.token, task.provider, task.job, task.copy.path.name, files)
            task.sent = self._cluster.submit(given, to, self._ended)
        except StorageError as error:
            self._end(task, error)

    def _ended(self, token: str, outcome: object) -> None:
        """Handle the end of a Dask task; results of tasks that were withdrawn are dropped."""
        with self._lock:
            task = self._tasks.get(token)
            if task is None:
                return
            if isinstance(outcome, WorkerLostError):
                if self._cluster is not None and self._cluster.is_connected:
                    self._lose(task)
            elif isinstance(outcome, Exception) and task.worker is None:
                cure = "install the same OSMeF and Python there as here"
                self._end(task, OsmefError(f"a worker could not begin: {outcome}", cure=cure))
            else:
                self._end(task, outcome)

    def _end(self, task: _DaskTask, outcome: object) -> None:
        self._withdraw(task)
        try:
            task.copy.close()
        except StorageError as error:
            outcome = error
        if isinstance(outcome, Exception):
            task.future.set_exception(outcome)
        else:
            task.future.set_result(outcome)

    def _withdraw(self, task: _DaskTask) -> None:
        """Cancel a task: later messages of its worker are refused."""
        del self._tasks[task.token]
        if task.sent is not None:
            task.sent.cancel()
        task.sent = task.worker = task.address = None

    def _again(self, task: _DaskTask) -> None:
        """Resubmit a task to another worker."""
        self._withdraw(task)
        task.token, task.since = uuid.uuid4().hex, time.monotonic()
        self._tasks[task.token] = task
        self._dispatch(task)

    def _lose(self, task: _DaskTask) -> None:
        """Resubmit the task of a lost worker; after the third loss, or a stop, only clean up."""
        task.losses += 1
        where = task.worker.address if task.worker else "of the cluster"
        self._notify("gap", f"{task.what}: the worker {where} is lost, another takes its place")
        with suppress(StorageError):
            task.copy.note(WorkerLost(where))
        reason = task.halted or self._stop.reason
        why = (
            Interrupted(reason) if reason else OsmefError(f"{task.losses} workers were lost in it")
        )
        if task.losses > 2 * _MOST_LOSSES:
            self._end(task, why)
            return
        if not task.only_cleanup and (reason or task.losses >= _MOST_LOSSES):
            task.job, task.only_cleanup = partial(_report_lost, why), True
        self._again(task)

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                if self._cluster is None:
                    self._cluster = Cluster(self._address, self._waits.connect_s)
                self._turn(self._cluster)
            except (OSError, TimeoutError, RuntimeError, InputError) as error:
                self._lose_cluster(error)
                self._closed.wait(_RECONNECT_S)

    def _lose_cluster(self, error: Exception) -> None:
        """Reschedule all sessions: workers cancel theirs when heartbeats time out."""
        with self._lock:
            cluster, self._cluster, self._workers = self._cluster, None, {}
            for task in list(self._tasks.values()):
                self._end(task, OsmefError("the Dask cluster is gone", where=self._address))
        if cluster is not None:
            self._notify("failure", f"the Dask cluster is gone: {error}")
            cluster.close()

    def _turn(self, cluster: Cluster) -> None:
        """Handle messages, check the liveness of workers, and send heartbeats."""
        replies: dict[str, list[ControllerReply]] = {}
        for message in cluster.messages(self._waits.look_s / 2):
            with self._lock:
                problem = self._take(message)
            if message.number:
                reply = ControllerReply(message.token, message.number, problem)
                replies.setdefault(message.address, []).append(reply)
        for address, those in replies.items():
            cluster.reply(address, those)
        now = time.monotonic()
        if now - self._looked >= self._waits.look_s:
            self._looked = now
            workers = cluster.workers()
            with self._lock:
                self._workers = workers
                for task in list(self._tasks.values()):
                    self._monitor(task)
                halts = self._halts()
            for address, those in halts.items():
                cluster.reply(address, those)
        if now - self._beaten >= BEAT_S:
            self._beaten = now
            with self._lock:
                addresses = {task.address for task in self._tasks.values() if task.address}
            cluster.send_heartbeats(addresses)

    def _why_not(self, task: _DaskTask) -> str | None:
        return None if task.only_cleanup else task.halted or self._stop.reason

    def _halts(self) -> dict[str, list[ControllerReply]]:
        """Return the cancellation messages for workers, by reply queue."""
        found: dict[str, list[ControllerReply]] = {}
        for task in self._tasks.values():
            reason = self._why_not(task)
            if reason and task.address:
                found.setdefault(task.address, []).append(ControllerReply(task.token, 0, reason))
        return found

    def _monitor(self, task: _DaskTask) -> None:
        reason = self._why_not(task)
        if task.worker is not None:
            if task.worker.address not in self._workers:
                self._lose(task)
        elif reason:
            self._end(task, Interrupted(reason))
        elif self._fitting(task):
            if task.sent is None:
                self._dispatch(task)
        elif time.monotonic() - task.since > self._waits.worker_s:
            self._end(task, self._no_worker(task))
        elif task.sent is not None:
            since = task.since
            self._again(task)
            task.since = since

    def _no_worker(self, task: _DaskTask) -> OsmefError:
        tags = " ".join(f"{tag}=8" for tag in ("osmef", task.provider) if tag)
        if task.bound is None:
            cure = f"start one: dask worker {self._address} --resources '{tags}'"
            return OsmefError(f"no worker has {tags.replace('=8', '')}", cure=cure)
        cure = f"start a worker there: dask worker {self._address} --resources '{tags}'"
        return OsmefError(f"only {task.bound} can destroy what was created there", cure=cure)

    def _take(self, message: WorkerMessage) -> str | None:
        """Handle a message; return an error message if that fails."""
        task = self._tasks.get(message.token)
        if task is None:
            return _TAKEN_BACK
        try:
            if message.kind == MessageKind.HELLO:
                return self._admit_worker(task, message)
            if message.kind == MessageKind.APPEND:
                task.copy.append(message.path, message.data)
                self._note_worker(task)
            elif message.kind == MessageKind.WRITE:
                task.copy.write(message.path, message.data)
            elif message.kind == MessageKind.WARN:
                self._notify("note", f"{task.what}: {message.data.decode()}")
            else:
                task.copy.show(message.data)
        except StorageError as error:
            return str(error)
        return None

    def _admit_worker(self, task: _DaskTask, message: WorkerMessage) -> str | None:
        """Admit a worker to a task, unless Dask has assigned the task twice."""
        address, _, version = message.data.decode().partition(" ")
        if task.worker is not None:
            self._lose(task)
            return _TAKEN_BACK
        if version != osmef.__version__:
            return f"the worker has OSMeF {version}, its controller {osmef.__version__}"
        if address not in self._workers and self._cluster is not None:
            self._workers = self._cluster.workers()
        task.worker = self._workers.get(address)
        if task.worker is None:
            self._again(task)
            return _TAKEN_BACK
        task.address, task.noted = message.address, False
        return None

    def _note_worker(self, task: _DaskTask) -> None:
        """Record the worker's machine in the journal, before any resource is created."""
        if task.worker is not None and not task.noted:
            reported = WorkerAssigned(task.worker.host, task.worker.address)
            task.noted = task.copy.note(reported)


def _measure(measure: Measure, work: SessionJob, directory: Path) -> SessionResult:
    return measure(replace(work, directory=str(directory)))


def _report_lost(why: OsmefError, directory: Path) -> None:
    clear(directory)
    raise why


class RunMirror:
    """The controller's mirror of a worker's run directory, locked until ``close``.

    Methods raise StorageError.
    """

    def __init__(self, path: Path) -> None:
        with storage("make a run directory", path):
            path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._directory = RunDirectory(path)
        self._directory.acquire()
        self._journal = Journal(self._directory.journal)

    def files(self) -> dict[str, bytes]:
        """Return the files that a worker needs to resume: all but tables, if there is a journal."""
        if not exists(self._journal.path):
            return {}
        with storage("read", self.path):
            return {
                str(path.relative_to(self.path)): path.read_bytes()
                for path in files_below(self.path)
                if _is_transferable(path)
            }

    def append(self, name: str, line: bytes) -> None:
        """Append a line to a file."""
        append_line(self._path_of(name), line)

    def write(self, name: str, data: bytes) -> None:
        """Write a file."""
        path = self._path_of(name)
        with storage("make a directory", path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)

    def show(self, data: bytes) -> None:
        """Update the live status of the session."""
        show_in(self.path, data.decode())

    def note(self, event: Event) -> bool:
        """Append to the journal if it exists; return whether it does."""
        begun = exists(self._journal.path)
        if begun:
            self._journal.note(event)
        return begun

    @property
    def bound_to(self) -> str | None:
        """The only machine that can destroy the leftover resources; None where any can."""
        if not any(_is_of_a_machine(one) for one in self._journal.existing()):
            return None
        assigned = self._journal.history().all(WorkerAssigned)
        return assigned[-1].host if assigned else None

    def close(self) -> None:
        """Merge partial tables, and release the lock."""
        try:
            forget(self.path)
            self._directory.finish()
        finally:
            self._directory.close()

    def _path_of(self, name: str) -> Path:
        parts = PurePosixPath(name)
        if parts.is_absolute() or ".." in parts.parts:
            raise StorageError("a worker named a file outside its run directory", where=name)
        return self.path / name


def _is_transferable(path: Path) -> bool:
    is_table = path.suffix == ".parquet" or path.parent.name == "intervals"
    return not (is_table or path.name in _STAY_HERE or path.name.startswith("."))


def _is_of_a_machine(resource: Resource) -> bool:
    """Return whether only the machine that created it can find it (local cloud, libvirt)."""
    _, _, path = resource.access.get("uri", "").partition("://")
    return resource.provider in AMBIENT or path.startswith("/")
