"""An endpoint whose programs, shell or sshd print without end."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paramiko.common import AUTH_SUCCESSFUL, OPEN_SUCCEEDED
from paramiko.sftp import BaseSFTP

from osmef.agent.client import deploy
from osmef.errors import ReachError
from osmef.remote.connection import FileClient, pkey_of
from osmef.remote.login import Login
from osmef.remote.session import SshSession
from tests.flood import bounded_memory
from tests.sshd import Sshd
from tests.waiting import until


@contextmanager
def noisy(tmp_path: Path, script: str) -> Iterator[SshSession]:
    """Let each program at an endpoint run after what a start file of its shell does."""
    (tmp_path / "start").write_text(script)
    command = f'. {tmp_path}/start; eval "$SSH_ORIGINAL_COMMAND"'
    with connected(tmp_path, f"ForceCommand {command}") as session:
        yield session


@contextmanager
def connected(tmp_path: Path, options: str) -> Iterator[SshSession]:
    # The home is another one, so that the start files of who runs the tests do nothing.
    server = Sshd(tmp_path, options=f"SetEnv HOME={tmp_path}\n{options}")
    session = SshSession.open(server.login())
    try:
        with bounded_memory(session.close):
            yield session
    finally:
        session.close()
        server.close()


@pytest.mark.parametrize("script", ["yes", "yes >&2", "yes & yes >&2", "cat /dev/zero"])
def test_a_start_file_that_prints_without_end_is_an_error_of_its_endpoint(
    tmp_path: Path, script: str
) -> None:
    with noisy(tmp_path, script) as session:
        began = time.monotonic()
        with pytest.raises(ReachError, match=r"printed \w+ of more than 8 MB") as caught:
            session.run(["uname", "-m"])
        assert time.monotonic() - began < 10
    assert caught.value.where == "vm-1"
    assert "~/.bashrc" in str(caught.value.cure)


def test_a_bashrc_that_prints_without_end_is_an_error_of_its_endpoint(tmp_path: Path) -> None:
    if Path(pwd.getpwuid(os.getuid()).pw_shell).name != "bash":
        pytest.skip("only bash reads a start file for a program that is run over SSH")
    (tmp_path / ".bashrc").write_text("yes")
    with (
        connected(tmp_path, "PrintLastLog no") as session,
        pytest.raises(ReachError, match="uname did not end"),
    ):
        deploy(session, ".osmef-flood")


@pytest.mark.parametrize("accepted", [True, False])
def test_no_start_file_is_read_where_sshd_lets_us_say_so(tmp_path: Path, accepted: bool) -> None:
    if Path(pwd.getpwuid(os.getuid()).pw_shell).name != "bash":
        pytest.skip("only bash reads a start file for a program that is run over SSH")
    (tmp_path / ".bashrc").write_text("echo read")
    options = "AcceptEnv SHLVL" if accepted else "PrintLastLog no"
    with connected(tmp_path, options) as session:
        said = session.run(["echo", "hello"]).stdout
    assert said == (b"hello\n" if accepted else b"read\nhello\n")


@pytest.mark.parametrize("script", ["yes hello", "echo hello", "head -c 100000000 /dev/urandom"])
def test_a_file_server_that_something_else_prints_into_is_an_error(
    tmp_path: Path, script: str
) -> None:
    with (
        connected(tmp_path, f"Subsystem sftp {script}") as session,
        pytest.raises(ReachError, match="writing x") as caught,
    ):
        session.put(b"x", "x", 0o600)
    assert "~/.bashrc" in str(caught.value.cure)


def test_a_file_server_that_ends_before_it_is_greeted_is_the_same_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    greet = vars(BaseSFTP)["_send_version"]

    def greet_late(client: Any) -> object:
        until(lambda: client.sock.closed)
        return greet(client)

    monkeypatch.setattr(FileClient, "_send_version", greet_late)
    with (
        connected(tmp_path, "Subsystem sftp echo hello") as session,
        pytest.raises(ReachError, match="writing x") as caught,
    ):
        session.put(b"x", "x", 0o600)
    assert "~/.bashrc" in str(caught.value.cure)


def test_a_connection_that_has_ended_is_named_as_such(tmp_path: Path) -> None:
    with connected(tmp_path, "Subsystem sftp internal-sftp") as session:
        session._transport.close()
        with pytest.raises(ReachError, match="writing x: SSH session not active") as caught:
            session.put(b"x", "x", 0o600)
    assert "sshd's log" in str(caught.value.cure)


@contextmanager
def speaking(sshd: Sshd, *parts: bytes, again: bytes = b"") -> Iterator[Login]:
    """A peer that sends these bytes, and then others until it is hung up on."""
    here, there = socket.socketpair()

    def speak() -> None:
        with there:
            try:
                there.sendall(b"".join(parts))
                while again:
                    there.sendall(again)
                there.shutdown(socket.SHUT_WR)
                while there.recv(65536):
                    pass
            except OSError:
                return

    speaker = threading.Thread(target=speak)
    speaker.start()
    try:
        yield replace(sshd.login(), connect=lambda: here)
    finally:
        here.close()
        speaker.join()


@pytest.mark.parametrize(
    ("parts", "again"),
    [
        ([], b"x" * 65536),
        ([], b"welcome\r\n" * 1000),
        ([b"SSH-2.0-"], b"x" * 65536),
        ([b"SSH-2.0-x\r\n", struct.pack(">I", 0xFFFFFFF0)], b"x" * 65536),
    ],
    ids=["line", "lines", "version", "packet"],
)
def test_a_server_that_greets_without_end_is_given_up_soon(
    sshd: Sshd, parts: list[bytes], again: bytes
) -> None:
    with speaking(sshd, *parts, again=again) as login, bounded_memory():
        began = time.monotonic()
        with pytest.raises(ReachError) as caught:
            SshSession.open(login)
        assert time.monotonic() - began < 5
    assert len(str(caught.value)) < 1000


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_no_handshake_makes_the_controller_fail(sshd: Sshd, data: bytes) -> None:
    packet = struct.pack(">IB", len(data) + 5, 4) + data + bytes(4)
    with speaking(sshd, b"SSH-2.0-x\r\n", packet) as login, pytest.raises(ReachError):
        SshSession.open(login)


class _Anyone(paramiko.ServerInterface):
    def check_auth_publickey(self, *_who: object) -> int:
        return AUTH_SUCCESSFUL

    def check_channel_request(self, *_what: object) -> int:
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, *_what: object) -> bool:
        channel.out_window_size = 1 << 40  # as if it had been allowed so much
        return True


def test_an_sshd_that_sends_more_than_it_was_asked_for_is_cut_off(sshd: Sshd) -> None:
    here, there = socket.socketpair()
    server = paramiko.Transport(there)
    server.add_server_key(pkey_of(sshd.host))
    server.start_server(server=_Anyone(), event=threading.Event())
    session = SshSession.open(replace(sshd.login(), connect=lambda: here))
    process = session.start(["true"])
    channel = server.accept(5)
    assert channel is not None
    with bounded_memory():
        with contextlib.suppress(OSError, EOFError):
            for _ in range(100):
                channel.sendall(bytes(4_000_000))
        assert not session.is_open
        assert "that was not asked for" in process.exit_text()
    session.close()
    server.close()
