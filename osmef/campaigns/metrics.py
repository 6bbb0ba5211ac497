"""How campaigns stand, for Prometheus: its text format, as a page or as a file of node_exporter.

The format is https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from osmef.campaigns.holder import is_conducted
from osmef.campaigns.rows import Phase, Session, Standing, State
from osmef.errors import StorageError
from osmef.results.files import write_atomically

if TYPE_CHECKING:
    from osmef.campaigns.store import Store

_EVERY_S = 15.0
_TAKEN_S = 0.2

Labels = Mapping[str, str]

_HELP = {
    "osmef_campaign_phase": "1 for what the campaign does, 0 for all else.",
    "osmef_campaign_conducted": "Whether a process conducts it, as far as is known.",
    "osmef_campaign_seen_timestamp_seconds": "When its conductor said last that it lives.",
    "osmef_campaign_sessions": "Sessions by state.",
    "osmef_campaign_trials": "Trials of ended sessions by status.",
    "osmef_campaign_cost": "What its VMs have cost by the price list, by currency.",
    "osmef_campaign_overdue_seconds": "How long the planned session has waited that waits longest.",
    "osmef_campaign_next_due_timestamp_seconds": "When the next session is due.",
    "osmef_campaign_last_end_timestamp_seconds": "When a session ended last.",
    "osmef_campaign_last_start_delay_seconds": "How late the session was that began last.",
}
"""All of them, and what they tell. All are gauges: a changed campaign file can lower each."""


def render(found: Sequence[tuple[Standing, Sequence[Session]]], now: datetime) -> str:
    """Return campaigns with their sessions as Prometheus reads them. What is unknown is absent."""
    samples: dict[str, list[tuple[Labels, float]]] = defaultdict(list)
    for standing, sessions in found:
        for name, labels, value in _samples(standing, sessions, now):
            samples[name].append(({"campaign": standing.name, **labels}, value))
    lines = []
    for name, text in _HELP.items():
        if samples[name]:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
            lines += [f"{name}{_labels(labels)} {value:.15g}" for labels, value in samples[name]]
    return "".join(f"{line}\n" for line in lines)


def _samples(
    standing: Standing, sessions: Sequence[Session], now: datetime
) -> Iterator[tuple[str, Labels, float]]:
    for phase in Phase:
        yield "osmef_campaign_phase", {"phase": phase.value}, float(standing.phase is phase)
    yield "osmef_campaign_conducted", {}, float(is_conducted(standing, now))
    if standing.seen_at is not None:
        yield "osmef_campaign_seen_timestamp_seconds", {}, standing.seen_at.timestamp()
    for state in State:
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


def _times(sessions: Sequence[Session], now: datetime) -> Iterator[tuple[str, Labels, float]]:
    due = [one.due for one in sessions if one.state is State.PLANNED]
    waited = max((now - min(due)).total_seconds(), 0.0) if due else 0.0
    yield "osmef_campaign_overdue_seconds", {}, waited
    coming = [at for at in due if at > now]
    if coming:
        yield "osmef_campaign_next_due_timestamp_seconds", {}, min(coming).timestamp()
    ended = [one.ended_at for one in sessions if one.ended_at and one.started_at]
    if ended:
        yield "osmef_campaign_last_end_timestamp_seconds", {}, max(ended).timestamp()
    begun = [(one.started_at, one.due) for one in sessions if one.started_at is not None]
    if begun:
        at, wanted = max(begun)
        late = max((at - wanted).total_seconds(), 0.0)
        yield "osmef_campaign_last_start_delay_seconds", {}, late


def _labels(labels: Labels) -> str:
    texts = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + ",".join(texts) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


@contextmanager
def metrics_file(
    path: Path | None, store: Store, name: str, tell: Callable[[str, str], None]
) -> Iterator[None]:
    """Keep a file up to date while a campaign is conducted, for node_exporter's textfile collector.

    A database or disk that fails for a while is told once, and tried again.
    """
    if path is None:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_keep, args=(path, store, name, tell, ended), name="metrics")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _keep(
    path: Path, store: Store, name: str, tell: Callable[[str, str], None], ended: threading.Event
) -> None:
    told, last = "", False
    while not last:
        last = ended.is_set()
        try:
            standing, now = store.campaign(name), datetime.now(UTC)
            if not (last or is_conducted(standing, now)):
                ended.wait(_TAKEN_S)  # who is about to conduct it has not said so yet
                continue
            text = render([(standing, store.sessions(standing.id))], now)
            write_atomically(path, text.encode())
            told = ""
        except StorageError as error:
            if str(error) != told:
                tell("failure", str(error))
            told = str(error)
        ended.wait(_EVERY_S)
