"""Which sessions won't be: what was missed, what is known well enough, what costs too much."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from osmef.campaigns.calendar import Platform
from osmef.campaigns.cleaning import Cleaning
from osmef.campaigns.enough import known_cells, session_medians
from osmef.campaigns.logbook import Logbook
from osmef.campaigns.means import Means
from osmef.campaigns.rows import Session, Standing, State
from osmef.campaigns.score import Score
from osmef.errors import InputError

if TYPE_CHECKING:
    from osmef.campaigns.store import Store

Cell = tuple[str, str, str]


def platform_of(session: Session) -> Platform:
    """Return what a session measures, as the calendar names it."""
    return Platform(session.scenario, session.provider or None, session.instance_class or None)


def cell_of(platform: Platform) -> Cell:
    """Return what Session.cell is for sessions of a platform."""
    return (platform.scenario, platform.provider or "", platform.instance_class or "")


class Leaving:
    """Leaves sessions out, has those cleaned up after that had begun, and says why."""

    def __init__(
        self, store: Store, standing: Standing, score: Score, means: Means, log: Logbook
    ) -> None:
        self._store, self._campaign = store, standing.id
        self._score, self._log = score, log
        self.cleaning = Cleaning(store, standing, means, log)

    def strangers(self, now: datetime) -> None:
        """Leave out sessions of platforms that the campaign's file has no more."""
        planned = self._store.sessions(self._campaign, [State.PLANNED])
        gone = [one for one in planned if platform_of(one) not in self._score.parts]
        why = "its platform is no longer in the campaign's file"
        self._leave(gone, State.CANCELLED, why, now)

    def missed(self, now: datetime, why: str, late: datetime | None) -> bool:
        """Leave out what can't begin any more, or was due before ``late``; tell if any was."""
        missed = self._store.closed(self._campaign, now, late)
        closed = [one for one in missed if one.closes <= now]
        for what, those in (
            ("the window was closed", closed),
            ("the start was missed", [one for one in missed if one.closes > now]),
        ):
            reason = f"{what}: {why}"
            begun = [one for one in those if one.directory]
            self._leave(begun, State.FAILED, reason, now)
            self._leave([one for one in those if not one.directory], State.MISSED, reason, now)
            if those:
                first, more = those[0], len(those) - 1
                others = f", and {more} more until {those[-1].slot}" if more else ""
                self._log.note("missed", f"{first.slot} {first.platform}{others}: {reason}")
        return bool(missed)

    def learn(self, sessions: Iterable[Session]) -> None:
        """Keep what the stop rule wants to know of sessions that are done."""
        rule = self._score.campaign.stop
        if rule is None:
            return
        for session in sessions:
            try:
                found = session_medians(Path(session.directory or ""), rule.metric)
            except InputError as error:
                self._log.note("note", f"{session.slot} {session.platform}: not counted: {error}")
                continue
            self._store.learn(session, rule.metric, found)

    def learn_all(self) -> None:
        """Keep it of all that are done, also of those that another metric was known of."""
        rule = self._score.campaign.stop
        if rule is not None:
            self.learn(self._store.unlearned(self._campaign, rule.metric))

    def known_of(self, platform: Cell) -> list[str]:
        """Return which cells of a platform are known well enough, by their keys."""
        rule, keys = self._score.campaign.stop, self._keys(platform)
        if rule is None or not keys:
            return []
        known = known_cells(rule, self._store.medians(self._campaign, platform, rule.metric))
        return [key for key in keys if key in known]

    def known(self, platforms: Iterable[Cell], now: datetime) -> None:
        """Leave out what is left of platforms of which every cell is known well enough."""
        rule = self._score.campaign.stop
        if rule is None:
            return
        for platform in platforms:
            if len(self.known_of(platform)) < max(1, len(self._keys(platform))):
                continue
            planned = self._store.sessions(self._campaign, [State.PLANNED])
            left = [one for one in planned if one.cell == platform]
            if left:
                why = f"{rule.metric} is known within {rule.width_percent:g} %"
                self._leave(left, State.ENOUGH, why, now)
                done = self._store.sessions(self._campaign, [State.DONE])
                count = sum(one.cell == platform for one in done)
                self._log.note("note", f"{left[0].platform}: {why} after {count} sessions")

    def _keys(self, platform: Cell) -> list[str]:
        """Return the cells of a platform; none where the campaign's file has it no more."""
        scenario, provider, instance_class = platform
        part = self._score.parts.get(Platform(scenario, provider or None, instance_class or None))
        return [one.key for one in part.study.cells] if part else []

    def too_dear(self, sessions: Sequence[Session], why: str, now: datetime) -> None:
        """Leave out planned sessions that cost more than there is."""
        self._leave(sessions, State.CANCELLED, why, now)
        first, *others = dict.fromkeys(one.platform for one in sessions)
        more = f" and {len(others)} more platforms" * bool(others)
        self._log.note("budget", f"{first}{more}: {why}")

    def _leave(self, sessions: Sequence[Session], state: State, why: str, now: datetime) -> None:
        if sessions:
            self._store.skip([one.id for one in sessions], state, why, now)
            self.cleaning.take_on(sessions, now)
