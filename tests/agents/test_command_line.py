"""The agent as people use it, without a controller."""

from __future__ import annotations

import json
import re
import select
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agents import build
from tests.agents.lab import TIMEOUT_S, closed_port


def run(binary: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [binary, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


@contextmanager
def receiving(binary: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A receiver that has said its first line, which is about the port."""
    with subprocess.Popen(
        [binary, "recv", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as receiver:
        assert receiver.stdout is not None
        ready, _, _ = select.select([receiver.stdout], [], [], TIMEOUT_S)
        assert ready
        try:
            yield receiver
        finally:
            receiver.kill()


def test_two_commands_measure_without_a_controller(binary: Path) -> None:
    port = str(closed_port())
    with receiving(binary, "--port", port, "--interval", "0.2") as receiver:
        sender = run(
            binary, "send", "localhost", "--port", port, "--connections", "3", "--duration", "0.5"
        )
        received, errors = receiver.communicate(timeout=TIMEOUT_S)
    assert (sender.returncode, receiver.returncode) == (0, 0), sender.stderr + errors
    assert "connected, 3 flows, 0.5 s" in sender.stdout
    assert "connected, 3 flows, 0.5 s" in received
    assert "retransmits" in sender.stdout
    assert "aggregate BTC" in received
    assert received.count("flow  ") == 3


def test_what_the_kernel_does_not_report_is_not_shown(
    faulty_binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT_TCP_INFO", "4")
    port = str(closed_port())
    with receiving(faulty_binary, "--port", port):
        sender = run(faulty_binary, "send", "127.0.0.1", "--port", port, "--duration", "0.2")
    assert sender.returncode == 0, sender.stderr
    assert re.search(r"flow   0 .*bit/s  \w+\n", sender.stdout)
    for word in ("retransmits", "RTT"):
        assert word not in sender.stdout


def test_json_prints_the_events_of_the_protocol(binary: Path) -> None:
    port = str(closed_port())
    with receiving(binary, "--port", port, "--json") as receiver:
        sender = run(binary, "send", "127.0.0.1", "--port", port, "--duration", "0.2", "--json")
        received, _ = receiver.communicate(timeout=TIMEOUT_S)
    for output in (sender.stdout, received):
        events = [json.loads(line)["event"] for line in output.splitlines()]
        assert events[-2:] == ["interval", "result"]


def test_both_sides_need_the_same_cookie(binary: Path, tmp_path: Path) -> None:
    cookie = tmp_path / "cookie"
    cookie.write_text("0123456789abcdef" * 2 + "\n", encoding="ascii")
    port = str(closed_port())
    usual = ["--port", port, "--duration", "0.1"]
    with receiving(binary, "--port", port, "--cookie-file", str(cookie)) as receiver:
        stranger = run(binary, "send", "127.0.0.1", *usual)
        friend = run(binary, "send", "127.0.0.1", *usual, "--cookie-file", str(cookie))
        assert receiver.wait(TIMEOUT_S) == 0
    assert stranger.returncode == 1
    assert "cookie" in stranger.stderr
    assert friend.returncode == 0


def test_send_without_a_receiver_asks_whether_one_is_running(binary: Path) -> None:
    port = str(closed_port())
    done = run(binary, "send", "127.0.0.1", "--port", port)
    assert done.returncode == 1
    assert f"is `osmef-agent recv` running on 127.0.0.1, port {port}?" in done.stderr


def test_send_names_an_unknown_host(binary: Path) -> None:
    done = run(binary, "send", "not a host")
    assert done.returncode == 1
    assert "not a host" in done.stderr


def test_the_port_is_taken(binary: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run(binary, "recv", "--bind", "127.0.0.1", "--port", port)
    assert done.returncode == 1
    assert f"port {port}" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["send"], "HOST"),
        (["send", "one", "two"], "two"),
        (["send", "one", "--connections", "1001"], "--connections"),
        (["send", "one", "--connections", "1.5"], "--connections"),
        (["send", "one", "--connections", "2", "--flows", "2"], "--flows"),
        (["send", "one", "--bytes", "1.5"], "--bytes"),
        (["send", "one", "--duration", "soon"], "--duration"),
        (["send", "one", "--duration", "nan"], "--duration"),
        (["send", "one", "--bind", "::"], "--bind"),
        (["send", "one", "--port"], "--port"),
        (["send", "one", "--cookie-file", "/nonexistent"], "/nonexistent"),
        (["send", "one", "--cookie-file", "/dev/null"], "32 hex digits"),
        (["recv", "--connections", "2"], "--connections"),
        (["recv", "--port", "0"], "--port"),
        (["recv", "--bind", ""], "address"),
        ([], "Usage"),
        (["fly"], "Usage"),
        (["serve", "now"], "Usage"),
    ],
)
def test_wrong_usage_ends_with_2_and_prints_nothing_to_standard_output(
    binary: Path, arguments: list[str], named: str
) -> None:
    done = run(binary, *arguments)
    assert done.returncode == 2
    assert named in done.stderr
    assert not done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--connections", "1001"], "--connections is 1001, but must be a number from 1 to 1000"),
        (["--flows", "1001"], "--connections is 1001, but must be a number from 1 to 1000"),
        (["--connections", "1.5"], "--connections is 1.5, but must be a whole number"),
        (["--connections", "501", "--both"], "--connections is 501, but must be at most 500"),
        (["--duration", "0"], "--duration is 0, but must be a number from 0.1 to 86400"),
        (["--mode", "fly"], "--mode is fly, but must be one of copy, zerocopy, discard"),
        (["--cpus", "0,,1"], "--cpus is 0,,1, but must be a list like 0,2,5"),
        (["--pacing", "1"], "--pacing is 1, but must be a number from 1000 to 1"),
        (["--idle", "1"], "--idle needs active_s"),
        (["--reverse", "--both"], "--both is given twice, or contradicts another option"),
    ],
)
def test_a_wrong_value_is_reported_with_the_option_and_its_range(
    binary: Path, arguments: list[str], message: str
) -> None:
    done = run(binary, "send", "one", *arguments)
    assert done.returncode == 2
    assert f"osmef-agent: {message}" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "tables"),
    [
        (["--help"], ["bulk", "recv", "send"]),
        (["pong", "--help"], ["pong", "http"]),
        (["ping", "--help"], ["ping", "http"]),
        (["siege", "--help"], ["siege", "http"]),
    ],
)
def test_the_help_has_all_options(binary: Path, arguments: list[str], tables: list[str]) -> None:
    help_page = run(binary, *arguments)
    assert help_page.returncode == 0
    source = (build.SOURCES / "command_line.c").read_text(encoding="utf-8")
    for table in tables:
        rows = source.split(f"struct argument {table}_arguments[] = {{")[1].split("};")[0]
        options = re.findall(r'\("(-[^"]+)", ', rows)
        assert options
        for option in options:
            assert f" {option}" in help_page.stdout


def test_the_version_is_that_of_the_build(binary: Path) -> None:
    assert run(binary, "--version").stdout == f"osmef-agent {build.version()}\n"
