"""Monitoring of a campaign: status of its sessions, log, notifications, and Prometheus metrics.

The live status is a small file in the run directory, for the web page. A command or a webhook gets
notifications. Metrics are a page, or a textfile for node_exporter.
"""

from __future__ import annotations

import json
import queue
import ssl
import subprocess
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http.client import HTTPException, responses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.error import HTTPError, URLError

from pydantic import Field, TypeAdapter

from osmef.campaigns.schedule.calendar import Clock
from osmef.campaigns.schedule.model import Notify
from osmef.campaigns.state.rows import (
    CampaignPhase,
    CampaignRow,
    SessionRow,
    SessionState,
    is_conducted,
)
from osmef.engine.events import Observer, contain_failures
from osmef.engine.plan import PlannedTrial
from osmef.errors import StorageError
from osmef.files import draft_file, read_file
from osmef.results.files import write_atomically
from osmef.results.measure import Measure
from osmef.results.trial import Trial
from osmef.workloads.base import Span

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from osmef.campaigns.state.store import Store


LIVE = "live.json"
_MOST_BYTES = 1 << 20
_STATUS_EVERY_S = 2.0


@dataclass(frozen=True)
class RunningTrial:
    """A trial that runs: its start in UTC, and its latest rate in bit/s, None before the first."""

    cell: str
    repetition: int
    started_at: datetime
    rate_bps: float | None = None


@dataclass(frozen=True)
class SessionProgress:
    """Live status of a session at a time in UTC: its activity, and the trials of this attempt."""

    at: datetime
    activity: Annotated[str, Field(alias="step")] = ""
    trials: int = 0
    ended: int = 0
    running: Sequence[RunningTrial] = ()


_PROGRESS = TypeAdapter(SessionProgress)


class LiveStatus(Observer):
    """Observer that publishes a ``SessionProgress`` as JSON to ``show``, every 2 s at most."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._lock = threading.Lock()
        self._shown = float("-inf")
        self._progress = SessionProgress(datetime.now(UTC))
        self._running: dict[int, RunningTrial] = {}

    def activity(self, text: str) -> None:
        """Show what the run does now."""
        self._change(activity=text)

    def measuring(self, trials: int, planned: Span, measures: Sequence[Measure]) -> None:  # noqa: ARG002
        """Show the number of trials that begin now."""
        self._change(trials=trials, activity="measuring")

    def trial_started(self, planned: PlannedTrial) -> None:
        """Show that a trial begins."""
        with self._lock:
            self._running[planned.index] = RunningTrial(
                planned.cell.cell.key, planned.repetition, datetime.now(UTC)
            )
        self._change()

    def rate(self, planned: PlannedTrial, bits_per_second: float) -> None:
        """Show the latest rate of a trial that runs."""
        with self._lock:
            if (one := self._running.get(planned.index)) is not None:
                self._running[planned.index] = replace(one, rate_bps=bits_per_second)
        self._change()

    def trial_ended(self, trial: Trial) -> None:
        """Show that a trial has ended."""
        with self._lock:
            self._running.pop(trial.index, None)
            self._progress = replace(self._progress, ended=self._progress.ended + 1)
        self._change()

    def _change(self, **values: Any) -> None:
        with self._lock:
            self._progress = replace(self._progress, **values)
            now = time.monotonic()
            if now - self._shown < _STATUS_EVERY_S and not values:
                return
            self._shown = now
            running = tuple(self._running.values())
            shown = replace(self._progress, at=datetime.now(UTC), running=running)
        self._show(_PROGRESS.dump_json(shown, by_alias=True).decode())


def show_in(directory: Path, text: str) -> None:
    """Replace the live status in a run directory, if that exists.

    It does not wait for the disk, which would disturb what is measured; nothing depends on it.
    """
    with suppress(OSError), draft_file(directory / LIVE) as file:
        file.write(text.encode())


def forget(directory: Path) -> None:
    """Remove the live status of a session that has ended."""
    with suppress(OSError):
        (directory / LIVE).unlink(missing_ok=True)


def read_live(directory: Path) -> SessionProgress | None:
    """Return the live status of a running session, None without one, or one of another form."""
    try:
        return _PROGRESS.validate_json(read_file(directory / LIVE, _MOST_BYTES))
    except (OSError, ValueError):
        return None


NotifyCallback = Callable[[str, str], None]
_TIMEOUT_S = 30.0
# How long the end of a campaign waits for its notifications.
_LAST_S = 60.0
Message = Mapping[str, object]
"""Told what happens: a kind (start, end, failure, gap, missed, budget, note) and a line."""

_URGENT = {"failure", "missed", "budget"}


class CampaignLog:
    """Log of one campaign, with notifications."""

    def __init__(
        self,
        store: Store,
        row: CampaignRow,
        clock: Clock,
        notify: NotifyCallback,
        recipients: Notify,
    ) -> None:
        self._store, self._row, self._clock = store, row, clock
        self._notify = contain_failures(notify)
        self._messenger = Notifier(recipients)

    def note(self, kind: str, text: str, *, last: bool = False) -> None:
        """Append to the log, and notify. Raises StorageError."""
        self._store.append_log(self._row.id, self._clock.now(), kind, text)
        self.say(kind, text, last=last)

    def say(self, kind: str, text: str, *, last: bool = False) -> None:
        """Notify without logging."""
        self._notify(kind, text)
        if kind in _URGENT or last:
            at = self._clock.now().isoformat()
            message = {"campaign": self._row.name, "at": at, "kind": kind, "text": text}
            self._messenger.notify(message)

    def note_problems(self) -> None:
        """Log failed notifications. Raises StorageError."""
        for problem in self._messenger.problems():
            self.note("note", problem)

    def close(self) -> None:
        """Wait for pending notifications, within a limit. Raises StorageError."""
        for problem in self._messenger.close():
            self.note("note", problem)


class Notifier:
    """Sends notifications in a background thread, so that a slow recipient delays nothing.

    Messages that arrive while one is sent are sent together: of each kind the newest, and in
    ``more`` the number of earlier ones.
    """

    def __init__(self, recipients: Notify) -> None:
        self._recipients = recipients
        self._waiting: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._problems: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def notify(self, message: Message) -> None:
        """Enqueue a notification to all recipients."""
        if not (self._recipients.command or self._recipients.webhook):
            return
        if self._thread is None:
            # The exit does not wait for a server that never answers.
            self._thread = threading.Thread(target=self._work, name="notify", daemon=True)
            self._thread.start()
        self._waiting.put(message)

    def problems(self) -> list[str]:
        """Return the errors since the last call, each once."""
        found = []
        while not self._problems.empty():
            found.append(self._problems.get())
        return found

    def close(self) -> list[str]:
        """Wait for pending notifications, within a limit; return the errors."""
        if self._thread is None:
            return []
        self._waiting.put(None)
        self._thread.join(_LAST_S)
        late = ["notify: a recipient has not accepted the last message"] * self._thread.is_alive()
        self._thread = None
        return self.problems() + late

    def _work(self) -> None:
        goes_on = True
        while goes_on:
            waiting = [self._waiting.get()]
            while not self._waiting.empty():
                waiting.append(self._waiting.get())
            goes_on = None not in waiting
            for message in _together([one for one in waiting if one is not None]):
                for problem in notify(self._recipients, message):
                    self._problems.put(problem)


def _together(messages: Sequence[Message]) -> list[Message]:
    """Return the newest message of each kind, with the number of earlier ones."""
    by_kind: dict[object, list[Message]] = {}
    for message in messages:
        by_kind.setdefault(message["kind"], []).append(message)
    return [{**those[-1], "more": len(those) - 1} for those in by_kind.values()]


def notify(recipients: Notify, message: Message) -> list[str]:
    """Send a notification to every recipient, and return the errors.

    The command gets the message on its standard input, a line, without a shell.
    """
    problems = []
    data = json.dumps(dict(message)).encode() + b"\n"
    if recipients.command:
        try:
            subprocess.run(
                recipients.command, input=data, timeout=_TIMEOUT_S, check=True, capture_output=True
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            problems.append(f"the command of notify: {recipients.command[0]!r}: {_why(error)}")
    if recipients.webhook:
        headers = {"Content-Type": "application/json"}
        try:
            url = recipients.webhook.get_secret_value()
            request = urllib.request.Request(url, data, headers)  # noqa: S310 - http(s)
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310
                pass
        except (OSError, ValueError, HTTPException) as error:
            problems.append(f"the webhook of notify: {_why(error)}")
    return problems


def _why(error: Exception) -> str:
    """Return an error message that quotes neither the address nor the command.

    They are secrets, or hold some, and libraries put them into what they say.
    """
    if isinstance(error, HTTPError):
        error.close()
        return f"it answered {error.code} {responses.get(error.code, '')}".strip()
    if isinstance(error, subprocess.CalledProcessError):
        return f"it ended with exit status {error.returncode}"
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, TimeoutError | subprocess.TimeoutExpired):
        return f"it took longer than {_TIMEOUT_S:g} s"
    if isinstance(reason, ssl.SSLError):
        return f"TLS failed: {reason.reason}"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return f"the request failed ({type(reason).__name__})"


_METRICS_EVERY_S = 15.0
_TAKEN_S = 0.2

Labels = Mapping[str, str]

_HELP = {
    "osmef_campaign_phase": "1 for the campaign's phase, 0 for all others.",
    "osmef_campaign_conducted": "Whether a process conducts it, as far as is known.",
    "osmef_campaign_seen_timestamp_seconds": "Last heartbeat of its conductor.",
    "osmef_campaign_sessions": "Sessions by state.",
    "osmef_campaign_trials": "Trials of ended sessions by status.",
    "osmef_campaign_cost": "What its VMs have cost by the price list, by currency.",
    "osmef_campaign_overdue_seconds": "How long the most overdue session has waited.",
    "osmef_campaign_next_due_timestamp_seconds": "When the next session is due.",
    "osmef_campaign_last_end_timestamp_seconds": "When the last session ended.",
    "osmef_campaign_last_start_delay_seconds": "How late the last session began.",
}
"""All of them, and their meaning. All are gauges: a changed campaign file can lower each."""


def render_metrics(found: Sequence[tuple[CampaignRow, Sequence[SessionRow]]], now: datetime) -> str:
    """Return the metrics of campaigns in Prometheus' text format. Unknown values are absent."""
    # Only who wants metrics waits for its import.
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415
    from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415

    families = {name: GaugeMetricFamily(name, text) for name, text in _HELP.items()}
    for row, sessions in found:
        for name, labels, value in _samples(row, sessions, now):
            families[name].add_sample(name, {"campaign": row.name, **labels}, value)
    registry = CollectorRegistry()
    registry.register(_Collected([one for one in families.values() if one.samples]))
    return generate_latest(registry).decode()


class _Collected:
    """A collector (prometheus_client.registry.Collector) of prepared metric families."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Sequence[Metric]:
        """Return the families."""
        return self._families


def _samples(
    row: CampaignRow, sessions: Sequence[SessionRow], now: datetime
) -> Iterator[tuple[str, Labels, float]]:
    for phase in CampaignPhase:
        yield "osmef_campaign_phase", {"phase": phase.value}, float(row.phase is phase)
    yield "osmef_campaign_conducted", {}, float(is_conducted(row, now))
    if row.seen_at is not None:
        yield "osmef_campaign_seen_timestamp_seconds", {}, row.seen_at.timestamp()
    for state in SessionState:
        count = sum(one.state is state for one in sessions)
        yield "osmef_campaign_sessions", {"state": state.value}, float(count)
    for status, trials in (
        ("ok", sum(one.trials_ok for one in sessions)),
        ("failed", sum(one.trials_failed for one in sessions)),
    ):
        yield "osmef_campaign_trials", {"status": status}, float(trials)
    costs: dict[str, float] = defaultdict(float)
    for one in sessions:
        if one.whole_cost is not None and one.currency is not None:
            costs[one.currency] += one.whole_cost
    for currency, cost in costs.items():
        yield "osmef_campaign_cost", {"currency": currency}, cost
    yield from _times(sessions, now)


def _times(sessions: Sequence[SessionRow], now: datetime) -> Iterator[tuple[str, Labels, float]]:
    planned = [one for one in sessions if one.state is SessionState.PLANNED]
    waited = max((now - min(one.due for one in planned)).total_seconds(), 0.0) if planned else 0.0
    yield "osmef_campaign_overdue_seconds", {}, waited
    coming = [one.due for one in planned if one.due > now and not one.is_retried_late]
    if coming:
        yield "osmef_campaign_next_due_timestamp_seconds", {}, min(coming).timestamp()
    ended = [one.ended_at for one in sessions if one.ended_at and one.started_at]
    if ended:
        yield "osmef_campaign_last_end_timestamp_seconds", {}, max(ended).timestamp()
    # Of one that waits for a retry, ``due`` is that of the retry.
    begun = [(one.started_at, one.due) for one in sessions if one.started_at]
    begun = [(at, wanted) for at, wanted in begun if at >= wanted]
    if begun:
        at, wanted = max(begun)
        yield "osmef_campaign_last_start_delay_seconds", {}, (at - wanted).total_seconds()


@contextmanager
def metrics_file(
    path: Path | None, store: Store, name: str, notify: Callable[[str, str], None]
) -> Iterator[None]:
    """Keep a textfile for node_exporter up to date, for the length of the context.

    An outage of the database or disk is reported once, and retried.
    """
    if path is None:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_keep, args=(path, store, name, notify, ended), name="metrics")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _keep(
    path: Path, store: Store, name: str, notify: Callable[[str, str], None], ended: threading.Event
) -> None:
    reported, last = "", False
    while not last:
        last = ended.is_set()
        try:
            row, now = store.campaign(name), store.time()
            if not (last or is_conducted(row, now)):
                ended.wait(_TAKEN_S)  # who is about to conduct it has not said so yet
                continue
            text = render_metrics([(row, store.sessions(row.id))], now)
            write_atomically(path, text.encode())
            reported = ""
        except StorageError as error:
            if str(error) != reported:
                notify("failure", str(error))
            reported = str(error)
        ended.wait(_METRICS_EVERY_S)
