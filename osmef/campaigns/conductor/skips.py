"""Skip policy: sessions that were missed, whose cells need no more, or that exceed the budget."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from osmef.analysis.quantiles import is_known
from osmef.campaigns.conductor.cleanup import Cleanup
from osmef.campaigns.conductor.context import ConductorContext
from osmef.campaigns.schedule.calendar import Platform
from osmef.campaigns.schedule.model import StopRule
from osmef.campaigns.schedule.plan import CampaignPlan
from osmef.campaigns.state.rows import CampaignRow, SessionRow, SessionState
from osmef.campaigns.watching.log import CampaignLog
from osmef.errors import InputError
from osmef.results.rundir import RunDirectory

if TYPE_CHECKING:
    from osmef.campaigns.state.store import Store

PlatformKey = tuple[str, str, str]


def platform_of(session: SessionRow) -> Platform:
    """Return the platform of a session, as the calendar names it."""
    return Platform(session.scenario, session.provider or None, session.instance_class or None)


def key_of(platform: Platform) -> PlatformKey:
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
        for what, those in (
            ("the window was closed", closed),
            ("the start was missed", [one for one in missed if one.closes > now]),
        ):
            reason = f"{what}: {why}"
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

    def known_cells_of(self, platform: PlatformKey) -> list[str]:
        """Return the keys of the cells of a platform that the stopping rule has ended."""
        rule, keys = self._plan.campaign.stop, self._keys(platform)
        if rule is None or not keys:
            return []
        known = known_cells(rule, self._store.medians(self._campaign, platform, rule.metric))
        return [key for key in keys if key in known]

    def skip_known(self, platforms: Iterable[PlatformKey], now: datetime) -> None:
        """Skip the further sessions of platforms all of whose cells the stopping rule has ended."""
        rule = self._plan.campaign.stop
        if rule is None:
            return
        for platform in platforms:
            if len(self.known_cells_of(platform)) < max(1, len(self._keys(platform))):
                continue
            planned = self._store.sessions(self._campaign, [SessionState.PLANNED])
            left = [one for one in planned if one.cell == platform]
            if left:
                why = f"{rule.metric} is known within {rule.width_percent:g} %"
                self._leave(left, SessionState.ENOUGH, why, now)
                done = self._store.sessions(self._campaign, [SessionState.DONE])
                count = sum(one.cell == platform for one in done)
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
    if not (directory / "summary.json").exists():
        return {}
    cells = RunDirectory(directory).read_summary().cells
    return {
        cell.key: cell.metrics[metric].median if metric in cell.metrics else None for cell in cells
    }


def known_cells(rule: StopRule, medians: Mapping[str, Sequence[float]]) -> set[str]:
    """Return the cells that the stopping rule ends, by the medians of their sessions.

    The interval of the median over sessions holds although it is looked at after each of them
    (``lasting_interval``): with the exact one of a single look, a campaign would stop as soon as
    chance makes it narrow, such as after some sessions that all met the rarer one of two kinds of
    hosts. It assumes that sessions are independent. A cell that has the metric in too few sessions
    is not known.
    """
    return {cell for cell, values in medians.items() if _is_narrow(rule, values)}


def _is_narrow(rule: StopRule, values: Sequence[float]) -> bool:
    known = [value for value in values if math.isfinite(value)]
    return len(known) >= rule.minimum and is_known(known, rule.width_percent / 100)
