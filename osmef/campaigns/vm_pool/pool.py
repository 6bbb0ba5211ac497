"""Pool of VMs between sessions: a pair for each platform.

Made in the thread of a platform's first session, lent to each later one, made anew when it does not
serve any more. Who conducts the campaign says when one is let go.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from osmef.campaigns.schedule.clock import Clock
from osmef.engine.cancellation import Stop
from osmef.engine.events import Lent, Returned, Wanted
from osmef.engine.held_endpoints import HeldEndpoints, User
from osmef.engine.observer import Observer
from osmef.engine.plan import Plan
from osmef.errors import Interrupted, OsmefError
from osmef.results.summary import Cost

_POLL_S = 0.1
_HOUR_S = 3600.0

Make = Callable[[Plan, Path, float, User], HeldEndpoints]
"""Creates the endpoints of a plan: see Holding.begin."""


@dataclass
class PooledVms:
    """The pooled VMs of a platform, if any exist, and their uncharged cost.

    ``session`` used them last. What they cost while one uses them is in its own run's cost.
    ``anew`` is why the last ones did not serve, until others do; ``news`` is that for the log.
    """

    platform: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    holding: HeldEndpoints | None = None
    session: int = 0
    since: datetime | None = None
    owed: float = 0.0
    currency: str | None = None
    anew: str | None = None
    news: list[str] = field(default_factory=list)

    def settle(self, now: datetime) -> None:
        """Add to ``owed`` what the VMs have cost, in ``currency``, since they became idle."""
        cost = self.per_hour
        if self.since is not None and cost is not None:
            self.owed += cost.amount * max(0.0, (now - self.since).total_seconds()) / _HOUR_S
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
    anew: str | None


class VmPool:
    """A pool of VMs, a pair for each platform. Thread-safe."""

    def __init__(self, clock: Clock, make: Make = HeldEndpoints.begin) -> None:
        self._clock, self._make = clock, make
        self._pairs: dict[str, PooledVms] = {}
        self._lock = threading.Lock()

    @property
    def pairs(self) -> list[PooledVms]:
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
            pair = self._pairs.setdefault(request.platform, PooledVms(request.platform))
        while not pair.lock.acquire(timeout=_POLL_S):
            user.stop.check()
        try:
            pair.session = request.session
            self._look(pair, plan, user)
            if pair.holding is None:
                self._stand(pair, request, plan, user)
            holding = pair.holding
            assert holding is not None  # noqa: S101 - made above
            pair.settle(self._clock.now())
            pair.since = None
            holding.note(Lent(request.session))
            anew, pair.anew = pair.anew, None
            yield Loan(holding, anew)
        finally:
            try:
                self._take_back(pair)
            finally:
                pair.lock.release()

    def _take_back(self, pair: PooledVms) -> None:
        if pair.holding is not None:
            pair.holding.user = User(Stop(), Observer())
            if pair.since is None:
                pair.since = self._clock.now()
                pair.holding.note(Returned(pair.session))

    def _look(self, pair: PooledVms, plan: Plan, user: User) -> None:
        """Check the health of pooled VMs; destroy those that fail, and keep the reason."""
        if pair.holding is None:
            return
        pair.holding.user = user
        try:
            pair.holding.look(plan)
        except Interrupted:
            raise
        except OsmefError as error:
            self.release(pair)
            pair.anew = str(error)
            pair.news.append(pair.anew)

    def _stand(self, pair: PooledVms, request: LoanRequest, plan: Plan, user: User) -> None:
        pair.holding = self._make(plan, request.out, request.until, user)
        pair.since = self._clock.now()
        try:
            pair.holding.note(Wanted(request.session))
            pair.holding.make()
        except BaseException:
            self.release(pair)
            raise

    def release(self, pair: PooledVms) -> None:
        """Destroy idle VMs. Raises OsmefError; a later call retries."""
        if pair.holding is not None:
            pair.holding.close()
            pair.settle(self._clock.now())
            pair.holding, pair.since = None, None

    def close(self) -> list[OsmefError]:
        """Destroy all VMs, and return the errors. No session may run."""
        errors = []
        for pair in self.pairs:
            try:
                self.release(pair)
            except OsmefError as error:
                errors.append(error)
        return errors
