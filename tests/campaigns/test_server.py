"""The page about campaigns, asked by programs and looked at in a real browser."""

from __future__ import annotations

import http.client
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urljoin, urlsplit
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, expect

from osmef.campaigns.state.rows import CampaignPhase, SessionState
from osmef.campaigns.state.store import Store
from osmef.campaigns.watching.web import CampaignPages, StatusServer, calendar, read_token
from osmef.errors import InputError
from tests.campaigns.shown import make_shown, show
from tests.chromium import chromium

TOKEN = "not-a-secret-in-a-test"  # noqa: S105
PATIENCE_MS = 60_000


@contextmanager
def serving(store: Store, clock: Callable[[], float] = time.monotonic) -> Iterator[StatusServer]:
    with StatusServer(0, CampaignPages(store), TOKEN, clock) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shown")


@pytest.fixture(scope="module")
def store(place: Path) -> Store:
    return make_shown(place)


@pytest.fixture(scope="module")
def server(store: Store) -> Iterator[StatusServer]:
    with serving(store) as server:
        yield server


def ask(
    server: StatusServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, http.client.HTTPMessage, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, headers=given)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, body


def say(server: StatusServer, *lines: str) -> tuple[int, http.client.HTTPMessage]:
    """Send a request as it is, and return the status and the headers of the answer."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as connection:
        connection.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1"))
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.status, answer.headers


def bearer(token: str = TOKEN) -> str:
    return f"Bearer {token}"


@pytest.mark.parametrize("path", ["/", "/metrics", "/campaign/shown", "/static/page.css", "/x"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": bearer("another-token-of-length")},
        {"Authorization": f"Basic {TOKEN}"},
        {"Cookie": "osmef-1=not-a-secret-in-a-test"},
        {"Cookie": "a=b; =; osmef"},
        {"Authorization": "Bearer tök"},
    ],
)
def test_requests_without_the_token_are_forbidden(
    server: StatusServer, path: str, headers: dict[str, str]
) -> None:
    encoded = {name: value.encode().decode("latin-1") for name, value in headers.items()}
    status, _, body = ask(server, path, **encoded)
    assert (status, "shown" in body) == (403, False)
    assert ask(server, f"{path}?token=wrong", **encoded)[0] == 403


def test_the_token_becomes_a_cookie(server: StatusServer) -> None:
    status, headers, _ = ask(server, f"/campaign/shown?token={TOKEN}")
    assert (status, headers["Location"]) == (303, "/campaign/shown")
    cookie, *attributes = headers["Set-Cookie"].split("; ")
    assert attributes == ["Path=/", "HttpOnly", "SameSite=Strict"]
    status, headers, body = ask(server, "/campaign/shown", Cookie=cookie)
    assert (status, "weekday-peak" in body, TOKEN in body) == (200, True, False)
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8700", "127.0.0.1.evil.example", ""]
)
def test_another_name_of_this_machine_is_refused(server: StatusServer, host: str) -> None:
    status, _, body = ask(server, "/", Host=host, Authorization=bearer())
    assert (status, "shown" in body) == (421, False)
    assert ask(server, "/", Host="localhost:9999", Authorization=bearer())[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/\\evil.example",
        "//evil.example",
        "///evil.example",
        "/.//evil.example",
        "/x//evil.example",
        "/%5Cevil.example",
        "/%2Fevil.example",
        "/\t/evil.example",
        "/\x0b/evil.example",
        "/..\\evil.example",
        "/@evil.example",
        "/;//evil.example",
    ],
)
def test_no_path_sends_a_browser_to_another_host(server: StatusServer, path: str) -> None:
    status, headers = say(server, f"GET {path}?token={TOKEN} HTTP/1.1", "Host: localhost")
    assert status in {303, 400}
    here = server.address.rstrip("/")
    for browser in (headers["Location"] or "/", (headers["Location"] or "/").replace("\\", "/")):
        assert urljoin(f"{here}/x", browser).startswith(f"{here}/")


@pytest.mark.parametrize(
    ("line", "headers", "status"),
    [
        ("GET http://evil.example/?token={} HTTP/1.1", ["Host: localhost"], 400),
        ("GET evil.example:80 HTTP/1.1", ["Host: localhost"], 400),
        ("GET http://[/ HTTP/1.1", ["Host: localhost"], 400),
        ("GET * HTTP/1.1", ["Host: localhost"], 400),
        ("GET / HTTP/1.1", ["Host: ["], 421),
        ("GET / HTTP/1.1", ["Host: localhost", "Host: evil.example"], 421),
        ("GET / HTTP/1.1", ["Host: evil.example@localhost:x"], 421),
        ("GET / HTTP/1.1", ["Host: localhost#.evil.example"], 421),
        ("GET / HTTP/1.1", [], 421),
        ("GET /" + "x" * 70_000 + " HTTP/1.1", ["Host: localhost"], 414),
        ("GET / HTTP/1.1", ["Host: localhost", f"X: {'x' * 70_000}"], 431),
        ("GET / HTTP/1.1", ["Host: localhost", *("X: x" for _ in range(200))], 431),
    ],
)
def test_a_malformed_request_gets_an_error_status(
    server: StatusServer, line: str, headers: list[str], status: int
) -> None:
    assert say(server, line.replace("{}", TOKEN), *headers)[0] == status


def test_a_client_that_takes_too_long_is_hung_up_on(store: Store) -> None:
    now = 0.0
    with serving(store, lambda: now) as server:
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as slow:
            slow.sendall(b"GET / HT")
            while not server._since:
                pass
            now = 1000.0
            assert slow.recv(1) == b""
        assert ask(server, "/metrics", Authorization=bearer())[0] == 200


def test_slow_clients_leave_room_for_others(store: Store) -> None:
    with serving(store) as server:
        slow = []
        for _ in range(70):
            slow.append(socket.create_connection(("127.0.0.1", server.server_port), timeout=60))
            slow[-1].sendall(b"GET / HT")
        assert ask(server, "/metrics", Authorization=bearer())[0] == 200
        assert [one.recv(1) for one in slow[:7]] == [b""] * 7
        assert not any(select.select(slow[7:], [], [], 0))
        for one in slow:
            one.close()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_can_only_be_read(server: StatusServer, method: str) -> None:
    assert ask(server, "/campaign/shown", method, Authorization=bearer())[0] == 501


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/campaign/nobody",
        "/campaign/shown/figures/none.svg",
        "/campaign/shown/figures/..%2f..%2fstate.sqlite",
        "/static/..%2fserve.py",
        "/static/serve.py",
    ],
)
def test_an_unknown_path_is_a_404(server: StatusServer, path: str) -> None:
    assert ask(server, path, Authorization=bearer())[0] == 404


def test_metrics_and_heads(server: StatusServer) -> None:
    status, headers, body = ask(server, "/metrics", Authorization=bearer())
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert 'osmef_campaign_sessions{campaign="shown",state="done"} 3.0\n' in body
    status, headers, body = ask(server, "/campaign/shown", "HEAD", Authorization=bearer())
    assert (status, int(headers["Content-Length"]) > 0, body) == (200, True, "")


def test_the_token_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "token"
    token = read_token(path)
    assert len(token) >= 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_token(path) == token
    path.chmod(0o644)
    with pytest.raises(InputError, match="others may read"):
        read_token(path)
    path.chmod(0o600)
    path.write_text("short\n")
    with pytest.raises(InputError, match="this is no token"):
        read_token(path)


def test_a_port_that_is_taken(server: StatusServer) -> None:
    with pytest.raises(InputError, match="can't listen"):
        StatusServer(server.server_port, server.view, TOKEN)


def test_the_calendar_has_every_slot_once(store: Store) -> None:
    sessions = store.sessions(store.campaign("shown").id)
    weeks = calendar(sessions, ZoneInfo("Europe/Berlin"))
    assert [week.name for week in weeks] == ["2026-03-16", "2026-03-23"]
    monday = weeks[0].days[0]
    assert [(slot.time, slot.window) for slot in monday] == [
        ("09:00", "weekday-peak"),
        ("21:00", "weekday-offpeak"),
    ]
    assert monday[0].counts == [(SessionState.DONE, 2)]
    assert [slot.time for slot in weeks[1].days[6]] == ["09:00", "21:00"]  # the clock was set
    counted = sum(
        count for week in weeks for day in week.days for s in day for _, count in s.counts
    )
    assert counted == len(sessions)


@pytest.fixture
def page(server: StatusServer) -> Iterator[Page]:
    """A page that has the token; fails if it complains or asks anybody else."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1300, "height": 1500})
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        asked: list[str] = []
        said: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"{server.address}?token={TOKEN}")
        yield page
        ours = (server.address, "data:")
        assert [url for url in asked if not url.startswith(ours)] == []
        assert said == []


@pytest.mark.real("browser")
def test_the_page_in_the_dark_and_on_a_phone(page: Page) -> None:
    """Pictures are no white cards, and no row begins with a colon behind nothing."""
    page.get_by_role("link", name="shown").click()
    page.emulate_media(color_scheme="dark")
    expect(page.locator(".drawing img").first).to_have_css("filter", re.compile("invert"))
    page.set_viewport_size({"width": 390, "height": 900})
    before = "one => getComputedStyle(one, '::before').content"
    heads = page.locator("tbody th:not([data-head])").all()
    assert heads
    assert {one.evaluate(before) for one in heads} <= {"none", "normal"}


@pytest.mark.timeout(600)
@pytest.mark.real("browser")
def test_the_page_follows_a_campaign(page: Page, place: Path, store: Store) -> None:
    assert "token" not in page.url
    page.get_by_role("link", name="shown").click()
    expect(page.locator(".standing")).to_contain_text("3 done")
    expect(page.locator(".standing")).to_contain_text("1 running")
    running = page.get_by_role("table", name="Running sessions and their trials")
    expect(running).to_contain_text("5 of 12 trials have ended")
    expect(running).to_contain_text("9.4 Gbit/s")
    monday = page.get_by_role("table", name="Slots by day").locator("tbody tr").first
    expect(monday.locator("td").first).to_contain_text("09:00 weekday-peak2 done")
    known = page.get_by_role("table", name="Known well enough")
    expect(known.locator("tbody tr")).to_have_count(1)
    expect(known).to_contain_text("connections=1; connections=10")
    log = page.get_by_role("table", name="The newest lines")
    expect(log).to_contain_text("it said <script>alert(1)</script>")
    expect(page.get_by_role("img", name="Sessions, one after the other")).to_be_visible()
    drawn = page.get_by_role("figure").get_by_role("img")
    assert drawn.count() > 1
    for one in drawn.all():
        expect(one).to_have_js_property("complete", value=True)
        assert one.evaluate("img => img.naturalWidth") > 0
    if target := os.environ.get("OSMEF_SCREENSHOT"):
        page.screenshot(path=target, full_page=True)
    row = store.campaign("shown")
    show(place / "out" / "pair-4", 5e6)
    store.set_phase(row.id, CampaignPhase.PAUSED, row.holder)
    store.append_log(row.id, datetime.now(UTC), "note", "somebody paused it")
    expect(running).to_contain_text("5 Mbit/s")
    expect(page.locator(".standing")).to_contain_text("paused")
    expect(log).to_contain_text("somebody paused it")


def test_the_command_serves_until_ctrl_c(place: Path, store: Store) -> None:
    command = [sys.executable, "-m", "osmef", "campaign", "serve", "--port", "0"]
    with subprocess.Popen(
        [*command, "--token-file", "token", "--state", "sqlite:///state.sqlite"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = urlsplit(process.stdout.readline().strip())
        assert url.query == f"token={read_token(place / 'token')}"
        assert "Ctrl-C" in process.stderr.readline()
        connection = http.client.HTTPConnection(url.netloc, timeout=60)
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {url.query[6:]}"})
        assert b"osmef_campaign_phase" in connection.getresponse().read()
        connection.close()
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == ""
    assert process.returncode == 0
