"""The conductor: the scheduling loop of a campaign, each session at its time, exactly once."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osmef.campaigns.conductor.cleanup import ConductorContext, is_absent, paths_of, uncleared
from osmef.campaigns.conductor.dispatch import Dispatcher, PlatformKey, SkipPolicy, platform_key
from osmef.campaigns.executors.session import SessionResult, partial_result
from osmef.campaigns.schedule.calendar import LATE, ClockMonitor, late_before
from osmef.campaigns.schedule.plan import CampaignPlan
from osmef.campaigns.state.rows import (
    LEASE,
    CampaignPhase,
    CampaignRow,
    Gap,
    LogLine,
    SessionRow,
    SessionState,
)
from osmef.campaigns.vm_pool import PoolPolicy
from osmef.campaigns.watching.monitoring import CampaignLog
from osmef.engine.cancellation import CancellationToken
from osmef.errors import InputError, Interrupted, OsmefError, StorageError
from osmef.units import counted, format_duration

if TYPE_CHECKING:
    from osmef.campaigns.state.store import Store


_RENEW = LEASE / 5
_STORE_AGAIN_S = 5.0
# Who leaves when idle waits for a window that opens within this.
_SOON = timedelta(minutes=10)
_MOST_ATTEMPTS = 3
# A cloud that fails is asked again after so long, and so much longer each time.
_OUTAGE = timedelta(minutes=10)


class Conductor:
    """Runs the sessions of one campaign until all have ended, or it is stopped.

    After a stop it begins no more, and waits for those that run. A look while nothing happens
    reads one row; what is due is asked for when it is due.
    """

    def __init__(
        self,
        store: Store,
        row: CampaignRow,
        campaign_plan: CampaignPlan,
        context: ConductorContext,
        stop: CancellationToken,
    ) -> None:
        self._store, self._campaign, self._name = store, row.id, row.name
        self._plan, self._context, self._clock = campaign_plan, context, context.clock
        self._stop = stop
        self._log = CampaignLog(
            store, row, context.clock, context.notify, campaign_plan.campaign.notify
        )
        self._skips = SkipPolicy(store, row, campaign_plan, context, self._log)
        self._pool_policy = PoolPolicy(store, row, campaign_plan, context.vm_pool, self._log)
        self._dispatcher = Dispatcher(store, row, campaign_plan, context, self._pool_policy)
        self._wake = self._dispatcher.running.wake
        self._watch = ClockMonitor(context.clock)
        self._phase: CampaignPhase | None = None
        self._next = self._renew_at = context.clock.now()
        self._any_planned = True
        self._has_taken_up = False

    @property
    def _stopping(self) -> bool:
        return self._stop.reason is not None

    @property
    def _is_busy(self) -> bool:
        return bool(self._dispatcher.running) or self._skips.cleaning.is_busy

    def run(self) -> CampaignPhase:
        """Run the scheduling loop, and return the campaign's phase at its end.

        A database that fails for a while (a full disk, a lost connection) is asked again: sessions
        that have ended are kept until it takes them.
        """
        while (phase := self._step()) is None:
            self._wait_for_next()
        return phase

    def _foreign_session_runs(self) -> bool:
        """Return whether, while ours are idle, another conductor's session runs: it may be dead."""
        return SessionState.RUNNING in self._store.counts(self._campaign)

    def _is_left_alone(self) -> CampaignPhase | None:
        """Return the phase of a paused or ended campaign, which systemd and cron leave alone.

        That is one that was stopped, or has ended, and nothing has come back.
        """
        phase = self._store.campaign(self._name).phase
        if not self._context.until_idle or phase in {CampaignPhase.ACTIVE, CampaignPhase.PAUSED}:
            return None
        left = {SessionState.PLANNED, SessionState.RUNNING} & self._store.counts(
            self._campaign
        ).keys()
        return None if phase is CampaignPhase.ENDED and left else phase

    def _register(self) -> None:
        """Register this conductor, and recover the sessions of an earlier one."""
        now, before = self._clock.now(), self._store.campaign(self._name)
        phase = (
            CampaignPhase.PAUSED if before.phase is CampaignPhase.PAUSED else CampaignPhase.ACTIVE
        )
        self._store.set_phase(self._campaign, phase, self._context.holder)
        since = before.seen_at or before.created_at
        if before.seen_at is not None and now - since > LATE:
            self._note_gap(Gap(since, now, "no conductor of the campaign was running"))
        self._watch.begin(since)
        self._renew(now)
        self._pool_policy.destroy_orphaned_pools()
        self._skips.skip_removed_platforms(now)
        self._skips.record_all_medians()
        self._watch.note_recovery()  # what it kept us from is in the gap
        self._has_taken_up = True

    def _step(self) -> CampaignPhase | None:
        """Make one pass of the loop; return the phase at its end, if it is over."""
        try:
            if not self._has_taken_up:
                if (left := self._is_left_alone()) is not None:
                    return left
                self._register()
            phase = self._look()
            self._watch.note_recovery()
            if phase is not None:
                self._pool_policy.close(self._clock.now())
                self._log.close()
                ended = phase is CampaignPhase.ENDED
                self._store.leave(
                    self._campaign, self._context.holder, self._clock.now(), ended=ended
                )
        except StorageError as error:
            if self._watch.note_failure(str(error)):
                self._log.say("failure", str(error))
            return CampaignPhase.STOPPED if self._stopping and not self._is_busy else None
        return phase

    def _wait_for_next(self) -> None:
        """Wait for the next event or time-out; longer while the database fails."""
        self._watch.announce_wait(self._next)
        if self._watch.failing is None:
            self._clock.wait(self._next, self._wake)
        else:
            again = self._clock.steady() + _STORE_AGAIN_S
            while not self._stopping and (left := again - self._clock.steady()) > 0:
                self._wake.clear()  # what has ended can wait, too
                self._clock.wait(self._clock.now() + timedelta(seconds=left), self._wake)
        self._wake.clear()

    def _look(self) -> CampaignPhase | None:
        """Make one pass of the loop; return the phase if the campaign is over."""
        now = self._clock.now()
        self._after_database_failure(now)
        absent = self._was_absent(now)
        ended = self._collect(now)
        cleaned = self._skips.cleaning.collect(now)
        phase, before = self._store.campaign(self._name).phase, self._phase
        if absent or now >= self._renew_at:
            self._renew(now)
        if ended or cleaned or absent or now >= self._next or phase is not before:
            cells = ended if before else {platform_key(platform) for platform in self._plan.parts}
            away = absent or before in {None, CampaignPhase.PAUSED}
            self._act(phase, cells, now, away=away)
        self._phase = phase
        return self._over(phase, now)

    def _after_database_failure(self, now: datetime) -> None:
        """Release sessions that were claimed when the database failed, and do not run."""
        outage = self._watch.failing
        if outage is None:
            return
        self._store.release_idle_claims(
            self._campaign, self._context.holder, self._dispatcher.running.ids
        )
        gap = Gap(outage.since, now, f"no database: {outage.text}")
        if now - outage.since > LATE and self._note_gap(gap):
            self._watch.note_gaps_recorded()
        self._next = now

    def _was_absent(self, now: datetime) -> bool:
        """Return whether the clock jumped, or no conductor was active for a while."""
        seen = self._watch.read(now)
        if seen.set_by:
            by_s = seen.set_by.total_seconds()
            way = "back" if by_s < 0 else "forward"
            self._log.note("gap", f"the clock was set {way} by {format_duration(abs(by_s))}")
        if seen.set_by < timedelta(0):
            self._store.plan_again(self._campaign, [SessionState.MISSED], now)
        if seen.slept_since is not None:
            self._note_gap(Gap(seen.slept_since, now, "this machine slept, or was too busy"))
        return seen.was_absent

    def _note_gap(self, gap: Gap) -> bool:
        """Record a gap without a conductor, if a session was due in it; return whether one was.

        What was due just now begins in time.
        """
        if not self._store.was_due(self._campaign, gap.since, gap.until - LATE):
            return False
        self._store.note_gap(self._campaign, gap)
        times = f"{gap.since:%Y-%m-%d %H:%M} to {gap.until:%Y-%m-%d %H:%M} UTC"
        self._log.note("gap", f"{times}: {gap.why}")
        return True

    def _collect(self, now: datetime) -> set[PlatformKey]:
        """Record the outcome of sessions that ended; return their platforms."""
        ended = set()
        for future, session in self._dispatcher.running.ended:
            outcome = outcome_of(future, session)
            values, line = outcome.values(now, stopping=self._stopping), outcome.line(session)
            over = outcome.end.state is not SessionState.PLANNED
            left = session.uncleared
            if not _has_begun(session):
                values["directory"] = None  # nothing was made
            elif over:
                left = values["uncleared"] = uncleared(paths_of(session))
            ours = self._store.finish(session, outcome.end.state, now, line, **values)
            self._dispatcher.end(future)
            ended.add(session.platform_key)
            if not ours:
                what = f"{session.slot} {session.platform}"
                self._log.note("gap", f"{what}: another process has taken it over")
                continue
            self._log.say(line.kind, line.text)
            if over and left is not None:
                why = outcome.end.why or "its run has ended"
                news = why if left != session.uncleared else None
                self._skips.cleaning.schedule(replace(session, uncleared=left), now, news)
            if outcome.end.state is SessionState.DONE:
                self._skips.record_medians([session])
        return ended

    def _act(
        self, phase: CampaignPhase, ended: set[PlatformKey], now: datetime, *, away: bool
    ) -> None:
        """Skip, dispatch, and compute the time of the next action."""
        late = late_before(self._plan.campaign.missed, now) if away else None
        if self._skips.skip_missed(now, self._why(phase, away=away), late):
            self._watch.note_missed()
        self._skips.skip_ended_cells(ended, now)
        if not self._stopping:
            self._skips.cleaning.start_due(now, self._wake)
        self._log.note_problems()
        self._pool_policy.charge_idle()
        soon = None
        if phase is CampaignPhase.ACTIVE and not self._stopping:
            soon = self._dispatcher.begin(now, self._log, self._skips)
        self._pool_policy.release_unneeded(phase, self._dispatcher.running.platforms, now)
        again = None if soon is None else now + soon
        coming = self._store.next_time(self._campaign, now)
        self._any_planned = coming is not None
        sweep = None if self._stopping else self._skips.cleaning.next
        # A waiting conductor renews its lease at each look.
        renew = (
            self._renew_at
            if self._is_busy or coming is None or self._foreign_session_runs()
            else None
        )
        self._next = min(time for time in (again, coming, renew, sweep) if time is not None)

    def _why(self, phase: CampaignPhase, *, away: bool) -> str:
        """Return the reason for sessions that were missed."""
        if CampaignPhase.PAUSED in (phase, self._phase):
            return "the campaign was paused"
        if away:
            return "no conductor of the campaign was running"
        if self._dispatcher.is_full:
            return f"{len(self._dispatcher.running)} other sessions ran, as many as may run at once"
        return "its cloud was measured by another session"

    def _renew(self, now: datetime) -> None:
        """Renew leases, recover sessions of dead conductors, and stop those with a lost lease."""
        self._store.renew(self._campaign, self._context.holder, now)
        for lost in self._store.recover(self._campaign, now):
            self._log.note("gap", f"{lost.slot} {lost.platform}: interrupted, will go on")
        held = self._store.held(self._campaign, self._context.holder)
        for session in self._dispatcher.running:
            if held.get(session.id) != session.token:
                self._context.halt(session.id)
        self._renew_at = now + _RENEW

    def _over(self, phase: CampaignPhase, now: datetime) -> CampaignPhase | None:
        """Return the phase at the end of the loop, if it is to end now."""
        stops = self._stopping or phase is CampaignPhase.STOPPED
        if self._is_busy or (self._skips.cleaning.is_trying and not stops):
            return None
        if stops:
            return CampaignPhase.STOPPED
        leaves = self._any_planned and self._context.until_idle and not self._pool_policy.has_vms
        if leaves and not self._foreign_session_runs():
            opens = self._store.next_opening(self._campaign)
            return phase if opens is not None and opens > now + _SOON else None
        if self._any_planned or self._foreign_session_runs():
            return None
        settles_in, again_in = self._watch.settles_in, self._pool_policy.retry_in(now)
        if waits := [one for one in (settles_in, again_in) if one is not None]:
            self._next = now + min(waits)
            return None
        if phase is not CampaignPhase.ENDED:
            counts = self._store.counts(self._campaign)
            reported = ", ".join(f"{count} {state}" for state, count in counts.items())
            self._log.note("end", f"the campaign has ended: {reported}", last=True)
        return CampaignPhase.ENDED


def _has_begun(session: SessionRow) -> bool:
    return session.directory is not None and not is_absent(session.directory)


@dataclass(frozen=True)
class AttemptOutcome:
    """Outcome of an attempt at a session; ``attempts`` counts those that an outage ended.

    ``is_news``: it failed in another way than the one before, and is notified.
    """

    end: SessionResult
    attempts: int
    is_news: bool = False

    def values(self, now: datetime, *, stopping: bool) -> dict[str, Any]:
        """Return the new values of the session's row. A retry is due after a delay."""
        values = {name: value for name, value in vars(self.end).items() if name != "state"}
        values |= {"attempts": self.attempts, "ended_at": now}
        if self.end.state is SessionState.PLANNED:
            values["ended_at"] = None
            if not stopping:
                values["due"] = now + _OUTAGE * max(1, self.attempts)
        return values

    def line(self, session: SessionRow) -> LogLine:
        """Return the line for the log."""
        end = self.end
        what = f"{session.slot} {session.platform}: {end.state}"
        trials = f", {counted(end.trials_ok, 'trial')} ok, {end.trials_failed} failed"
        failed = end.state is SessionState.FAILED or end.trials_failed or self.is_news
        kind = "failure" if failed else "end"
        return LogLine(kind, what + trials + (f": {end.why}" if end.why else ""))


def outcome_of(future: Future[SessionResult], session: SessionRow) -> AttemptOutcome:
    """Return the outcome of a session, from its result or exception.

    One that was interrupted, or could not be written down, is planned again, and so is one whose
    cloud failed, but for the last time. What it has cost is counted in any case.
    """
    attempts, message = session.attempts, None
    try:
        return AttemptOutcome(future.result(), attempts)
    except Interrupted as error:
        state, why = SessionState.PLANNED, error.message
    except StorageError as error:
        state, why, message = SessionState.PLANNED, str(error), error.message
    except InputError as error:
        state, why, message = SessionState.FAILED, str(error), error.message
    except OsmefError as error:
        attempts += 1
        state = SessionState.PLANNED if attempts < _MOST_ATTEMPTS else SessionState.FAILED
        why, message = str(error), error.message
    except Exception as error:
        state, why = SessionState.FAILED, f"a bug: {type(error).__name__}: {error}"
    end = (
        partial_result(Path(session.directory), state, why)
        if session.directory
        else SessionResult(state, why=why)
    )
    # Where it failed is another run directory each time.
    is_news = message is not None and message not in (session.why or "")
    return AttemptOutcome(end, attempts, is_news)
