"""Pool of VMs that a campaign keeps between sessions: a pair for each platform, and its policy.

Made in the thread of a platform's first session, lent to each later one, recreated when it does not
serve any more. The policy counts the cost, and releases VMs that no session needs. Orphaned pools,
those of a dead conductor, are destroyed: it alone had the keys to their VMs.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from osmef.campaigns.schedule.calendar import Clock, Platform, sessions
from osmef.campaigns.schedule.plan import CampaignPlan
from osmef.campaigns.state.rows import CampaignPhase, CampaignRow, SessionRow
from osmef.campaigns.watching.monitoring import CampaignLog
from osmef.engine.cancellation import CancellationToken
from osmef.engine.cost import spent, total
from osmef.engine.events import (
    Charged,
    Destroyed,
    Ended,
    EndpointsLent,
    Event,
    Observer,
    PoolEvent,
    Provisioning,
    Released,
    Requested,
    Returned,
)
from osmef.engine.held_endpoints import PREFIX, HeldEndpoints, User
from osmef.engine.journal import Controller, History, Journal, State, controller_of
from osmef.engine.plan import Plan, make_plan
from osmef.engine.reap import destroy, leftovers
from osmef.engine.run import longest_s
from osmef.errors import Interrupted, OsmefError
from osmef.providers.parallel import map_concurrently
from osmef.results.files import storage
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Cost
from osmef.scenario.fields import parse_money
from osmef.scenario.study import Study

if TYPE_CHECKING:
    from osmef.campaigns.state.store import Store


_POLL_S = 0.1
_HOUR_S = 3600.0

Make = Callable[[Plan, Path, float, User], HeldEndpoints]
"""Creates the endpoints of a plan: see HeldEndpoints.begin."""


@dataclass
class PooledVms:
    """The pooled VMs of a platform, if any exist, and their uncharged cost.

    ``session`` used them last. What they cost while one uses them is in its own run's cost.
    They are idle ``since`` then, by ``Clock.steady``: a clock that is set costs nothing.
    ``why_recreated`` is why the last ones did not serve, until others do;
    ``messages`` are the lines to log.
    """

    platform: str
    clock: Clock
    lock: threading.Lock = field(default_factory=threading.Lock)
    holding: HeldEndpoints | None = None
    session: int = 0
    since: float | None = None
    unpaid_cost: float = 0.0
    currency: str | None = None
    why_recreated: str | None = None
    messages: list[str] = field(default_factory=list)

    @property
    def idle_s(self) -> float:
        """How long they have been idle, in seconds, of which the cost is not counted yet."""
        return 0.0 if self.since is None else self.clock.steady() - self.since

    def accrue(self) -> None:
        """Add the cost of the idle time so far to ``unpaid_cost``, in ``currency``."""
        cost, now = self.per_hour, self.clock.steady()
        if self.since is not None and cost is not None:
            self.unpaid_cost += cost.amount * (now - self.since) / _HOUR_S
            self.currency = cost.currency
            self.since = now

    @property
    def per_hour(self) -> Cost | None:
        """Their hourly cost; None without VMs, or where it is unknown."""
        return self.holding.per_hour if self.holding is not None else None


@dataclass(frozen=True)
class LoanRequest:
    """Request of a session for pooled VMs, kept until a UNIX time, with runs in ``out``."""

    session: int
    platform: str
    out: Path
    until: float


@dataclass(frozen=True)
class Loan:
    """VMs lent to a session, and the reason if pooled ones were recreated for it."""

    holding: HeldEndpoints
    why_recreated: str | None


class VmPool:
    """A pool of VMs, a pair for each platform. Thread-safe."""

    def __init__(self, clock: Clock, make: Make = HeldEndpoints.begin) -> None:
        self._clock, self._make = clock, make
        self._pairs: dict[str, PooledVms] = {}
        self._lock = threading.Lock()

    @property
    def all_vms(self) -> list[PooledVms]:
        """All pairs, also those without VMs at present."""
        with self._lock:
            return list(self._pairs.values())

    @contextmanager
    def lend(self, request: LoanRequest, plan: Plan, user: User) -> Iterator[Loan]:
        """Lend a session its platform's VMs, created on demand, and take them back.

        Waits while another session uses them. Raises OsmefError where they can't be made, or what
        does not serve can't be destroyed; Interrupted.
        """
        with self._lock:
            pair = self._pairs.setdefault(
                request.platform, PooledVms(request.platform, self._clock)
            )
        while not pair.lock.acquire(timeout=_POLL_S):
            user.stop.check()
        try:
            pair.session = request.session
            self._look(pair, plan, user)
            if pair.holding is None:
                self._provision(pair, request, plan, user)
            holding = pair.holding
            assert holding is not None  # noqa: S101 - made above
            pair.accrue()
            pair.since = None
            holding.note(EndpointsLent(request.session))
            why_recreated, pair.why_recreated = pair.why_recreated, None
            yield Loan(holding, why_recreated)
        finally:
            try:
                self._return(pair)
            finally:
                pair.lock.release()

    def _return(self, pair: PooledVms) -> None:
        if pair.holding is not None:
            pair.holding.user = User(CancellationToken(), Observer())
            if pair.since is None:
                pair.since = self._clock.steady()
                pair.holding.note(Returned(pair.session))

    def _look(self, pair: PooledVms, plan: Plan, user: User) -> None:
        """Check the health of pooled VMs; destroy those that fail, and keep the reason."""
        if pair.holding is None:
            return
        pair.holding.user = user
        try:
            pair.holding.verify(plan)
        except Interrupted:
            raise
        except OsmefError as error:
            self.release(pair)
            pair.why_recreated = str(error)
            pair.messages.append(pair.why_recreated)

    def _provision(self, pair: PooledVms, request: LoanRequest, plan: Plan, user: User) -> None:
        pair.holding = self._make(plan, request.out, request.until, user)
        pair.since = self._clock.steady()
        try:
            pair.holding.note(Requested(request.session))
            pair.holding.make()
        except BaseException:
            self.release(pair)
            raise

    def release(self, pair: PooledVms) -> None:
        """Destroy idle VMs. Raises OsmefError; a later call retries."""
        if pair.holding is not None:
            pair.holding.close()
            pair.accrue()
            pair.holding, pair.since = None, None

    def close(self) -> list[OsmefError]:
        """Destroy all VMs, and return the errors. No session may run."""
        errors = []
        for pair in self.all_vms:
            try:
                self.release(pair)
            except OsmefError as error:
                errors.append(error)
        return errors


# What would not go is tried again after so long, so often.
_AGAIN = timedelta(minutes=10)
_MOST_TRIES = 3
_HOUR = timedelta(hours=1)
# The cost of idle VMs need not be known more often.
_OFTEN_S = 60.0


class PoolPolicy:
    """Accounts for the pool of one campaign, and releases its VMs. Methods raise StorageError."""

    def __init__(
        self,
        store: Store,
        row: CampaignRow,
        campaign_plan: CampaignPlan,
        vm_pool: VmPool | None,
        log: CampaignLog,
    ) -> None:
        self._store, self._row, self._plan = store, row, campaign_plan
        self._vm_pool, self._log = vm_pool, log
        self._tries: dict[str, int] = {}
        self._again_at: dict[str, datetime] = {}

    @property
    def has_vms(self) -> bool:
        """Whether the pool has any VMs."""
        return bool(self._pairs_with_vms)

    @property
    def _pairs(self) -> list[PooledVms]:
        return self._vm_pool.all_vms if self._vm_pool else []

    @property
    def _pairs_with_vms(self) -> list[PooledVms]:
        return [pair for pair in self._pairs if pair.holding is not None]

    @cached_property
    def _platforms(self) -> dict[str, Platform]:
        return {one.shown: one for one in self._plan.parts}

    @cached_property
    def _deadlines(self) -> dict[Platform, float]:
        """Return the latest use of each platform's VMs, as UNIX times."""
        found: dict[Platform, float] = {}
        for one in sessions(self._plan.campaign):
            closes = one.slot.closes.timestamp()
            found[one.platform] = max(closes, found.get(one.platform, closes))
        studies = {platform: self._plan.parts[platform].study for platform in found}
        return {one: closes + _longest_s(studies[one]) for one, closes in found.items()}

    def kept_until(self, session: SessionRow) -> float | None:
        """Return until when the VMs of a session are kept; None where it creates its own."""
        platform = self._platforms[session.platform]
        if self._vm_pool is None or not self._plan.parts[platform].kept:
            return None
        return self._deadlines[platform]

    def destroy_orphaned_pools(self) -> None:
        """Destroy orphaned pools, charge their cost, and log it."""
        for directory, controller in orphaned_pools(Path(self._row.out)):
            if controller.may_live:
                where = f"a conductor on {controller.machine} may still keep its VMs"
                cure = "if it is dead for sure: osmef reap --controller-is-dead --out"
                self._log.note(
                    "note", f"{directory.id}: {where}; {cure} {shlex.quote(self._row.out)}"
                )
                continue
            try:
                uncounted = destroy_orphan(directory)
            except OsmefError as error:
                self._log.note("failure", f"{directory.id}: not destroyed: {error}")
                continue
            if uncounted.session is not None and uncounted.cost is not None:
                amount, currency = uncounted.cost.amount, uncounted.cost.currency
                self._store.pay(self._row.id, uncounted.session, amount, currency)
            self._log.note(
                "note", f"{directory.id}: VMs that were kept no longer exist, nor do their keys"
            )

    def charge_idle(self) -> None:
        """Charge the cost of idle VMs to their last session."""
        with self._idle(self._pairs, ()) as pairs:
            for pair in pairs:
                if pair.unpaid_cost or pair.idle_s >= _OFTEN_S:
                    self._count(pair)

    def _count(self, pair: PooledVms) -> None:
        pair.accrue()
        if pair.unpaid_cost and pair.currency:
            self._store.pay(self._row.id, pair.session, pair.unpaid_cost, pair.currency)
            pair.unpaid_cost = 0.0
            if pair.holding is not None:
                pair.holding.note(Charged(pair.session))

    def _coming(self, pair: PooledVms) -> SessionRow | None:
        one = self._platforms[pair.platform]
        cell = (one.scenario, one.provider or "", one.instance_class or "")
        return self._store.next_session(self._row.id, cell)

    def _coming_cost(self, pair: PooledVms, now: datetime) -> float:
        coming, cost = self._coming(pair), pair.per_hour
        if coming is None or cost is None:
            return 0.0
        part = self._plan.parts[self._platforms[pair.platform]]
        return cost.amount * (max(coming.due - now, timedelta(0)) / _HOUR + part.seconds / 3600)

    def release_unneeded(
        self, phase: CampaignPhase, running: Collection[str], now: datetime
    ) -> None:
        """Release idle VMs that no further session needs, or that exceed the budget."""
        self._log_events()
        self.charge_idle()
        ready = [
            pair for pair in self._pairs_with_vms if self._again_at.get(pair.platform, now) <= now
        ]
        with self._idle(ready, running) as pairs:
            going: list[tuple[PooledVms, str]] = []
            reserved = 0.0
            for pair in pairs:
                cost = self._coming_cost(pair, now)
                why = self._why(pair, phase, reserved + cost)
                if why is None:
                    reserved += cost
                else:
                    going.append((pair, why))
            self._release(going, now)

    def _log_events(self) -> None:
        for pair in self._pairs:
            while pair.messages:
                why = pair.messages.pop(0)
                text = f"{pair.platform}: its kept VMs did not work, and were recreated: {why}"
                self._log.note("note", text)

    def _why(self, pair: PooledVms, phase: CampaignPhase, cost: float) -> str | None:
        """Return the reason to release VMs; None to keep them."""
        if phase is CampaignPhase.PAUSED:
            return "the campaign is paused"
        if self._coming(pair) is None:
            return "its last session is over"
        budget = self._plan.campaign.budget
        if budget is None or self._store.spent(self._row.id) + cost <= parse_money(budget).amount:
            return None
        return f"the budget of {budget} does not pay for them until the next session has ended"

    def close(self, now: datetime) -> None:
        """Release all VMs, after the last session of this conductor."""
        with self._idle(self._pairs_with_vms, ()) as pairs:
            self._release([(pair, "the conductor leaves") for pair in pairs], now)

    def retry_in(self, now: datetime) -> timedelta | None:
        """Return the delay until failed releases are retried; None without any."""
        pairs = [one.platform for one in self._pairs_with_vms]
        tries = [
            self._again_at.get(one, now) for one in pairs if self._tries.get(one, 0) < _MOST_TRIES
        ]
        return max(min(tries) - now, timedelta(seconds=1)) if tries else None

    def _release(self, going: Sequence[tuple[PooledVms, str]], now: datetime) -> None:
        errors = map_concurrently(self._destroy, [pair for pair, _ in going])
        for (pair, why), error in zip(going, errors, strict=True):
            self._count(pair)
            if error is None:
                self._tries.pop(pair.platform, None)
                self._again_at.pop(pair.platform, None)
                self._log.note("note", f"{pair.platform}: its kept VMs no longer exist: {why}")
                continue
            self._tries[pair.platform] = self._tries.get(pair.platform, 0) + 1
            self._again_at[pair.platform] = now + _AGAIN
            cure = f"osmef reap --out {shlex.quote(self._row.out)}"
            text = f"{pair.platform}: kept VMs not destroyed: {error}; if this persists: {cure}"
            self._log.note("failure", text)

    def _destroy(self, pair: PooledVms) -> OsmefError | None:
        assert self._vm_pool is not None  # noqa: S101 - whose pair it is
        try:
            self._vm_pool.release(pair)
        except OsmefError as error:
            return error
        return None

    @contextmanager
    def _idle(
        self, pairs: Sequence[PooledVms], running: Collection[str]
    ) -> Iterator[list[PooledVms]]:
        """Reserve idle VMs against use by a session, for the length of the context."""
        with ExitStack() as held:
            found = []
            for pair in pairs:
                if pair.platform not in running and pair.lock.acquire(blocking=False):
                    held.callback(pair.lock.release)
                    found.append(pair)
            yield found


def _longest_s(study: Study) -> float:
    """Return the upper bound of a session's length, in seconds."""
    return max(longest_s(list(make_plan(study, 0).trials)), study.scenario.deadline or 0.0)


@dataclass(frozen=True)
class UncountedCost:
    """Cost of pooled VMs that was not charged yet, and their last session.

    None where that is not known.
    """

    session: int | None
    cost: Cost | None


def orphaned_pools(out: Path) -> list[tuple[RunDirectory, Controller]]:
    """Return the run directories of orphaned pools under ``out``, each with its controller.

    Without those whose holders surely live. Raises StorageError.
    """
    with storage("look into", out):
        journals = sorted(out.glob(f"{PREFIX}*/journal.jsonl"))
    found = []
    for path in journals:
        directory, history = RunDirectory(path.parent), Journal(path).history()
        is_over = not history.all(Requested) or history.has_ended
        if is_over or (live := directory.is_live()):
            continue
        controller = controller_of(directory, lock_is_free=live is False)
        if controller.state is not State.LIVE:
            found.append((directory, controller))
    return found


def destroy_orphan(directory: RunDirectory) -> UncountedCost:
    """Destroy an orphaned pool, and return its uncharged cost. Raises OsmefError."""
    with directory:
        directory.acquire()
        for left in destroy(leftovers(directory)):
            raise left.error
        journal = Journal(directory.journal)
        journal.note(Released())
        journal.note(Ended())
        return _uncounted(journal.history())


def _uncounted(history: History) -> UncountedCost:
    """Return the cost since the last charge, or since the last session began."""
    kinds: tuple[type[Event], ...] = (Provisioning, PoolEvent)
    used = history.timed(*kinds)
    sessions = [one.session for one in history.all(PoolEvent) if one.session is not None]
    last = sessions[-1] if sessions else None
    whole = total(spent(history).most)
    begins, released = history.timed(Provisioning), history.timed(Released)
    gone: list[tuple[datetime, Event]] = [*(history.timed(Destroyed) or released)]
    if whole is None or not begins:
        return UncountedCost(last, None)
    begin, since, end = begins[0][0], used[-1][0], gone[-1][0]
    counted = released[-1][0] - begin
    # It is below 0 where the clock was set back before they were found.
    share = max(0.0, (end - since) / counted) if counted > timedelta(0) else 0.0
    return UncountedCost(last, Cost(amount=whole.amount * share, currency=whole.currency))
