"""What a conductor does about VMs that are kept: it counts their cost, and lets them go in time.

So it does with what a dead one has kept: the keys were in that one's memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from osmef.campaigns.calendar import Platform, sessions
from osmef.campaigns.keeper import Pair
from osmef.campaigns.left import bury, unended
from osmef.campaigns.logbook import Logbook
from osmef.campaigns.means import Means
from osmef.campaigns.rows import Phase, Session, Standing, platform_name
from osmef.campaigns.score import Score
from osmef.engine.holding import PAID
from osmef.engine.plan import make_plan
from osmef.engine.run import longest_s
from osmef.errors import OsmefError
from osmef.providers.parallel import side_by_side
from osmef.scenario.money import parse_money
from osmef.scenario.study import Study

if TYPE_CHECKING:
    from osmef.campaigns.store import Store

# What would not go is tried again after so long, so often.
_AGAIN = timedelta(minutes=10)
_MOST_TRIES = 3
_HOUR = timedelta(hours=1)
# More often nobody has to know what VMs cost that only stand.
_OFTEN = timedelta(minutes=1)


class Keeping:
    """Watches over what the keeper has. Its methods raise StorageError."""

    def __init__(
        self, store: Store, standing: Standing, score: Score, means: Means, log: Logbook
    ) -> None:
        self._store, self._standing, self._score = store, standing, score
        self._keeper, self._log = means.keeper, log
        self._tries: dict[str, int] = {}
        self._again_at: dict[str, datetime] = {}

    @property
    def stands(self) -> bool:
        """Whether any VMs are kept now."""
        return bool(self._standing_pairs)

    @property
    def _pairs(self) -> list[Pair]:
        return self._keeper.pairs if self._keeper else []

    @property
    def _standing_pairs(self) -> list[Pair]:
        return [pair for pair in self._pairs if pair.holding is not None]

    @cached_property
    def _platforms(self) -> dict[str, Platform]:
        return {
            platform_name(one.scenario, one.provider, one.instance_class): one
            for one in self._score.parts
        }

    @cached_property
    def _deadlines(self) -> dict[Platform, float]:
        """Until when nobody can need the VMs of a platform, as UNIX times."""
        found: dict[Platform, float] = {}
        for one in sessions(self._score.campaign):
            closes = one.slot.closes.timestamp()
            found[one.platform] = max(closes, found.get(one.platform, closes))
        studies = {platform: self._score.parts[platform].study for platform in found}
        return {one: closes + _longest_s(studies[one]) for one, closes in found.items()}

    def until(self, session: Session) -> float | None:
        """Return until when the VMs of a session are kept; None where it has its own."""
        platform = self._platforms[session.platform]
        if self._keeper is None or not self._score.parts[platform].kept:
            return None
        return self._deadlines[platform]

    def take_up(self) -> None:
        """Destroy what dead conductors have kept, count it, and say so."""
        for directory, controller in unended(Path(self._standing.out)):
            if controller.may_live:
                where = f"a conductor on {controller.machine} may still keep its VMs"
                cure = "if it is dead for sure: osmef reap --controller-is-dead --out"
                self._log.note("note", f"{directory.id}: {where}; {cure} {self._standing.out}")
                continue
            try:
                bill = bury(directory)
            except OsmefError as error:
                self._log.note("failure", f"{directory.id}: left standing: {error}")
                continue
            if bill.session is not None and bill.cost is not None:
                amount, currency = bill.cost.amount, bill.cost.currency
                self._store.pay(self._standing.id, bill.session, amount, currency)
            self._log.note("note", f"{directory.id}: VMs that were kept are gone, with their keys")

    def count(self, now: datetime) -> None:
        """Count what VMs have cost while nobody used them, with their last session."""
        with self._idle(self._pairs, ()) as pairs:
            for pair in pairs:
                if pair.owed or (pair.since is not None and now - pair.since >= _OFTEN):
                    self._count(pair, now)

    def _count(self, pair: Pair, now: datetime) -> None:
        pair.settle(now)
        if pair.owed and pair.currency:
            self._store.pay(self._standing.id, pair.session, pair.owed, pair.currency)
            pair.owed = 0.0
            if pair.holding is not None:
                pair.holding.note(PAID, session=pair.session)

    def _coming(self, pair: Pair) -> Session | None:
        one = self._platforms[pair.platform]
        cell = (one.scenario, one.provider or "", one.instance_class or "")
        return self._store.coming(self._standing.id, cell)

    def _coming_cost(self, pair: Pair, now: datetime) -> float:
        coming, cost = self._coming(pair), pair.per_hour
        if coming is None or cost is None:
            return 0.0
        part = self._score.parts[self._platforms[pair.platform]]
        return cost.amount * (max(coming.due - now, timedelta(0)) / _HOUR + part.seconds / 3600)

    def tidy(self, phase: Phase, running: Collection[str], now: datetime) -> None:
        """Let VMs go that nobody needs any more, or nobody pays for; not of what is running."""
        self._tell_news()
        self.count(now)
        ready = [
            pair for pair in self._standing_pairs if self._again_at.get(pair.platform, now) <= now
        ]
        with self._idle(ready, running) as pairs:
            going: list[tuple[Pair, str]] = []
            reserved = 0.0
            for pair in pairs:
                cost = self._coming_cost(pair, now)
                why = self._why(pair, phase, reserved + cost)
                if why is None:
                    reserved += cost
                else:
                    going.append((pair, why))
            self._let_go(going, now)

    def _tell_news(self) -> None:
        for pair in self._pairs:
            while pair.news:
                why = pair.news.pop(0)
                text = f"{pair.platform}: its kept VMs did not serve, and were made anew: {why}"
                self._log.note("note", text)

    def _why(self, pair: Pair, phase: Phase, cost: float) -> str | None:
        """Return why VMs are to go; None where they are to stay."""
        if phase is Phase.PAUSED:
            return "the campaign is paused"
        if self._coming(pair) is None:
            return "its last session is over"
        budget = self._score.campaign.budget
        if (
            budget is None
            or self._store.spent(self._standing.id) + cost <= parse_money(budget).amount
        ):
            return None
        return f"the budget of {budget} does not pay for them until the next session has ended"

    def close(self, now: datetime) -> None:
        """Let everything go, when the conductor leaves and nothing runs."""
        with self._idle(self._standing_pairs, ()) as pairs:
            self._let_go([(pair, "the conductor leaves") for pair in pairs], now)

    def again_in(self, now: datetime) -> timedelta | None:
        """Return when to try again to let go what would not; None where there is nothing to try."""
        pairs = [one.platform for one in self._standing_pairs]
        tries = [
            self._again_at.get(one, now) for one in pairs if self._tries.get(one, 0) < _MOST_TRIES
        ]
        return max(min(tries) - now, timedelta(seconds=1)) if tries else None

    def _let_go(self, going: Sequence[tuple[Pair, str]], now: datetime) -> None:
        errors = side_by_side(self._destroy, [pair for pair, _ in going])
        for (pair, why), error in zip(going, errors, strict=True):
            self._count(pair, now)
            if error is None:
                self._tries.pop(pair.platform, None)
                self._again_at.pop(pair.platform, None)
                self._log.note("note", f"{pair.platform}: its kept VMs are gone: {why}")
                continue
            self._tries[pair.platform] = self._tries.get(pair.platform, 0) + 1
            self._again_at[pair.platform] = now + _AGAIN
            cure = f"osmef reap --out {self._standing.out}"
            text = f"{pair.platform}: kept VMs left standing: {error}; if they stay so: {cure}"
            self._log.note("failure", text)

    def _destroy(self, pair: Pair) -> OsmefError | None:
        assert self._keeper is not None  # noqa: S101 - whose pair it is
        try:
            self._keeper.let_go(pair)
        except OsmefError as error:
            return error
        return None

    @contextmanager
    def _idle(self, pairs: Sequence[Pair], running: Collection[str]) -> Iterator[list[Pair]]:
        """Keep sessions off those that none uses now."""
        with ExitStack() as held:
            found = []
            for pair in pairs:
                if pair.platform not in running and pair.lock.acquire(blocking=False):
                    held.callback(pair.lock.release)
                    found.append(pair)
            yield found


def _longest_s(study: Study) -> float:
    """Return how long a session may last at the very most, in seconds."""
    return max(longest_s(list(make_plan(study, 0).trials)), study.scenario.deadline or 0.0)
