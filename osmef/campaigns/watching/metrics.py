"""Prometheus metrics of campaigns: as a page, or as a textfile for node_exporter."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from osmef.campaigns.state.rows import CampaignRow, Phase, SessionRow, SessionState, is_conducted
from osmef.errors import StorageError
from osmef.results.files import write_atomically

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from osmef.campaigns.state.store import Store

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


def render(found: Sequence[tuple[CampaignRow, Sequence[SessionRow]]], now: datetime) -> str:
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
    for phase in Phase:
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
    due = [one.due for one in sessions if one.state is SessionState.PLANNED]
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


@contextmanager
def metrics_file(
    path: Path | None, store: Store, name: str, tell: Callable[[str, str], None]
) -> Iterator[None]:
    """Keep a textfile for node_exporter up to date, for the length of the context.

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
            row, now = store.campaign(name), datetime.now(UTC)
            if not (last or is_conducted(row, now)):
                ended.wait(_TAKEN_S)  # who is about to conduct it has not said so yet
                continue
            text = render([(row, store.sessions(row.id))], now)
            write_atomically(path, text.encode())
            told = ""
        except StorageError as error:
            if str(error) != told:
                tell("failure", str(error))
            told = str(error)
        ended.wait(_EVERY_S)
