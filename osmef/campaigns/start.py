"""Beginning sessions: what is due, in order, each on a cloud that nobody else measures."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from osmef.campaigns.cleaning import is_there
from osmef.campaigns.keeping import Keeping
from osmef.campaigns.leaving import Leaving, platform_of
from osmef.campaigns.logbook import Logbook
from osmef.campaigns.means import Means
from osmef.campaigns.rows import Line, Refusal, Session, Standing, State, Terms
from osmef.campaigns.running import Running
from osmef.campaigns.score import Score
from osmef.campaigns.session import End, Work
from osmef.errors import StorageError
from osmef.results.rundir import new_path
from osmef.scenario.money import parse_money

if TYPE_CHECKING:
    from osmef.campaigns.store import Store

# So long a campaign that had a cloud lets another one have it that has waited for longer.
_AFTER_YOU = timedelta(seconds=10)
_NAMES = 100
# So many begin before ends, a stop and the lease are looked after.
_AT_ONCE = 100


class Starter:
    """Claims sessions of one campaign and hands them to the executor."""

    def __init__(
        self,
        store: Store,
        standing: Standing,
        score: Score,
        means: Means,
        keeping: Keeping,
    ) -> None:
        self._store, self._standing, self._score, self._means = store, standing, score, means
        self._keeping = keeping
        self.running = Running()
        self._freed: dict[str, datetime] = {}
        self._sharing: dict[str, set[str]] = defaultdict(set)
        """The clouds of this campaign that a name is a place of."""
        for cloud, places in {part.cloud: part.places for part in score.parts.values()}.items():
            for name in places:
                self._sharing[name].add(cloud)

    @property
    def is_full(self) -> bool:
        """Whether the executor has no room."""
        return len(self.running) >= self._means.executor.room

    def begin(self, now: datetime, log: Logbook, leaving: Leaving) -> timedelta | None:
        """Begin what is due, in order, as far as there is room and its cloud is free.

        Return after how long to look again: at once where more may be due, soon where something
        waits for a cloud that others measure.
        """
        exclusive = self._score.campaign.exclusive
        busy = self._store.busy(now) if exclusive and not self.is_full else {}
        waits = any(name not in self.running.places for name in busy)
        cleaned = leaving.cleaning.places if exclusive else set()
        taken = {cloud for name in {*busy, *cleaned} for cloud in self._sharing[name]}
        begun = 0
        while not self.is_full and begun < _AT_ONCE:
            room = min(self._means.executor.room - len(self.running), _AT_ONCE - begun)
            batch = self._store.due(self._standing.id, now, room, taken)
            if not batch:
                break
            for session in batch:
                if session.cloud in taken:
                    continue
                if session.id in self.running.ids:  # another has had it, and ours still cleans up
                    taken.add(session.cloud)
                    continue
                refusal = self._try(self._without_known(session, now, leaving), now, log)
                if refusal is Refusal.BUDGET:
                    return self._hold_budget(now, leaving)
                begun += refusal is None
                waits = waits or refusal is Refusal.BUSY
                if exclusive or refusal is Refusal.BUSY:
                    taken |= {one for name in session.places for one in self._sharing[name]}
        if begun >= _AT_ONCE:
            return timedelta(0)
        return self._means.again if waits and not self.is_full else None

    def end(self, future: Future[End], now: datetime) -> None:
        """Forget one that has ended."""
        session = self.running.remove(future)
        self._freed |= dict.fromkeys(session.places, now)

    def _try(self, session: Session, now: datetime, log: Logbook) -> Refusal | None:
        """Begin a session, or return why that can't be."""
        freed = [self._freed[name] for name in session.places if name in self._freed]
        if freed and now - max(freed) < _AFTER_YOU and self._store.is_wanted(session, now):
            return Refusal.BUSY
        count = len(session.cells_left_out)
        without = f", without {count} known cell{'s' * (count > 1)}" * bool(count)
        line = Line("start", f"{session.slot} {session.platform}{without}")
        claimed = self._store.claim(session, self._means.holder, now, self._terms(session), line)
        if isinstance(claimed, Refusal):
            return claimed
        placed = self._placed(claimed)
        work = self._work(placed)
        log.say(line.kind, line.text)
        self.running.add(self._means.executor.submit(self._means.measure, work), placed)
        return None

    @staticmethod
    def _without_known(session: Session, now: datetime, leaving: Leaving) -> Session:
        """Return a session without the cells that are known by now; one that has begun as it was.

        Of one that has none left nothing is planned any more, and its claim is refused.
        """
        if session.directory is not None and is_there(Path(session.directory)):
            return session
        leaving.known([session.cell], now)  # another conductor may have come to know the last
        return replace(session, left_out="\n".join(leaving.known_of(session.cell)) or None)

    def _terms(self, session: Session) -> Terms:
        campaign = self._score.campaign
        if campaign.budget is None:
            return Terms(campaign.exclusive)
        planned = self._score.parts[platform_of(session)].amount
        expected = max(planned, self._store.dearest(session))
        return Terms(campaign.exclusive, parse_money(campaign.budget).amount, expected)

    def _hold_budget(self, now: datetime, leaving: Leaving) -> timedelta | None:
        """Leave out the platforms of which one more session would surely cost too much.

        Return after how long to look again: at once for what costs less, and soon where sessions of
        other conductors may yet cost less than by plan.
        """
        if self.running:
            return None
        if State.RUNNING in self._store.counts(self._standing.id):
            return self._means.again
        budget = self._score.campaign.budget or ""
        most, spent = parse_money(budget).amount, self._store.spent(self._standing.id)
        planned = self._store.sessions(self._standing.id, [State.PLANNED])
        one_each = {one.cell: one for one in planned}
        costs = {cell: self._terms(one).expected for cell, one in one_each.items()}
        dear = [one for one in planned if spent + costs[one.cell] > most]  # as a claim counts it
        if dear:
            leaving.too_dear(dear, f"the budget of {budget} does not pay for another session", now)
        return timedelta(0)

    def _work(self, session: Session) -> Work:
        study = self._score.parts[platform_of(session)].study
        return Work(
            session=session.id,
            slot=session.slot,
            window=session.window,
            platform=session.platform,
            text=study.text,
            file=study.path.name,
            directory=session.directory or "",
            seed=_seed(self._score.campaign.seed, session),
            provider=session.provider,
            keep_until=self._keeping.until(session),
            left_out=session.cells_left_out,
        )

    def _placed(self, session: Session) -> Session:
        """Return a session with a run directory: a new one if it has none here.

        One on another machine is for that one to clear.
        """
        if session.directory is not None and is_there(Path(session.directory)):
            return session
        lines = filter(None, (session.uncleared, session.directory))
        session = replace(session, uncleared="\n".join(lines) or None)
        name = self._score.parts[platform_of(session)].study.scenario.name
        for _ in range(_NAMES):
            path = new_path(Path(self._standing.out), name)
            if not is_there(path) and self._store.locate(session, path):
                return replace(session, directory=str(path))
        raise StorageError(
            "no name is free for a run directory",
            where=self._standing.out,
            cure="name another directory with --out",
        )


def _seed(seed: int, session: Session) -> int:
    """Return the seed of a session's plan: the same again after a crash."""
    text = f"{seed} {session.opens.isoformat()} {session.slot} {session.cell}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
