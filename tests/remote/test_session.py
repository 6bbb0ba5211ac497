from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paramiko import Message
from paramiko.common import cMSG_CHANNEL_CLOSE, cMSG_CHANNEL_OPEN

from osmef.errors import HostKeyError, LoginError, ReachError
from osmef.remote.connection import outputs_of
from osmef.remote.login import HostKeys, KeyPair, SshTimeouts
from osmef.remote.session import SshSession, _dial
from osmef.remote.workdir import remove
from tests.sshd import OPTIONS, Sshd
from tests.waiting import until


def test_a_program_s_output_and_status_come_back(session: SshSession) -> None:
    ended = session.run(["sh", "-c", "cat; echo bad >&2; exit 3"], stdin=b"in\x00put")
    assert (ended.status, ended.stdout, ended.stderr) == (3, b"in\x00put", b"bad\n")


def test_output_is_read_even_after_the_channel_is_closed(session: SshSession) -> None:
    channel = session._channel(["sh", "-c", "echo out; echo why >&2; exit 3"], 5.0)
    until(lambda: channel.closed)
    assert outputs_of(channel) == (b"out\n", b"why\n")


@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(word=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))
def test_no_argument_is_ever_read_by_the_shell(session: SshSession, word: str) -> None:
    ended = session.run(["printf", "%s", "--", word])
    assert ended.stdout == b"--" + word.encode() or ended.stdout == word.encode()


@pytest.mark.parametrize("is_given", [False, True])
def test_ssh_connections_use_tcp_nodelay(sshd: Sshd, is_given: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place: tuple[str, int] = listener.getsockname()
        connect = partial(socket.create_connection, place) if is_given else None
        login = replace(sshd.login(), address=place[0], port=place[1], connect=connect)
        with closing(_dial(login, None, 5.0)) as sock:
            assert isinstance(sock, socket.socket)
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_large_output_comes_whole(session: SshSession) -> None:
    ended = session.run(["head", "-c", "5000000", "/dev/zero"])
    assert len(ended.stdout) == 5_000_000


def test_a_silent_program_does_not_hang_the_controller(sshd: Sshd) -> None:
    session = SshSession.open(replace(sshd.login(), waits=SshTimeouts(command_s=0.2)))
    with pytest.raises(ReachError, match="or the login's shell is slow") as caught:
        session.run(["sleep", "60"])
    assert caught.value.where == "vm-1"
    session.close()


def test_a_program_that_is_known_to_take_long_is_waited_for(sshd: Sshd) -> None:
    session = SshSession.open(replace(sshd.login(), waits=SshTimeouts(command_s=0.2)))
    assert session.run(["sh", "-c", "sleep 0.5; echo done"], within_s=30.0).stdout == b"done\n"
    session.close()


def test_a_file_is_put_with_its_mode_read_back_and_removed(
    session: SshSession, tmp_path: Path
) -> None:
    path = tmp_path / "new" / "file"
    data = bytes(range(256)) * 1000
    session.put(data, str(path), 0o700)
    assert path.read_bytes() == session.read(str(path), len(data)) == data
    assert session.read(str(path), 100) == data[:100]
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    session.remove_directory(str(path.parent))
    assert not path.parent.exists()
    session.remove_directory(str(path.parent))


def test_a_directory_is_removed_with_what_is_in_it_and_through_no_link(
    session: SshSession, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    path = tmp_path / "run"
    for directory in (path, path / "program"):
        session.make_directory(str(directory))
        session.make_directory(str(directory))
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        session.put(b"x", str(directory / "file"), 0o600)
        (directory / "link").symlink_to(kept)
    assert session.list_directory(str(path)) == ["file", "link", "program"]
    session.remove_directory(str(path))
    assert not path.exists()
    assert session.list_directory(str(path)) == []
    assert (kept / "file").exists()


def test_a_directory_that_is_too_deep_is_not_removed(session: SshSession, tmp_path: Path) -> None:
    deep = tmp_path / "run/1/2/3/4/5"
    deep.mkdir(parents=True)
    with pytest.raises(ReachError, match="removing"):
        session.remove_directory(str(tmp_path / "run"))
    assert deep.exists()


def test_a_directory_of_others_is_not_taken(session: SshSession, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("open", "file", "link"):
        with pytest.raises(ReachError, match="others may write"):
            session.make_directory(str(tmp_path / name))


@pytest.mark.parametrize(
    ("path", "cure"),
    [
        ("/proc/no/such/place", "make the directory of this path there"),
        ("/", "is its disk full, or is that read-only?"),
    ],
)
def test_a_file_that_can_t_be_written_is_an_error(
    session: SshSession, path: str, cure: str
) -> None:
    with pytest.raises(ReachError, match="writing") as raised:
        session.put(b"x", path, 0o600)
    assert str(raised.value.cure).startswith(cure)


def test_a_directory_that_can_t_be_made_is_not_said_to_be_missing(session: SshSession) -> None:
    """Its own is there, so to make that does not help."""
    cures = []
    for making in (session.make_directory, lambda path: session.put(b"x", f"{path}/x", 0o600)):
        with pytest.raises(ReachError) as raised:
            making("/sys/none")
        cures.append(str(raised.value.cure))
    assert not any(cure.startswith("make the directory") for cure in cures), cures


def test_a_link_without_its_directory_is_an_error_that_says_so(
    session: SshSession, tmp_path: Path
) -> None:
    with pytest.raises(ReachError, match="making") as raised:
        session.link("of-run", str(tmp_path / "none/lock"))
    assert str(raised.value.cure).startswith("make the directory of this path there")


def test_a_file_is_put_through_no_link(session: SshSession, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "own" / "agent").symlink_to(victim)
    session.put(b"new", str(tmp_path / "own" / "agent"), 0o700)
    assert victim.read_text() == "kept"
    assert (tmp_path / "own" / "agent").read_bytes() == b"new"
    assert not (tmp_path / "own" / "agent").is_symlink()


@pytest.mark.parametrize("how", ["link", "open to all", "a stranger's"])
def test_a_file_is_put_where_only_its_owner_writes(
    session: SshSession, tmp_path: Path, how: str
) -> None:
    (tmp_path / "other").mkdir(mode=0o700)
    if how == "link":
        (tmp_path / "own").symlink_to(tmp_path / "other")
    else:
        (tmp_path / "own").mkdir()
        (tmp_path / "own").chmod(0o1777 if how == "open to all" else 0o755)
    if how == "a stranger's":
        if os.geteuid() != 0:
            pytest.skip("only root has files of other users")
        os.chown(tmp_path / "own", 65534, 65534)
    with pytest.raises(ReachError, match=r"others may write in .*/own"):
        session.put(b"agent", str(tmp_path / "own" / "agent"), 0o700)


def test_a_process_is_spoken_to_in_lines(session: SshSession) -> None:
    process = session.start(["cat"])
    for line in ("one", "zwei", ""):
        process.send_line(line)
        assert process.read_line() == line
    process.close()
    assert process.read_line() is None


@pytest.mark.parametrize(
    ("script", "ending"),
    [
        ("exit 7", "exit status 7"),
        ("echo oops >&2; exit 1", "exit status 1: oops"),
        ("kill -9 $$", "killed by a signal"),
        ("sh -c 'kill -9 $$'; exit $?", "killed by SIGKILL"),
    ],
)
def test_the_exit_status_or_signal_of_a_process_is_reported(
    session: SshSession, script: str, ending: str
) -> None:
    process = session.start(["sh", "-c", script])
    assert process.read_line() is None
    assert process.exit_text().startswith(ending)


def test_a_line_without_an_end_is_not_kept_for_ever(session: SshSession) -> None:
    process = session.start(["head", "-c", "3000000", "/dev/zero"])
    assert process.read_line() is None
    assert process.exit_text() == "it printed a line of more than 1.05 MB"


def test_another_host_key_is_rejected_before_authentication(sshd: Sshd) -> None:
    stranger = replace(sshd.login(), host_keys=HostKeys((KeyPair.generate("x").public,)))
    with pytest.raises(HostKeyError, match="not the one that the provider has for it"):
        SshSession.open(stranger)
    assert "Accepted" not in sshd.log
    assert "userauth" not in sshd.log


def test_a_key_that_is_not_authorized_is_an_error(sshd: Sshd) -> None:
    with pytest.raises(LoginError, match="the key of the run"):
        SshSession.open(replace(sshd.login(), key=KeyPair.generate("somebody")))


def test_a_closed_port_is_an_error(sshd: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    login = replace(sshd.login(), address="127.0.0.1", port=port, connect=None)
    with pytest.raises(ReachError, match="refused") as caught:
        SshSession.open(login)
    assert caught.value.cure is not None


@pytest.mark.parametrize("greeting", [b"HTTP/1.0 400 no\r\n\r\n", b"", b"\x00\xff" * 100])
def test_a_server_that_is_no_sshd_is_an_error(sshd: Sshd, greeting: bytes) -> None:
    here, there = socket.socketpair()
    there.sendall(greeting)
    there.shutdown(socket.SHUT_WR)
    with there, pytest.raises(ReachError):
        SshSession.open(replace(sshd.login(), connect=lambda: here))


@pytest.mark.parametrize("number", range(8))
def test_a_connection_that_breaks_while_it_is_written_to_is_a_lost_one(
    sshd: Sshd, number: int
) -> None:
    session = SshSession.open(sshd.login())
    process = session.start(["cat"])
    process.send_line("hello")
    assert process.read_line() == "hello"
    sshd.kill()

    def write() -> None:
        while True:
            process.send_line("x" * number)

    with pytest.raises(ReachError, match="the connection is gone"):
        write()
    process.close()
    assert not session.answers(10.0)
    session.close()


def test_a_lost_connection_is_known(sshd: Sshd) -> None:
    session = SshSession.open(sshd.login())
    states = [session.is_open]
    process = session.start(["cat"])
    sshd.close()
    assert process.read_line() is None
    with pytest.raises(ReachError):
        session.run(["true"])
    states.append(session.is_open)
    session.close()
    assert states == [True, False]


@pytest.mark.parametrize(
    ("options", "cure"),
    [
        ("", "have the sftp subsystem"),
        (f"{OPTIONS}\nMaxSessions 1", "MaxSessions"),
        ("Subsystem sftp internal-sftp -P open", "let this user write there"),
    ],
    ids=["no subsystem", "one session", "forbidden"],
)
def test_an_sshd_without_file_transfer_is_reported(tmp_path: Path, options: str, cure: str) -> None:
    server = Sshd(tmp_path, options=options)
    session = SshSession.open(server.login())
    try:
        session.start(["cat"])
        with pytest.raises(ReachError, match="writing") as raised:
            session.put(b"x", str(tmp_path / "x"), 0o600)
        assert cure in (raised.value.cure or "")
    finally:
        session.close()
        server.close()


@pytest.mark.parametrize(
    "act",
    [
        lambda session: session.run(["true"]),
        lambda session: session.start(["cat"]),
        lambda session: session.put(b"x", "/dev/null", 0o600),
        lambda session: session.remove_directory("/nowhere"),
        lambda session: remove(session, "run", "host-1"),
    ],
    ids=["run", "start", "put", "remove", "remove a run"],
)
def test_a_server_that_hangs_does_not_hang_the_controller(
    sshd: Sshd, act: Callable[[SshSession], object]
) -> None:
    session = SshSession.open(replace(sshd.login(), waits=SshTimeouts(answer_s=0.3, command_s=0.3)))
    sshd.stop()
    with pytest.raises(ReachError, match="no answer"):
        act(session)
    session.close()


def test_a_server_that_hangs_does_not_answer(sshd: Sshd) -> None:
    session = SshSession.open(sshd.login())
    assert session.answers(10.0)
    sshd.stop()
    assert not session.answers(0.2)
    assert not session.is_open


def test_no_channel_is_opened_before_the_last_one_is_closed(tmp_path: Path) -> None:
    sshd = Sshd(tmp_path, options=f"{OPTIONS}\nMaxSessions 1")
    session = SshSession.open(sshd.login())
    for number in range(20):
        session.put(b"x", str(tmp_path / f"{number}"), 0o600)
        process = session.start(["cat"])
        process.send_line("x")
        assert process.read_line() == "x"
        process.close()
        assert session.run(["true"]).status == 0
    session.close()
    sshd.close()


def test_a_program_starts_where_a_busy_server_reads_the_last_one_s_close_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sshd counts a session that it has just read the close of until it has read all that came."""
    sshd = Sshd(tmp_path, options=f"{OPTIONS}\nMaxSessions 1")
    session = SshSession.open(sshd.login())
    send = session._transport._send_message

    def send_to_a_busy_server(message: Message) -> None:
        kind = message.asbytes()[:1]
        if kind == cMSG_CHANNEL_CLOSE:
            sshd.stop()
        send(message)
        if kind == cMSG_CHANNEL_OPEN:
            sshd.resume()

    monkeypatch.setattr(session._transport, "_send_message", send_to_a_busy_server)
    for _ in range(3):
        assert session.run(["true"]).status == 0
    session.close()
    sshd.close()


def test_no_channel_is_left_open_once_the_server_has_answered(sshd: Sshd) -> None:
    session = SshSession.open(sshd.login())
    for _ in range(20):
        assert session.answers(10.0)
        assert not session._transport._ends
    session.close()


def test_a_server_that_does_not_close_a_channel_is_waited_for_once(sshd: Sshd) -> None:
    session = SshSession.open(sshd.login())
    process = session.start(["cat"])
    sshd.stop()
    began = time.monotonic()
    for _ in range(5):
        process.close()
    assert time.monotonic() - began < 3.0
    session.close()


def test_a_server_that_takes_no_more_programs_answers(tmp_path: Path) -> None:
    sshd = Sshd(tmp_path, options="MaxSessions 1\nAcceptEnv SHLVL")
    session = SshSession.open(sshd.login())
    process = session.start(["cat"])
    assert session.answers(10.0)
    with pytest.raises(ReachError, match="can't run true") as refused:
        session.run(["true"])
    assert "MaxSessions" in str(refused.value.cure)
    process.close()
    session.close()
    sshd.close()


def test_a_file_in_place_of_a_symbolic_link_is_reported(
    session: SshSession, tmp_path: Path
) -> None:
    (tmp_path / "lock").write_text("mine")
    with pytest.raises(ReachError, match="is no link of ours"):
        session.read_link(str(tmp_path / "lock"))
    assert session.read_link(str(tmp_path / "nothing")) is None
