"""Dispatch of due sessions to the executor, and the skip policy of those that are not measured.

On each exclusive resource one is at a time. Skipped are sessions that were missed, whose cells need
no more, or that exceed the budget.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from osmef.analysis.quantiles import is_narrow_enough
from osmef.campaigns.conductor.cleanup import Cleanup, ConductorContext, run_exists
from osmef.campaigns.executors.session import SessionJob, SessionResult
from osmef.campaigns.schedule.calendar import Platform
from osmef.campaigns.schedule.model import SessionStoppingRule
from osmef.campaigns.schedule.plan import CampaignPlan
from osmef.campaigns.state.rows import (
    CampaignRow,
    ClaimTerms,
    LogLine,
    Refusal,
    SessionRow,
    SessionState,
)
from osmef.campaigns.vm_pool import PoolPolicy
from osmef.campaigns.watching.monitoring import CampaignLog
from osmef.errors import InputError, StorageError
from osmef.files import exists
from osmef.results.rundir import RunDirectory, new_path
from osmef.scenario.fields import parse_money
from osmef.units import counted

if TYPE_CHECKING:
    from osmef.campaigns.state.store import Store


PlatformKey = tuple[str, str, str]


def platform_of(session: SessionRow) -> Platform:
    """Return the platform of a session, as the calendar names it."""
    return Platform(session.scenario, session.provider or None, session.instance_class or None)


def platform_key(platform: Platform) -> PlatformKey:
    """Return the value of SessionRow.cell for sessions of a platform."""
    return (platform.scenario, platform.provider or "", platform.instance_class or "")


class SkipPolicy:
    """Skips sessions, cleans up after those that had begun, and logs the reason."""

    def __init__(
        self,
        store: Store,
        row: CampaignRow,
        campaign_plan: CampaignPlan,
        context: ConductorContext,
        log: CampaignLog,
    ) -> None:
        self._store, self._campaign = store, row.id
        self._plan, self._log = campaign_plan, log
        self.cleaning = Cleanup(store, row, context, log)

    def skip_removed_platforms(self, now: datetime) -> None:
        """Skip sessions of platforms that are no longer in the campaign file."""
        planned = self._store.sessions(self._campaign, [SessionState.PLANNED])
        gone = [one for one in planned if platform_of(one) not in self._plan.parts]
        why = "its platform is no longer in the campaign's file"
        self._leave(gone, SessionState.CANCELLED, why, now)

    def skip_missed(self, now: datetime, why: str, late: datetime | None) -> bool:
        """Skip sessions whose window closed, or that were due before ``late``; return if any."""
        missed = self._store.closed(self._campaign, now, late)
        closed = [one for one in missed if one.closes <= now]
        for reason, those in (
            (f"the window was closed: {why}", [one for one in closed if not one.is_retried_late]),
            (
                "the window was closed before its retry was due",
                [one for one in closed if one.is_retried_late],
            ),
            (f"the start was missed: {why}", [one for one in missed if one.closes > now]),
        ):
            begun = [one for one in those if one.directory]
            self._leave(begun, SessionState.FAILED, reason, now)
            self._leave(
                [one for one in those if not one.directory], SessionState.MISSED, reason, now
            )
            if those:
                first, more = those[0], len(those) - 1
                others = f", and {more} more until {those[-1].slot}" if more else ""
                self._log.note("missed", f"{first.slot} {first.platform}{others}: {reason}")
        return bool(missed)

    def record_medians(self, sessions: Iterable[SessionRow]) -> None:
        """Record the medians of finished sessions for the stopping rule."""
        rule = self._plan.campaign.stop
        if rule is None:
            return
        for session in sessions:
            try:
                found = session_medians(Path(session.directory or ""), rule.metric)
            except InputError as error:
                self._log.note("note", f"{session.slot} {session.platform}: not counted: {error}")
                continue
            self._store.record_medians(session, rule.metric, found)

    def record_all_medians(self) -> None:
        """Record the medians of all finished sessions, also after the rule's metric has changed."""
        rule = self._plan.campaign.stop
        if rule is not None:
            self.record_medians(self._store.without_medians(self._campaign, rule.metric))

    def ended_cells_of(self, platform: PlatformKey) -> list[str]:
        """Return the keys of the cells of a platform that the stopping rule has ended."""
        rule, keys = self._plan.campaign.stop, self._keys(platform)
        if rule is None or not keys:
            return []
        known = ended_cells(rule, self._store.medians(self._campaign, platform, rule.metric))
        return [key for key in keys if key in known]

    def skip_ended_cells(self, platforms: Iterable[PlatformKey], now: datetime) -> None:
        """Skip the further sessions of platforms all of whose cells the stopping rule has ended."""
        rule = self._plan.campaign.stop
        if rule is None:
            return
        for platform in platforms:
            if len(self.ended_cells_of(platform)) < max(1, len(self._keys(platform))):
                continue
            planned = self._store.sessions(self._campaign, [SessionState.PLANNED])
            left = [one for one in planned if one.platform_key == platform]
            if left:
                why = f"the interval of {rule.metric} is at most {rule.width_percent:g} % wide"
                self._leave(left, SessionState.CONVERGED, why, now)
                done = self._store.sessions(self._campaign, [SessionState.DONE])
                count = sum(one.platform_key == platform for one in done)
                self._log.note("note", f"{left[0].platform}: {why} after {count} sessions")

    def _keys(self, platform: PlatformKey) -> list[str]:
        """Return the keys of a platform's cells; none for a removed platform."""
        scenario, provider, instance_class = platform
        part = self._plan.parts.get(Platform(scenario, provider or None, instance_class or None))
        return [one.key for one in part.study.cells] if part else []

    def skip_unaffordable(self, sessions: Sequence[SessionRow], why: str, now: datetime) -> None:
        """Skip planned sessions that exceed the rest of the budget."""
        self._leave(sessions, SessionState.CANCELLED, why, now)
        first, *others = dict.fromkeys(one.platform for one in sessions)
        more = f" and {len(others)} more platforms" * bool(others)
        self._log.note("budget", f"{first}{more}: {why}")

    def _leave(
        self, sessions: Sequence[SessionRow], state: SessionState, why: str, now: datetime
    ) -> None:
        if sessions:
            self._store.skip([one.id for one in sessions], state, why, now)
            self.cleaning.take_over(sessions, now)


def session_medians(directory: Path, metric: str) -> dict[str, float | None]:
    """Return the result of a session: the median over the trials of each cell, None without any.

    Raises InputError where its summary is damaged, or of a newer version.
    """
    if not exists(directory / "summary.json"):
        return {}
    cells = RunDirectory(directory).read_summary().cells
    return {cell.key: cell.median_of(metric) for cell in cells}


def ended_cells(rule: SessionStoppingRule, medians: Mapping[str, Sequence[float]]) -> set[str]:
    """Return the cells that the stopping rule ends, by the medians of their sessions.

    The interval of the median over sessions holds although it is looked at after each of them
    (``confidence_sequence``): with the exact one of a single look, a campaign would stop as soon as
    chance makes it narrow, such as after some sessions that all met the rarer one of two kinds of
    hosts. It assumes that sessions are independent. A cell that has the metric in too few sessions
    is not known.
    """
    return {cell for cell, values in medians.items() if _is_narrow(rule, values)}


def _is_narrow(rule: SessionStoppingRule, values: Sequence[float]) -> bool:
    known = [value for value in values if math.isfinite(value)]
    return len(known) >= rule.minimum and is_narrow_enough(known, rule.width_percent / 100)


# So long a campaign that had a cloud lets another one have it that has waited for longer.
_AFTER_YOU_S = 10.0
_NAMES = 100
# So many begin before ends, a stop and the lease are looked after.
_AT_ONCE = 100


class Dispatcher:
    """Claims sessions of one campaign and hands them to the executor."""

    def __init__(
        self,
        store: Store,
        row: CampaignRow,
        campaign_plan: CampaignPlan,
        context: ConductorContext,
        pool_policy: PoolPolicy,
    ) -> None:
        self._store, self._row, self._plan, self._context = store, row, campaign_plan, context
        self._pool_policy = pool_policy
        self.running = RunningSessions()
        self._freed: dict[str, float] = {}
        self._sharing: dict[str, set[str]] = defaultdict(set)
        """The clouds of this campaign that a name is a place of."""
        for cloud, names in {
            part.resource_lines: part.exclusive_resources for part in campaign_plan.parts.values()
        }.items():
            for name in names:
                self._sharing[name].add(cloud)

    @property
    def is_full(self) -> bool:
        """Whether the executor is at capacity."""
        return len(self.running) >= self._context.executor.capacity

    def begin(self, now: datetime, log: CampaignLog, skips: SkipPolicy) -> timedelta | None:
        """Start due sessions in order, within the executor's capacity and exclusive resources.

        Return after how long to look again: at once where more may be due, soon where something
        waits for a cloud that others measure.
        """
        exclusive = self._plan.campaign.exclusive
        busy = self._store.resources_in_use(now) if exclusive and not self.is_full else {}
        waits = any(name not in self.running.exclusive_resources for name in busy)
        cleaned = skips.cleaning.exclusive_resources if exclusive else set()
        taken = {cloud for name in {*busy, *cleaned} for cloud in self._sharing[name]}
        begun = 0
        while not self.is_full and begun < _AT_ONCE:
            capacity = min(self._context.executor.capacity - len(self.running), _AT_ONCE - begun)
            batch = self._store.due(self._row.id, now, capacity, taken)
            if not batch:
                break
            for session in batch:
                if session.cloud in taken:
                    continue
                if session.id in self.running.ids:  # another has had it, and ours still cleans up
                    taken.add(session.cloud)
                    continue
                refusal = self._try(self._without_known(session, now, skips), now, log)
                if refusal is Refusal.BUDGET:
                    return self._hold_budget(now, skips)
                begun += refusal is None
                waits = waits or refusal is Refusal.BUSY
                if exclusive or refusal is Refusal.BUSY:
                    taken |= {
                        one for name in session.exclusive_resources for one in self._sharing[name]
                    }
        if begun >= _AT_ONCE:
            return timedelta(0)
        return self._context.busy_poll if waits and not self.is_full else None

    def end(self, future: Future[SessionResult]) -> None:
        """Remove a session that has ended."""
        session = self.running.remove(future)
        self._freed |= dict.fromkeys(session.exclusive_resources, self._context.clock.steady())

    def _try(self, session: SessionRow, now: datetime, log: CampaignLog) -> Refusal | None:
        """Start a session, or return the reason for not doing so."""
        freed = [self._freed[name] for name in session.exclusive_resources if name in self._freed]
        since = self._context.clock.steady() - max(freed, default=-math.inf)
        if since < _AFTER_YOU_S and self._store.is_pending(session, now):
            return Refusal.BUSY
        count = len(session.cells_left_out)
        without = f", without {counted(count, 'known cell')}" if count else ""
        line = LogLine("start", f"{session.slot} {session.platform}{without}")
        claimed = self._store.claim(session, self._context.holder, now, self._terms(session), line)
        if isinstance(claimed, Refusal):
            return claimed
        placed = self._placed(claimed)
        work = self._work(placed)
        log.say(line.kind, line.text)
        self.running.add(self._context.executor.submit(self._context.measure, work), placed)
        return None

    @staticmethod
    def _without_known(session: SessionRow, now: datetime, skips: SkipPolicy) -> SessionRow:
        """Drop the cells that the stopping rule has ended, unless the session has begun before.

        Without any cell left its further sessions are skipped, and the claim is refused.
        """
        if session.directory is not None and run_exists(Path(session.directory)):
            return session
        skips.skip_ended_cells(
            [session.platform_key], now
        )  # another conductor may have come to know the last
        return replace(
            session, left_out="\n".join(skips.ended_cells_of(session.platform_key)) or None
        )

    def _terms(self, session: SessionRow) -> ClaimTerms:
        campaign = self._plan.campaign
        if campaign.budget is None:
            return ClaimTerms(campaign.exclusive)
        planned = self._plan.parts[platform_of(session)].amount
        expected = max(planned, self._store.max_session_cost(session))
        return ClaimTerms(campaign.exclusive, parse_money(campaign.budget).amount, expected)

    def _hold_budget(self, now: datetime, skips: SkipPolicy) -> timedelta | None:
        """Hold back platforms whose next session would exceed the budget.

        Return after how long to look again: at once for what costs less, and soon where sessions of
        other conductors may yet cost less than by plan.
        """
        if self.running:
            return None
        if SessionState.RUNNING in self._store.counts(self._row.id):
            return self._context.busy_poll
        budget = self._plan.campaign.budget or ""
        most, spent = parse_money(budget).amount, self._store.spent(self._row.id)
        planned = self._store.sessions(self._row.id, [SessionState.PLANNED])
        one_each = {one.platform_key: one for one in planned}
        costs = {cell: self._terms(one).expected for cell, one in one_each.items()}
        expensive = [
            one for one in planned if spent + costs[one.platform_key] > most
        ]  # as a claim counts it
        if expensive:
            skips.skip_unaffordable(
                expensive, f"the budget of {budget} does not pay for another session", now
            )
        return timedelta(0)

    def _work(self, session: SessionRow) -> SessionJob:
        study = self._plan.parts[platform_of(session)].study
        return SessionJob(
            session=session.id,
            slot=session.slot,
            window=session.window,
            platform=session.platform,
            text=study.text,
            file=study.path.name,
            directory=session.directory or "",
            seed=_seed(self._plan.campaign.seed, session),
            provider=session.provider,
            keep_until=self._pool_policy.kept_until(session),
            left_out=session.cells_left_out,
        )

    def _placed(self, session: SessionRow) -> SessionRow:
        """Return a session with its run directory, a new one if it has none here.

        One on another machine is for that one to clear.
        """
        if session.directory is not None and run_exists(Path(session.directory)):
            return session
        lines = filter(None, (session.uncleared, session.directory))
        session = replace(session, uncleared="\n".join(lines) or None)
        name = self._plan.parts[platform_of(session)].study.scenario.name
        for _ in range(_NAMES):
            path = new_path(Path(self._row.out), name)
            if not run_exists(path) and self._store.locate(session, path):
                return replace(session, directory=str(path))
        raise StorageError(
            "no name is free for a run directory",
            where=self._row.out,
            cure="name another directory with --out",
        )


def _seed(seed: int, session: SessionRow) -> int:
    """Return the seed of a session's plan: deterministic, so that it survives a crash."""
    text = f"{seed} {session.opens.isoformat()} {session.slot} {session.platform_key}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])


class RunningSessions:
    """Running sessions by their futures; ``wake`` is set when one ends.

    ``ids`` are those of the sessions in the database.
    """

    def __init__(self) -> None:
        self.wake = threading.Event()
        self.ids: set[int] = set()
        self._sessions: dict[Future[SessionResult], SessionRow] = {}
        self._ended: deque[Future[SessionResult]] = deque()
        self._exclusive_resources: Counter[str] = Counter()
        self._platforms: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[SessionRow]:
        return iter(self._sessions.values())

    @property
    def exclusive_resources(self) -> Collection[str]:
        """The exclusive resources in use."""
        return self._exclusive_resources.keys()

    @property
    def platforms(self) -> Collection[str]:
        """The names of the platforms that are measured."""
        return self._platforms.keys()

    @property
    def ended(self) -> list[tuple[Future[SessionResult], SessionRow]]:
        """Sessions that have ended and were not removed, in the order of their ends."""
        return [(future, self._sessions[future]) for future in list(self._ended)]

    def add(self, future: Future[SessionResult], session: SessionRow) -> None:
        """Add a session that has begun."""
        self._sessions[future] = session
        self.ids.add(session.id)
        self._exclusive_resources.update(session.exclusive_resources)
        self._platforms[session.platform] += 1
        future.add_done_callback(self._take_end)

    def _take_end(self, future: Future[SessionResult]) -> None:
        self._ended.append(future)
        self.wake.set()

    def remove(self, future: Future[SessionResult]) -> SessionRow:
        """Remove a session that has ended."""
        session = self._sessions.pop(future)
        self._ended.remove(future)  # mostly the first
        self.ids.remove(session.id)
        _drop(self._exclusive_resources, session.exclusive_resources)
        _drop(self._platforms, [session.platform])
        return session


def _drop(counts: Counter[str], names: Collection[str]) -> None:
    for name in names:
        counts[name] -= 1
        if not counts[name]:
            del counts[name]
