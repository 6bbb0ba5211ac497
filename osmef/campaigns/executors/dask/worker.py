"""The worker's side of a session on a Dask cluster.

It works in a run directory of its own, and every line of the journal, every trial and every file is
on the controller's disk before the call that wrote it returns. So the controller knows what is made
before it is made, and a trial that it has is never repeated, whatever becomes of the worker. A
worker that hears nothing of its controller stops its sessions, and takes away what they made.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeVar

from distributed import Client, Queue, get_client, get_worker

import osmef
from osmef.campaigns.executors.session import SessionJob, SessionResult, open_many_files, run_into
from osmef.campaigns.executors.session import measure as measure_here
from osmef.campaigns.watching.monitoring import LiveStatus
from osmef.engine.cancellation import CancellationToken
from osmef.errors import OsmefError, StorageError
from osmef.results.files import copying

# So long the controller may be silent; it says each BEAT_S that it lives.
CONTROLLER_TIMEOUT_S = 90.0
BEAT_S = 10.0
_LOOK_S = 2.0


class MessageKind(StrEnum):
    """Kinds of messages from a worker to its controller."""

    HELLO = "hello"
    APPEND = "append"
    WRITE = "write"
    SHOW = "show"
    WARN = "warn"


@dataclass(frozen=True)
class WorkerMessage:
    """A message of a worker. ``number`` identifies its acknowledgement; 0 asks for none.

    ``token`` is the attempt at a session, ``address`` the queue that takes the answer, ``path`` is
    seen from the run directory.
    """

    token: str
    number: int
    address: str
    kind: str
    path: str = ""
    data: bytes = b""


@dataclass(frozen=True)
class ControllerReply:
    """A message of a controller: an acknowledgement, or a cancellation (number 0)."""

    token: str
    number: int
    problem: str | None


@dataclass(frozen=True)
class RemoteSession:
    """A session on this worker, in the run directory ``root``."""

    line: ControllerChannel
    token: str
    root: Path
    stop: CancellationToken = field(default_factory=CancellationToken)

    def appended(self, path: Path, line: bytes) -> None:
        """Append a line to the controller's file. Raises StorageError."""
        self.line.ask(self.token, MessageKind.APPEND, self._name(path), line)

    def written(self, path: Path) -> None:
        """Write the file at the controller, which merges tables itself. Raises StorageError."""
        if path.parent != self.root or path.suffix != ".parquet":
            self.line.ask(self.token, MessageKind.WRITE, self._name(path), path.read_bytes())

    def show(self, text: str) -> None:
        """Send the live status of the session."""
        self.line.notify(self.token, MessageKind.SHOW, data=text.encode())

    def warn(self, text: str) -> None:
        """Send a warning for the summary."""
        self.line.notify(self.token, MessageKind.WARN, data=text.encode())

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.root))


class ControllerChannel:
    """The message channel of a worker to a controller, shared by all of their sessions."""

    def __init__(self, queue_name: str, client: Client) -> None:
        open_many_files()
        self._reply_queue = f"osmef-{uuid.uuid4().hex}"
        self._messages = Queue(queue_name, client=client)
        self._replies = Queue(self._reply_queue, client=client)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[str | None]] = {}
        self._sessions: dict[str, RemoteSession] = {}
        self._heard = time.monotonic()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self.users = 0
        threading.Thread(target=self._listen, name="controller", daemon=True).start()

    def ask(self, token: str, kind: MessageKind, path: str = "", data: bytes = b"") -> None:
        """Send a message, and wait for its acknowledgement. Raises StorageError."""
        answer: Future[str | None] = Future()
        number = next(self._numbers)
        self._waiting[number] = answer
        try:
            self._send(WorkerMessage(token, number, self._reply_queue, kind, path, data))
            problem = answer.result(CONTROLLER_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            raise StorageError("the controller does not answer", where=path or None) from error
        finally:
            del self._waiting[number]
        if problem is not None:
            raise StorageError(problem, where=path or None)

    def notify(self, token: str, kind: MessageKind, data: bytes) -> None:
        """Send a message without acknowledgement; it may be lost."""
        with suppress(OSError, TimeoutError):
            self._send(WorkerMessage(token, 0, self._reply_queue, kind, data=data))

    def _send(self, message: WorkerMessage) -> None:
        self._messages.put(tuple(vars(message).values()), timeout=CONTROLLER_TIMEOUT_S)

    @contextmanager
    def session(self, token: str, root: Path) -> Iterator[RemoteSession]:
        """Register a session with the channel for the length of the context."""
        session = RemoteSession(self, token, root)
        with self._lock:
            self._sessions[token] = session
        try:
            yield session
        finally:
            with self._lock:  # a closed one gets no cancellation
                del self._sessions[token]
                session.stop.close()

    def close(self) -> None:
        """End the listening thread."""
        self._closed.set()

    def _listen(self) -> None:
        while not self._closed.is_set():
            try:
                first = self._replies.get(timeout=_LOOK_S)
                messages = [first, *self._replies.get(batch=True)]
            except TimeoutError:
                messages = []
            except (OSError, RuntimeError):  # the connection: it comes again, or we give up
                messages = []
                self._closed.wait(_LOOK_S)
            for reply in itertools.chain.from_iterable(messages):
                self._heard = time.monotonic()
                self._take(ControllerReply(*reply))
            if time.monotonic() - self._heard > CONTROLLER_TIMEOUT_S:
                self._stop_all("the controller is silent")
        with suppress(OSError, RuntimeError):
            self._replies.close()

    def _take(self, reply: ControllerReply) -> None:
        answer = self._waiting.get(reply.number)
        if answer is not None:
            answer.set_result(reply.problem)
        with self._lock:
            session = self._sessions.get(reply.token)
            if session is not None and reply.number == 0 and reply.problem is not None:
                session.stop.request(reply.problem)

    def _stop_all(self, why: str) -> None:
        with self._lock:
            for session in self._sessions.values():
                session.stop.request(why)


_lines: dict[str, ControllerChannel] = {}
_guard = threading.Lock()
_session: ContextVar[RemoteSession] = ContextVar("session")

Result = TypeVar("Result")


async def run_job(
    job: Callable[[Path], Result],
    queue_name: str,
    token: str,
    name: str,
    files: Mapping[str, bytes],
) -> Result | OsmefError:
    """Run a task in a run directory of this worker, restored from the controller's mirror.

    ``queue_name`` is the queue of the controller. Returns what the job returns, or what it raised.
    The job has a thread of its own: one of Dask's asks every second for another job when it has
    done its own, and thousands of them keep a worker from everything else.
    """
    done: Future[Result | OsmefError] = Future()
    work = partial(_run_job, job, queue_name, token, name, files)
    begin = partial(copy_context().run, run_into, done, work)
    threading.Thread(target=begin, name=f"session-{name}", daemon=True).start()
    return await asyncio.wrap_future(done)


def _run_job(
    job: Callable[[Path], Result],
    queue_name: str,
    token: str,
    name: str,
    files: Mapping[str, bytes],
) -> Result | OsmefError:
    worker = get_worker()
    home = Path(worker.local_directory) / f"osmef-{token}"
    root = home / name
    with _line_to(queue_name) as line, line.session(token, root) as session:
        try:
            hello = f"{worker.address} {osmef.__version__}"
            line.ask(token, MessageKind.HELLO, data=hello.encode())
            _unpack(root, files)
            _session.set(session)
            with copying(root, session):
                return job(root)
        except OsmefError as error:
            return error
        finally:
            shutil.rmtree(home, ignore_errors=True)


def measure(work: SessionJob) -> SessionResult:
    """Run a session on this worker; the controller can cancel it."""
    session = _session.get()
    return measure_here(work, session.stop, _Shown(session))


class _Shown(LiveStatus):
    """Observer that sends the live status to the controller."""

    def __init__(self, session: RemoteSession) -> None:
        super().__init__(session.show)
        self._session = session

    def warning(self, text: str) -> None:
        """Send a warning to the controller."""
        self._session.warn(text)


@contextmanager
def _line_to(queue_name: str) -> Iterator[ControllerChannel]:
    """Share one channel between all sessions of this process for a controller."""
    client = get_client()
    with _guard:
        line = _lines.get(queue_name) or ControllerChannel(queue_name, client)
        _lines[queue_name] = line
        line.users += 1
    try:
        yield line
    finally:
        with _guard:
            line.users -= 1
            if not line.users:
                line.close()
                del _lines[queue_name]


def _unpack(root: Path, files: Mapping[str, bytes]) -> None:
    """Restore the run directory of a session that has begun."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    if files:
        (root / "lock").touch()
