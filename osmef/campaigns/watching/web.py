"""Web pages of campaigns, from the database and the run directories, and their read-only server.

It answers at 127.0.0.1 alone, and only those who call it by a name of this machine, so that no web
page in the user's browser can read it under a name of its own (DNS rebinding). The token comes
once in the address, then in a cookie that other sites can't send; programs send it as a bearer
token (RFC 6750).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined

import osmef
from osmef.campaigns.state.rows import CampaignRow, SessionRow, SessionState, is_conducted
from osmef.campaigns.watching.monitoring import read_live, render_metrics
from osmef.errors import InputError, NothingToDrawError, OsmefError
from osmef.files import exists, make_private_directory, read_text_file
from osmef.results.files import storage, write_atomically
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
    activity: str
    trials: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class EndedCells:
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
        now = self._store.time()
        rows = [
            (one, _counts(self._store.sessions(one.id)), is_conducted(one, now))
            for one in self._store.campaigns()
        ]
        return self._render("home", title="Campaigns", rows=rows)

    def campaign(self, name: str) -> str:
        """Return the page of a campaign."""
        row = self._store.campaign(name)
        sessions = self._store.sessions(row.id)
        now = self._store.time()
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
            known=ended_cells(sessions),
            coming=_coming(sessions, now),
            pictures=self._gallery.pictures(row.name, done),
            log=list(reversed(self._store.log(row.id, _LOG_LINES))),
        )

    def figure(self, name: str, figure: str) -> bytes:
        """Return a figure of a campaign as SVG."""
        return self._gallery.picture(name, figure).svg

    def metrics(self) -> str:
        """Return the Prometheus metrics of all campaigns."""
        found = [(one, self._store.sessions(one.id)) for one in self._store.campaigns()]
        return render_metrics(found, self._store.time())

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
        reported = [(state, counts[state]) for state in SessionState if counts[state]]
        days[local.date()].append(CalendarSlot(f"{local:%H:%M}", window, reported))
    if not days:
        return []
    monday = min(days) - timedelta(days=min(days).weekday())
    weeks = []
    while monday <= max(days):
        week = [days.get(monday + timedelta(days=number), []) for number in range(7)]
        weeks.append(CalendarWeek(f"{monday:%Y-%m-%d}", week))
        monday += timedelta(weeks=1)
    return weeks


def ended_cells(sessions: Sequence[SessionRow]) -> list[EndedCells]:
    """Return the cells that the stopping rule has ended, by the first session that skipped them."""
    since: dict[tuple[str, str], str] = {}
    for one in sorted(sessions, key=lambda one: one.due):
        for cell in one.cells_left_out:
            since.setdefault((one.platform, cell), one.slot)
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (platform, cell), slot in since.items():
        groups[platform, slot].append(cell)
    return [EndedCells(platform, cells, slot) for (platform, slot), cells in groups.items()]


def _zone(row: CampaignRow) -> ZoneInfo:
    """Return the time zone of a campaign's file, which was validated before."""
    tree, _ = read_nodes(row.text, Path(row.file))
    found = tree.plain() if tree is not None else None
    return ZoneInfo(str(found.get("time_zone", "UTC")) if isinstance(found, dict) else "UTC")


def _counts(sessions: Sequence[SessionRow]) -> list[tuple[SessionState, int]]:
    counts = Counter(one.state for one in sessions)
    return [(state, counts[state]) for state in SessionState if counts[state]]


def _coming(sessions: Sequence[SessionRow], now: datetime) -> list[SessionRow]:
    """Return the next sessions, without those that can no longer begin in their window."""
    planned = [one for one in sessions if one.state is SessionState.PLANNED and one.closes > now]
    return [one for one in planned if not one.is_retried_late][:_COMING]


def _running(session: SessionRow, now: datetime) -> RunningEntry:
    since = ""
    if session.started_at is not None:  # later than now where the clock was set back
        since = format_duration(max(0.0, (now - session.started_at).total_seconds()))
    live = read_live(Path(session.directory)) if session.directory else None
    if live is None:
        return RunningEntry(session, since, "nothing is known of it yet", [])
    trials = [(one.cell, str(one.repetition), _rate(one.rate_bps)) for one in live.running]
    counts = f": {live.ended} of {live.trials} trials have ended" if live.trials else ""
    return RunningEntry(session, since, f"{live.activity}{counts}", trials)


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


_OURS = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
# What a browser is sent on to: a path that no browser takes for another host.
_PLAIN = re.compile(r"/|(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+")
_MOST_TOKEN = 4096
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,}")
# So long a client may be silent, and so long it may take for all it asks and reads.
_TIMEOUT_S = 30.0
_WHOLE_S = 120.0
_MOST_CLIENTS = 64
_POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:;"
_POLICY += " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# A figure has its styles in itself, and runs nothing.
_FIGURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"


@dataclass(frozen=True)
class Answer:
    """An HTTP response."""

    status: HTTPStatus = HTTPStatus.OK
    kind: str = "text/html; charset=utf-8"
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def read_token(path: Path) -> str:
    """Return the token in a private file, which is created if absent.

    Raises InputError, StorageError.
    """
    if not exists(path):
        with storage("make a directory", path.parent):
            make_private_directory(path.parent)
        text = secrets.token_urlsafe(24)
        write_atomically(path, f"{text}\n".encode(), 0o600)
    with storage("read", path):
        token = read_text_file(path, _MOST_TOKEN, errors="replace").strip()
        about = path.stat()
    if about.st_mode & 0o077 or about.st_uid != os.geteuid():
        cure = f"chmod 600 {path}; or remove it if it is not yours: a new one is made"
        raise InputError("others may read the token", where=str(path), cure=cure)
    if not _TOKEN.fullmatch(token):
        cure = "remove the file: a new one is made"
        message = "this is no token: 16 or more letters, digits, - and _"
        raise InputError(message, where=str(path), cure=cure)
    return token


class StatusServer(ThreadingHTTPServer):
    """Serves a view at a port of 127.0.0.1; 0 takes a free one. Raises InputError."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        port: int,
        view: CampaignPages,
        token: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.view, self.token, self._clock = view, token, clock
        self._since: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as error:
            cure = "name another one with --port; 0 takes one that is free"
            message = f"can't listen at port {port}: {error}"
            raise InputError(message, where="--port", cure=cure) from error

    @property
    def address(self) -> str:
        """The URL, without the token."""
        return f"http://127.0.0.1:{self.server_port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; over the limit of connections, close the slowest one."""
        with self._lock:
            if len(self._since) >= _MOST_CLIENTS:
                slowest = min(self._since, key=self._since.__getitem__)
                del self._since[slowest]
                _hang_up(slowest)
            self._since[request] = self._clock()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._since.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close connections that exceed the time limit."""
        with self._lock:
            for request, since in self._since.items():
                if self._clock() - since > _WHOLE_S:
                    _hang_up(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a connection that the browser has closed."""


def _hang_up(connection: socket.socket) -> None:
    """Shut a connection down, so that its thread ends."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: StatusServer
    timeout = _TIMEOUT_S
    server_version, sys_version = "osmef", ""

    def do_GET(self) -> None:
        self._send(self._answer())

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Log nothing: a request may hold the token."""

    def _answer(self) -> Answer:
        path, _, query = self.path.partition("?")
        return self._refusal() or self._login(path, query) or self._known(path)

    def _refusal(self) -> Answer | None:
        """Return the refusal of a wrong Host header (DNS rebinding); None for a right one."""
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not _OURS.fullmatch(hosts[0].strip()):
            return _text_answer(
                HTTPStatus.MISDIRECTED_REQUEST, "This is not the name of this machine."
            )
        if not self.path.startswith("/"):
            return _text_answer(HTTPStatus.BAD_REQUEST, "Ask for a path of this machine.")
        return None

    def _login(self, path: str, query: str) -> Answer | None:
        """Return a redirect that turns the token into a cookie; None without a valid token."""
        given = parse_qs(query).get("token", [""])[0]
        if given and self._is_token(given):
            cookie = f"{self._cookie}={given}; Path=/; HttpOnly; SameSite=Strict"
            there = path if _PLAIN.fullmatch(path) else "/"
            headers = {"Location": there, "Set-Cookie": cookie}
            return Answer(HTTPStatus.SEE_OTHER, headers=headers)
        return None

    def _known(self, path: str) -> Answer:
        """Return a page to an authenticated browser."""
        if not any(self._is_token(one) for one in (self._from_cookie(), self._bearer())):
            text = "Open the address that `osmef campaign serve` printed, with its token."
            return _text_answer(HTTPStatus.FORBIDDEN, text)
        try:
            return self._page(path)
        except InputError as error:
            return _text_answer(HTTPStatus.NOT_FOUND, error.message)
        except OsmefError as error:
            return _text_answer(HTTPStatus.SERVICE_UNAVAILABLE, str(error))

    def _page(self, path: str) -> Answer:
        view = self.server.view
        parts = [part for part in path.split("/") if part]
        match parts:
            case []:
                return Answer(body=view.home().encode())
            case ["metrics"]:
                kind = "text/plain; version=0.0.4; charset=utf-8"
                return Answer(kind=kind, body=view.metrics().encode())
            case ["static", name]:
                kind, body = view.static(name)
                return Answer(kind=kind, body=body)
            case ["campaign", name]:
                return Answer(body=view.campaign(name).encode())
            case ["campaign", name, "figures", figure]:
                headers = {"Content-Security-Policy": _FIGURE_POLICY}
                return Answer(kind="image/svg+xml", body=view.figure(name, figure), headers=headers)
        return _text_answer(HTTPStatus.NOT_FOUND, "There is no such page.")

    @property
    def _cookie(self) -> str:
        return f"osmef-{self.server.server_port}"

    def _from_cookie(self) -> str:
        try:
            cookies = SimpleCookie(self.headers.get("Cookie", ""))
        except CookieError:
            return ""
        return cookies[self._cookie].value if self._cookie in cookies else ""

    def _bearer(self) -> str:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(), self.server.token.encode())

    def _send(self, answer: Answer) -> None:
        headers = {
            "Content-Type": answer.kind,
            "Content-Length": str(len(answer.body)),
            "Content-Security-Policy": _POLICY,
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            **answer.headers,
        }
        self.send_response(answer.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)


def _text_answer(status: HTTPStatus, text: str) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", f"{text}\n".encode())
