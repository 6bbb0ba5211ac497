from __future__ import annotations

import socket
import threading
import time
from dataclasses import replace

import pytest

from osmef.errors import HostKeyError, Interrupted, LoginError, ReachError
from osmef.remote.login import HostKeys, KeyPair, OwnKeys
from osmef.remote.session import wait_for_ssh
from tests.sshd import Sshd


def soon() -> float:
    return time.monotonic() + 60


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def nothing() -> None:
    pass


def test_an_sshd_that_comes_later_is_found(sshd: Sshd, free_port: int) -> None:
    login = replace(sshd.login(), address="127.0.0.1", port=free_port, connect=None)
    calls: list[float] = []
    up = threading.Event()

    def start_after_three() -> None:
        calls.append(time.monotonic())
        if len(calls) == 3:
            up.set()

    def serve() -> None:
        up.wait(60)
        with sshd.listening(free_port):
            done.wait(60)

    done = threading.Event()
    server = threading.Thread(target=serve)
    server.start()
    try:
        session = wait_for_ssh(login, deadline=soon(), check=start_after_three)
    finally:
        done.set()
        server.join()
    assert len(calls) >= 3
    assert session.run(["true"]).status == 0
    session.close()


def test_a_key_that_is_authorized_later_is_accepted(sshd: Sshd) -> None:
    keys = sshd.directory / "authorized_keys"
    keys.write_text("")

    def add_it() -> None:
        if "Connection closed by authenticating" in sshd.log or "preauth" in sshd.log:
            keys.write_text(sshd.user.public)

    session = wait_for_ssh(sshd.login(), deadline=soon(), check=add_it)
    assert session.run(["true"]).status == 0
    assert len(sshd.servers) > 1
    session.close()


def test_a_changed_host_key_is_an_error_at_once(sshd: Sshd) -> None:
    stranger = replace(sshd.login(), host_keys=HostKeys((KeyPair.generate("stranger").public,)))
    with pytest.raises(HostKeyError):
        wait_for_ssh(stranger, deadline=float("inf"), check=nothing)
    assert len(sshd.servers) == 1


def test_without_any_key_ssh_is_not_waited_for(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    keys = OwnKeys((sshd.directory / "none",))
    with pytest.raises(Exception, match="no key to log in with"):
        wait_for_ssh(replace(sshd.login(), key=keys), deadline=float("inf"), check=nothing)


def test_the_last_error_is_reported_at_the_deadline(sshd: Sshd, free_port: int) -> None:
    login = replace(sshd.login(), address="127.0.0.1", port=free_port, connect=None)
    with pytest.raises(ReachError, match=r"refused it, after \d+ s of waiting") as caught:
        wait_for_ssh(login, deadline=time.monotonic() + 1.5, check=nothing)
    assert caught.value.cure
    stranger = replace(sshd.login(), key=KeyPair.generate("stranger"))
    with pytest.raises(LoginError, match="of waiting"):
        wait_for_ssh(stranger, deadline=time.monotonic() + 1.5, check=nothing)


def test_a_silent_server_is_waited_for_until_the_deadline_only(sshd: Sshd) -> None:
    kept: list[socket.socket] = []

    def connect() -> socket.socket:
        here, there = socket.socketpair()
        kept.append(there)
        return here

    login = replace(sshd.login(), connect=connect)
    with pytest.raises(ReachError, match="no answer"):
        wait_for_ssh(login, deadline=time.monotonic() + 0.5, check=nothing)
    for there in kept:
        there.close()


def test_a_request_to_stop_ends_the_wait_and_leaves_no_connection(sshd: Sshd) -> None:
    def stop() -> None:
        raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        wait_for_ssh(sshd.login(), deadline=soon(), check=stop)
    for server in sshd.servers:
        server.wait(timeout=30)
