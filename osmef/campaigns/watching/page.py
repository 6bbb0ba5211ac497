"""HTML pages of campaigns, from the database and the run directories."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined

import osmef
from osmef.campaigns.state.rows import CampaignRow, SessionRow, SessionState, is_conducted
from osmef.campaigns.watching.metrics import render as render_metrics
from osmef.campaigns.watching.status import read_live
from osmef.errors import InputError, NothingToDrawError, OsmefError
from osmef.scenario.text_file import read_nodes
from osmef.units import format_duration, format_rate

if TYPE_CHECKING:
    from osmef.campaigns.state.store import Store

_HERE = Path(__file__).parent
_LOG_LINES = 20
_COMING = 5
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
_FILES = {
    "page.css": _HERE.parents[1] / "report" / "html" / "templates" / "page.css",
    "campaign.css": _HERE / "templates" / "campaign.css",
    "campaign.js": _HERE / "templates" / "campaign.js",
}
# Sessions in one figure; the boxes of more are too narrow.
_MOST_SESSIONS = 60


@dataclass(frozen=True)
class CalendarSlot:
    """One slot in the calendar: its time, its window, and its sessions by state."""

    time: str
    window: str
    counts: Sequence[tuple[SessionState, int]]


@dataclass(frozen=True)
class CalendarWeek:
    """A week from Monday, with the slots of each day."""

    name: str
    days: Sequence[Sequence[CalendarSlot]]


@dataclass(frozen=True)
class RunningEntry:
    """A running session, and its current trials."""

    session: SessionRow
    since: str
    step: str
    trials: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Known:
    """Cells of a platform that the stopping rule has ended, since a slot."""

    platform: str
    cells: Sequence[str]
    since: str


class CampaignPages:
    """Pages of the campaigns in a database. Raises InputError for an unknown page."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pages = Environment(
            loader=PackageLoader("osmef.campaigns.watching", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._gallery = FigureCache()

    def home(self) -> str:
        """Return the page that lists the campaigns."""
        now = datetime.now(UTC)
        rows = [
            (one, _counts(self._store.sessions(one.id)), is_conducted(one, now))
            for one in self._store.campaigns()
        ]
        return self._render("home", title="Campaigns", rows=rows)

    def campaign(self, name: str) -> str:
        """Return the page of a campaign."""
        row = self._store.campaign(name)
        sessions = self._store.sessions(row.id)
        now = datetime.now(UTC)
        done = [one for one in sessions if one.state is SessionState.DONE and one.directory]
        return self._render(
            "campaign",
            title=row.name,
            row=row,
            conducted=is_conducted(row, now),
            counts=_counts(sessions),
            zone=_zone(row).key,
            weeks=calendar(sessions, _zone(row)),
            day_names=_DAYS,
            running=[_running(one, now) for one in sessions if one.state is SessionState.RUNNING],
            known=known_since(sessions),
            coming=[one for one in sessions if one.state is SessionState.PLANNED][:_COMING],
            pictures=self._gallery.pictures(row.name, done),
            log=list(reversed(self._store.log(row.id, _LOG_LINES))),
        )

    def figure(self, name: str, figure: str) -> bytes:
        """Return a figure of a campaign as SVG."""
        return self._gallery.picture(name, figure).svg

    def metrics(self) -> str:
        """Return the Prometheus metrics of all campaigns."""
        found = [(one, self._store.sessions(one.id)) for one in self._store.campaigns()]
        return render_metrics(found, datetime.now(UTC))

    def static(self, name: str) -> tuple[str, bytes]:
        """Return the type and the content of a static file."""
        path = _FILES.get(name)
        if path is None:
            raise InputError("There is no such page.")
        return _KINDS[path.suffix], path.read_bytes()

    def _render(self, page: str, **values: Any) -> str:  # whatever the template shows
        template = self._pages.get_template(f"{page}.html.jinja")
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        return template.render(version=osmef.__version__, now=now, **values)


def calendar(sessions: Sequence[SessionRow], zone: ZoneInfo) -> list[CalendarWeek]:
    """Return all weeks from the first to the last slot, by the days of the campaign's time zone."""
    slots: dict[tuple[datetime, str], list[SessionState]] = defaultdict(list)
    for one in sessions:
        slots[one.opens, one.window].append(one.state)
    days: dict[date, list[CalendarSlot]] = defaultdict(list)
    for (opens, window), states in sorted(slots.items()):
        local = opens.astimezone(zone)
        counts = Counter(states)
        told = [(state, counts[state]) for state in SessionState if counts[state]]
        days[local.date()].append(CalendarSlot(f"{local:%H:%M}", window, told))
    if not days:
        return []
    monday = min(days) - timedelta(days=min(days).weekday())
    weeks = []
    while monday <= max(days):
        week = [days.get(monday + timedelta(days=number), []) for number in range(7)]
        weeks.append(CalendarWeek(f"{monday:%Y-%m-%d}", week))
        monday += timedelta(weeks=1)
    return weeks


def known_since(sessions: Sequence[SessionRow]) -> list[Known]:
    """Return the cells that the stopping rule has ended, by the first session that skipped them."""
    since: dict[tuple[str, str], str] = {}
    for one in sorted(sessions, key=lambda one: one.due):
        for cell in one.cells_left_out:
            since.setdefault((one.platform, cell), one.slot)
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (platform, cell), slot in since.items():
        groups[platform, slot].append(cell)
    return [Known(platform, cells, slot) for (platform, slot), cells in groups.items()]


def _zone(row: CampaignRow) -> ZoneInfo:
    """Return the time zone of a campaign's file, which was validated before."""
    tree, _ = read_nodes(row.text, Path(row.file))
    found = tree.plain() if tree is not None else None
    return ZoneInfo(str(found.get("time_zone", "UTC")) if isinstance(found, dict) else "UTC")


def _counts(sessions: Sequence[SessionRow]) -> list[tuple[SessionState, int]]:
    counts = Counter(one.state for one in sessions)
    return [(state, counts[state]) for state in SessionState if counts[state]]


def _running(session: SessionRow, now: datetime) -> RunningEntry:
    since = (
        format_duration((now - session.started_at).total_seconds()) if session.started_at else ""
    )
    live = read_live(Path(session.directory)) if session.directory else None
    if live is None:
        return RunningEntry(session, since, "nothing is known of it yet", [])
    step = str(live.get("step", ""))
    if live.get("trials"):
        step += f": {live.get('ended', 0)} of {live['trials']} trials have ended"
    trials = [
        (str(one["cell"]), str(one["repetition"]), _rate(one["rate_bps"]))
        for one in live.get("running", [])
    ]
    return RunningEntry(session, since, step, trials)


def _rate(bits_per_second: float | None) -> str:
    return "-" if bits_per_second is None else format_rate(bits_per_second)


@dataclass(frozen=True)
class Picture:
    """A figure: its file name, which changes with its content, its title, and its SVG."""

    file: str
    title: str
    svg: bytes = field(repr=False)


class FigureCache:
    """Cache of the figures of campaigns, drawn in a background thread. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pictures: dict[str, tuple[str, list[Picture]]] = {}
        self._drawing: threading.Thread | None = None

    def pictures(self, name: str, done: Sequence[SessionRow]) -> list[Picture]:
        """Return the drawn figures of a campaign, and start drawing changed ones."""
        paths = [Path(one.directory) for one in done if one.directory][-_MOST_SESSIONS:]
        key = hashlib.sha256("\n".join(map(str, paths)).encode()).hexdigest()[:12]
        with self._lock:
            drawn, found = self._pictures.get(name, ("", []))
            idle = self._drawing is None or not self._drawing.is_alive()
            if paths and drawn != key and idle:
                self._drawing = threading.Thread(
                    target=self._draw, args=(name, key, paths), name="figures", daemon=True
                )
                self._drawing.start()
            return found

    def picture(self, name: str, file: str) -> Picture:
        """Return a figure by its file name. Raises InputError."""
        with self._lock:
            _, found = self._pictures.get(name, ("", []))
        for one in found:
            if one.file == file:
                return one
        raise InputError("There is no such figure.")

    def _draw(self, name: str, key: str, paths: Sequence[Path]) -> None:
        found: list[Picture] = []
        try:
            found += _pictures(key, paths)
        except OsmefError:  # a damaged run has no figure
            pass
        finally:  # whatever went wrong would do so again
            with self._lock:
                self._pictures[name] = (key, found)


def _pictures(key: str, paths: Sequence[Path]) -> Iterator[Picture]:
    # matplotlib and pandas take a while to load
    from osmef.report.data import Data  # noqa: PLC0415
    from osmef.report.figures import possible  # noqa: PLC0415
    from osmef.report.html.figures import inline_svg  # noqa: PLC0415
    from osmef.report.spread import sessions  # noqa: PLC0415

    with contextlib.suppress(NothingToDrawError):
        title = "Sessions, one after the other"
        trials = Data(*paths).trials
        # A platform has a run in each session: they are one series.
        trials = trials.assign(run=trials["platform"], scenario=trials["platform"])
        svg = inline_svg(sessions(trials), "sessions-", title)
        yield Picture(f"{key}-sessions.svg", title, svg.encode())
    for one in possible(Data(paths[-1]), own=True):
        title = f"The newest session: {one.about}"
        svg = inline_svg(one.figure, f"{one.name}-", title)
        yield Picture(f"{key}-{one.name}.svg", title, svg.encode())
