"""Conducting a campaign: each session at its time, each once, whatever happens in between."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from osmef.campaigns.calendar import Platform
from osmef.campaigns.clock import Clock
from osmef.campaigns.enough import is_enough
from osmef.campaigns.executor import Executor, Measure
from osmef.campaigns.model import Missed
from osmef.campaigns.notify import notify
from osmef.campaigns.score import Score
from osmef.campaigns.session import End, Work, clear
from osmef.campaigns.store import Session, Standing, Store
from osmef.campaigns.tables import Phase, State
from osmef.engine.stop import Stop
from osmef.errors import InputError, Interrupted, OsmefError, StorageError
from osmef.results.rundir import new_path
from osmef.scenario.money import parse_money

# A start that is so late was missed: this program did not run, or the machine slept.
_LATE = timedelta(minutes=5)
_MOST_ATTEMPTS = 3
# A cloud that fails is asked again after so long, and so much longer each time.
_OUTAGE = timedelta(minutes=10)
_STORE_AGAIN = timedelta(seconds=5)

Tell = Callable[[str, str], None]
"""Told what happens: a kind (start, end, failure, gap, missed, budget, note) and a line."""


@dataclass(frozen=True)
class Means:
    """What a conductor works with. ``holder`` names it; ``measure`` runs a session.

    ``clear`` destroys what one of a provider has left in its run directory.
    """

    holder: str
    clock: Clock
    executor: Executor
    measure: Measure
    tell: Tell
    clear: Callable[[Path, str], None] = lambda path, _provider: clear(path)


class Conductor:
    """Runs the sessions of one campaign until there are none left, or somebody stops it.

    After a stop it begins no more, and waits for those that run.
    """

    def __init__(
        self, store: Store, standing: Standing, score: Score, means: Means, stop: Stop
    ) -> None:
        self._store, self._standing, self._score = store, standing, score
        self._means, self._clock, self._tell = means, means.clock, means.tell
        self._stop = stop
        self._running: dict[Future[End], Session] = {}
        self._wake = threading.Event()
        self._seen: datetime | None = None

    @property
    def _stopping(self) -> bool:
        return self._stop.reason is not None

    def run(self) -> Phase:
        """Conduct, and return what the campaign does afterwards.

        A database that fails for a while (a full disk, a lost connection) is asked again: sessions
        that have ended are kept until it takes them.
        """
        self._store.set_phase(self._standing.id, Phase.ACTIVE, self._means.holder)
        for lost in self._store.recover(self._standing.id, self._clock.now()):
            self._note("gap", f"{lost.slot} {lost.platform}: interrupted, will go on")
        self._drop_what_left_the_file()
        while True:
            until = None
            try:
                phase, until = self._look()
                if phase is not None:
                    self._store.set_phase(self._standing.id, phase)
                    return phase
            except StorageError as error:
                self._tell("failure", str(error))
                if self._stopping and not self._running:
                    return Phase.STOPPED
                until = self._clock.now() + _STORE_AGAIN
            self._clock.wait(until, self._wake)
            self._wake.clear()

    def _drop_what_left_the_file(self) -> None:
        """Leave out sessions of platforms that the campaign's file has no more."""
        gone = [
            one
            for one in self._store.sessions(self._standing.id)
            if one.state is State.PLANNED and _platform(one) not in self._score.parts
        ]
        for one in gone:
            self._clear(one)
        why = "its platform is no longer in the campaign's file"
        self._store.skip([one.id for one in gone], State.CANCELLED, why, self._clock.now())

    def _look(self) -> tuple[Phase | None, datetime | None]:
        """Do all that is to be done now; return the phase if it is over, and when to look again."""
        now = self._clock.now()
        ended = self._collect(now)
        phase = self._store.campaign(self._standing.name).phase
        sessions = self._store.sessions(self._standing.id)
        if self._take_back(sessions, now):
            sessions = self._store.sessions(self._standing.id)
        if self._pass_over(sessions, ended, now):
            sessions = self._store.sessions(self._standing.id)
        self._store.renew(self._means.holder, now)
        planned = [one for one in sessions if one.state is State.PLANNED]
        if phase is Phase.ACTIVE and not self._stopping:
            self._begin(planned, now)
        if not self._running:
            if self._stopping or phase is Phase.STOPPED:
                return Phase.STOPPED, None
            if not any(one.state in {State.PLANNED, State.RUNNING} for one in sessions):
                self._end(sessions)
                return Phase.ENDED, None
        later = [one.due for one in planned if one.due > now]
        return None, min(later, default=None)

    def _begin(self, planned: list[Session], now: datetime) -> None:
        """Begin what is due, in order, as far as there is room and its cloud is free."""
        for session in planned:
            if len(self._running) >= self._means.executor.room or session.due > now:
                return
            if self._claim(session, now):
                self._submit(session)

    def _take_back(self, sessions: list[Session], now: datetime) -> bool:
        """Plan again what we hold and don't run: the database failed while it began."""
        running = {one.id for one in self._running.values()}
        held = [one for one in sessions if one.state is State.RUNNING and one.id not in running]
        lost = [one for one in held if one.holder == self._means.holder]
        for one in lost:
            self._store.finish(one.id, State.PLANNED, now, ended_at=None)
        return bool(lost)

    def _claim(self, session: Session, now: datetime) -> bool:
        exclusive = self._score.campaign.exclusive
        return self._store.claim(session, self._means.holder, now, exclusive=exclusive)

    def _submit(self, session: Session) -> None:
        study = self._score.parts[_platform(session)].study
        path = Path(session.directory or "")
        while session.directory is None:
            path = new_path(Path(self._standing.out), study.scenario.name)
            if not path.exists() and self._store.locate(session.id, path):
                break
        work = Work(
            session=session.id,
            slot=session.slot,
            window=session.window,
            platform=session.platform,
            text=study.text,
            file=study.path.name,
            directory=str(path),
            seed=_seed(self._score.campaign.seed, session),
            provider=session.provider,
        )
        self._note("start", f"{session.slot} {session.platform}")
        future = self._means.executor.submit(self._means.measure, work)
        self._running[future] = session
        future.add_done_callback(lambda _: self._wake.set())

    def _collect(self, now: datetime) -> bool:
        """Note how sessions ended; tell whether any did."""
        done = [future for future in self._running if future.done()]
        for future in done:
            session = self._running[future]
            end = _ended(future)
            if end.state is State.PLANNED and not self._stopping:
                end = _once_more(session, end)
            ended_at = None if end.state is State.PLANNED else now
            values = {name: value for name, value in vars(end).items() if name != "state"}
            if end.state is State.PLANNED and not self._stopping:
                values["due"] = now + _OUTAGE * (session.attempts + 1)
            self._store.finish(session.id, end.state, now, **{**values, "ended_at": ended_at})
            del self._running[future]
            self._announce(session, end)
        return bool(done)

    def _announce(self, session: Session, end: End) -> None:
        what = f"{session.slot} {session.platform}: {end.state}"
        trials = f", {end.trials_ok} trials ok, {end.trials_failed} failed"
        kind = "failure" if end.state is State.FAILED or end.trials_failed else "end"
        self._note(kind, what + trials + (f": {end.why}" if end.why else ""))

    def _pass_over(self, sessions: list[Session], ended: bool, now: datetime) -> bool:
        """Leave out what was missed, what is known well enough, and what costs too much."""
        planned = [one for one in sessions if one.state is State.PLANNED]
        last, self._seen = self._seen, now
        absent = last is None or (now - last > _LATE and not self._running)
        skip = absent and self._score.campaign.missed is Missed.SKIP
        missed = [s for s in planned if s.closes < now or (skip and s.due < now - _LATE)]
        for session in missed:
            self._clear(session)
        for why, those in _reasons(missed, now).items():
            for state, begun in ((State.FAILED, True), (State.MISSED, False)):
                mine = [one.id for one in those if bool(one.directory) is begun]
                self._store.skip(mine, state, why, now)
            first, more = those[0], len(those) - 1
            others = f", and {more} more until {those[-1].slot}" if more else ""
            self._note("missed", f"{first.slot} {first.platform}{others}: {why}")
        enough = self._leave_known(sessions, now) if ended or last is None else False
        return bool(missed) or enough or self._hold_budget(sessions, now)

    def _clear(self, session: Session) -> None:
        """Destroy what an interrupted session has left, since nobody will take it up again."""
        if session.state is not State.PLANNED or session.directory is None:
            return
        try:
            self._means.clear(Path(session.directory), session.provider)
        except OsmefError as error:
            self._note("failure", f"{session.slot} {session.platform}: left standing: {error}")

    def _leave_known(self, sessions: list[Session], now: datetime) -> bool:
        rule = self._score.campaign.stop
        if rule is None:
            return False
        found = False
        for cell in dict.fromkeys(one.cell for one in sessions):
            mine = [one for one in sessions if one.cell == cell]
            left = [one.id for one in mine if one.state is State.PLANNED]
            runs = [one.directory for one in mine if one.state is State.DONE and one.directory]
            if left and is_enough(rule, runs):
                for one in mine:
                    self._clear(one)
                why = f"{rule.metric} is known within {rule.width_percent:g} %"
                self._store.skip(left, State.ENOUGH, why, now)
                self._note("note", f"{mine[0].platform}: {why} after {len(runs)} sessions")
                found = True
        return found

    def _hold_budget(self, sessions: list[Session], now: datetime) -> bool:
        """Cancel what is left when the next session would cost more than what is left."""
        if self._score.campaign.budget is None:
            return False
        budget = parse_money(self._score.campaign.budget)
        spent = sum(one.cost or 0.0 for one in sessions)
        planned = [one for one in sessions if one.state is State.PLANNED]
        coming = [one for one in sessions if one.state is State.RUNNING] + planned[:1]
        if not planned or spent + sum(self._cost(one, sessions) for one in coming) <= budget.amount:
            return False
        for one in planned:
            self._clear(one)
        why = f"the budget of {budget} is spent"
        self._store.skip([one.id for one in planned], State.CANCELLED, why, now)
        self._note("budget", why)
        return True

    def _cost(self, session: Session, sessions: list[Session]) -> float:
        """Return what a session costs: by plan, or the most that one of its platform has cost."""
        known = [one.cost or 0.0 for one in sessions if one.cell == session.cell]
        part = self._score.parts.get(_platform(session))
        return max(part.amount if part else 0.0, *known)

    def _end(self, sessions: list[Session]) -> None:
        counts = {state: sum(one.state is state for one in sessions) for state in State}
        told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        self._note("end", f"the campaign has ended: {told}", last=True)

    def _note(self, kind: str, text: str, *, last: bool = False) -> None:
        """Write it into the log, show it, and tell whom the campaign names."""
        now = self._clock.now()
        self._store.tell(self._standing.id, now, kind, text)
        self._tell(kind, text)
        if kind in {"failure", "budget"} or last:
            message = {"campaign": self._standing.name, "at": now.isoformat(), "kind": kind}
            for problem in notify(self._score.campaign.notify, {**message, "text": text}):
                self._store.tell(self._standing.id, now, "note", problem)
                self._tell("note", problem)


def _reasons(missed: list[Session], now: datetime) -> dict[str, list[Session]]:
    found: dict[str, list[Session]] = {}
    for one in missed:
        why = "the window was closed" if one.closes < now else "the start was missed"
        found.setdefault(why, []).append(one)
    return found


def _platform(session: Session) -> Platform:
    return Platform(session.scenario, session.provider or None, session.instance_class or None)


def _seed(seed: int, session: Session) -> int:
    """Return the seed of a session's plan: the same again after a crash."""
    text = f"{seed} {session.opens.isoformat()} {session.slot} {session.cell}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])


def _ended(future: Future[End]) -> End:
    """Return how a session ended. One that could not even begin is planned again."""
    try:
        return future.result()
    except Interrupted as error:
        return End(State.PLANNED, why=error.message)
    except InputError as error:
        return End(State.FAILED, why=str(error))
    except OsmefError as error:
        return End(State.PLANNED, why=str(error))
    except Exception as error:
        return End(State.FAILED, why=f"a bug: {type(error).__name__}: {error}")


def _once_more(session: Session, end: End) -> End:
    if session.attempts + 1 < _MOST_ATTEMPTS:
        return end
    return End(State.FAILED, why=end.why)
