"""Ways to log in: keys of the user, an SSH agent, jump hosts, host keys of several types."""

from __future__ import annotations

import logging
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from osmef.errors import CredentialsError, HostKeyError, LoginError, ReachError
from osmef.remote.connection import pkey_of
from osmef.remote.login import HostKeys, KeyPair, Login, OwnKeys, SshTimeouts
from osmef.remote.session import SshSession
from tests.logged import logged
from tests.sshd import Sshd


def works(login: Login) -> bool:
    session = SshSession.open(login)
    try:
        return session.run(["echo", "here"]).stdout == b"here\n"
    finally:
        session.close()


@pytest.fixture
def make_sshd(tmp_path: Path) -> Iterator[Callable[[str, str], Sshd]]:
    made: list[Sshd] = []

    def make(name: str, options: str = "") -> Sshd:
        (tmp_path / name).mkdir()
        made.append(Sshd(tmp_path / name, options))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """A real SSH agent; the fixture adds a key file to it."""
    if shutil.which("ssh-agent") is None:
        pytest.skip("no ssh-agent here (Debian: apt install openssh-client)")
    path = tmp_path / "agent.sock"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # it listens
    monkeypatch.setenv("SSH_AUTH_SOCK", str(path))

    def add(file: Path) -> None:
        subprocess.run(["ssh-add", "-q", file], check=True)

    yield add
    process.terminate()
    process.communicate(timeout=10)


@pytest.fixture
def no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def encrypt(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "secret", "-f", path], check=True)
    return path


def test_a_key_file_of_the_user_is_accepted(sshd: Sshd, tmp_path: Path, no_agent: None) -> None:
    keys = OwnKeys((write(tmp_path / "key", sshd.user.private),))
    assert works(replace(sshd.login(), key=keys))


@pytest.mark.parametrize("kind", [paramiko.RSAKey, paramiko.ECDSAKey])
def test_keys_of_other_types_get_in_and_are_shown_by_the_server(
    kind: type[paramiko.RSAKey] | type[paramiko.ECDSAKey],
    make_sshd: Callable[[str, str], Sshd],
    tmp_path: Path,
    no_agent: None,
) -> None:
    key = kind.generate(bits=2048 if kind is paramiko.RSAKey else 256)
    key.write_private_key_file(str(tmp_path / "key"))
    public = f"{key.get_name()} {key.get_base64()}"
    server = make_sshd("more", f"HostKey {tmp_path}/key")
    (server.directory / "authorized_keys").write_text(public)
    login = replace(server.login(), key=OwnKeys((tmp_path / "key",)), host_keys=HostKeys((public,)))
    assert works(login)


def test_the_default_files_are_tried(
    sshd: Sshd, tmp_path: Path, no_agent: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    write(tmp_path / ".ssh" / "id_ecdsa", sshd.user.private)
    assert works(replace(sshd.login(), key=OwnKeys()))


def test_the_agent_s_key_gets_in(
    sshd: Sshd, tmp_path: Path, agent: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    agent(write(tmp_path / "stranger", KeyPair.generate("stranger").private))
    agent(write(tmp_path / "key", sshd.user.private))
    assert works(replace(sshd.login(), key=OwnKeys()))
    only_files = replace(sshd.login(), key=OwnKeys((tmp_path / "stranger",), others_of_agent=False))
    with pytest.raises(LoginError, match="stranger in the agent") as caught:
        SshSession.open(only_files)
    assert "authorized_keys" in str(caught.value)


@pytest.mark.parametrize("waiting", [8, 0])
def test_an_agent_that_hangs_is_done_without(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: int
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "hangs"))
    keys = OwnKeys((write(tmp_path / "key", sshd.user.private),))
    login = replace(sshd.login(), key=keys, waits=SshTimeouts(agent_s=0.2))
    with socket.socket(socket.AF_UNIX) as hangs, socket.socket(socket.AF_UNIX) as other:
        hangs.bind(str(tmp_path / "hangs"))
        assert works(login), "nobody listens: there is no agent"
        hangs.listen(waiting)  # so many may wait, and nobody is taken
        other.connect(str(tmp_path / "hangs"))
        assert works(login)
        (tmp_path / "key").unlink()
        with pytest.raises(CredentialsError, match="agent can't be used: it does not answer"):
            SshSession.open(login)


def test_an_encrypted_key_works_only_through_the_ssh_agent(
    sshd: Sshd, tmp_path: Path, agent: Callable[[Path], None]
) -> None:
    file = write(tmp_path / "key", sshd.user.private)
    agent(file)
    login = replace(sshd.login(), key=OwnKeys((encrypt(file),), others_of_agent=False))
    assert works(login)
    subprocess.run(["ssh-add", "-q", "-D"], check=True)
    with pytest.raises(CredentialsError, match=f"{file} is encrypted, and no SSH agent") as caught:
        SshSession.open(login)
    assert "ssh-add" in str(caught.value.cure)


def test_a_public_key_file_names_a_key_of_the_agent(
    sshd: Sshd, tmp_path: Path, agent: Callable[[Path], None]
) -> None:
    agent(write(tmp_path / "key", sshd.user.private))
    public = write(tmp_path / "key.pub", sshd.user.public)
    assert works(replace(sshd.login(), key=OwnKeys((public,), others_of_agent=False)))


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), ("", "holds no private key"), ("-----BEGIN", "holds no private key")],
)
def test_a_file_without_a_private_key_is_reported(
    sshd: Sshd, tmp_path: Path, no_agent: None, content: str | None, said: str
) -> None:
    file = tmp_path / "key"
    if content is not None:
        write(file, content)
    with pytest.raises(CredentialsError, match=f"{file} .*{said}"):
        SshSession.open(replace(sshd.login(), key=OwnKeys((file,))))
    assert sshd.user.private.splitlines()[1] not in sshd.log


def test_no_secret_is_logged(sshd: Sshd, tmp_path: Path, no_agent: None) -> None:
    with logged(logging.DEBUG) as log:
        assert works(
            replace(sshd.login(), key=OwnKeys((write(tmp_path / "k", sshd.user.private),)))
        )
    text = log.getvalue()
    assert text
    assert not any(line in text for line in sshd.user.private.splitlines()[1:-1])


def test_an_sshd_that_disconnects_after_a_few_keys_is_reported(
    make_sshd: Callable[[str, str], Sshd], tmp_path: Path, no_agent: None
) -> None:
    server = make_sshd("few", "MaxAuthTries 2")
    strangers = [
        write(tmp_path / f"key-{n}", KeyPair.generate("stranger").private) for n in range(4)
    ]
    with pytest.raises(LoginError, match=r"key-0.*key-1"):
        SshSession.open(replace(server.login(), key=OwnKeys(tuple(strangers))))


def test_an_sshd_that_requires_more_than_a_key_is_reported(
    make_sshd: Callable[[str, str], Sshd],
) -> None:
    server = make_sshd("two", "AuthenticationMethods publickey,publickey")
    with pytest.raises(LoginError, match="it also needs publickey"):
        SshSession.open(server.login())


def test_any_of_the_host_keys_that_are_known_will_do(sshd: Sshd) -> None:
    other = KeyPair.generate("other").public
    ecdsa = paramiko.ECDSAKey.generate()
    unused = f"{ecdsa.get_name()} {ecdsa.get_base64()}"
    assert works(replace(sshd.login(), host_keys=HostKeys((unused, other, sshd.host.public))))


def test_a_host_key_of_another_type_than_the_known_one_is_shown_in_the_error(sshd: Sshd) -> None:
    ecdsa = paramiko.ECDSAKey.generate()
    known = HostKeys((f"{ecdsa.get_name()} {ecdsa.get_base64()}",))
    with pytest.raises(HostKeyError, match=re.escape("host key ssh-ed25519 SHA256:")):
        SshSession.open(replace(sshd.login(), host_keys=known))


def test_a_server_of_which_no_key_is_known_is_refused_with_what_it_shows(sshd: Sshd) -> None:
    fingerprint = pkey_of(sshd.host).fingerprint
    unknown = HostKeys((), source="known_hosts", cure="log in once")
    with pytest.raises(HostKeyError, match=re.escape(fingerprint)) as caught:
        SshSession.open(replace(sshd.login(), host_keys=unknown))
    assert str(caught.value).endswith("no key of it is known to known_hosts\n  cure: log in once")
    assert "Accepted" not in sshd.log


def test_a_revoked_host_key_is_refused_although_it_is_known(sshd: Sshd) -> None:
    keys = HostKeys((sshd.host.public,), revoked=(sshd.host.public,))
    with pytest.raises(HostKeyError, match="revokes"):
        SshSession.open(replace(sshd.login(), host_keys=keys))


def jumping(inner: Login, outer: Login) -> Login:
    return replace(inner, jump=replace(outer, name="jump-1"))


def test_a_jump_host_forwards_the_connection_and_is_disconnected_with_it(
    make_sshd: Callable[[str, str], Sshd],
) -> None:
    first, second, last = make_sshd("first", ""), make_sshd("second", ""), make_sshd("last", "")
    with second.listening() as middle, last.listening() as end:
        login = jumping(end, jumping(middle, first.login()))
        session = SshSession.open(login)
        assert session.run(["echo", "here"]).stdout == b"here\n"
        session.close()
        for server in (first, second, last):
            assert len(server.servers) == 1
            server.servers[0].wait(timeout=10)


def test_the_host_key_of_each_jump_host_is_verified(make_sshd: Callable[[str, str], Sshd]) -> None:
    first, last = make_sshd("first", ""), make_sshd("last", "")
    stranger = HostKeys((KeyPair.generate("stranger").public,))
    with last.listening() as end:
        with pytest.raises(HostKeyError) as caught:
            SshSession.open(jumping(end, replace(first.login(), host_keys=stranger)))
        assert caught.value.where == "jump-1"
        assert last.servers == []
        with pytest.raises(HostKeyError) as caught:
            SshSession.open(jumping(replace(end, host_keys=stranger), first.login()))
        assert caught.value.where == "vm-1"
        for server in (first, last):  # nothing stays connected
            server.servers[-1].wait(timeout=10)


@pytest.mark.parametrize(
    ("options", "said"),
    [("AllowTcpForwarding no", "does not forward"), ("", "does not take the connection")],
)
def test_a_jump_host_that_cannot_forward_is_reported(
    make_sshd: Callable[[str, str], Sshd], options: str, said: str
) -> None:
    first = make_sshd("first", options)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    end = replace(first.login(), address="127.0.0.1", port=port)
    with pytest.raises(ReachError, match=f"from jump-1, its jump host: .*{said}") as caught:
        SshSession.open(jumping(end, first.login()))
    assert caught.value.cure
    first.servers[0].wait(timeout=10)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        # The kernel itself has no TCP route to these, so nothing leaves the machine.
        ("255.255.255.255", "no route to 255.255.255.255"),
        ("no-such-name.invalid", "no name server knows the name no-such-name.invalid"),
    ],
)
def test_an_unreachable_address_is_reported(sshd: Sshd, address: str, said: str) -> None:
    with pytest.raises(ReachError, match=said) as caught:
        SshSession.open(replace(sshd.login(), address=address, connect=None))
    assert caught.value.cure


def test_a_silent_address_is_distinguished_from_a_refused_connection(sshd: Sshd) -> None:
    with socket.socket() as server, socket.socket() as first, socket.socket() as second:
        server.bind(("127.0.0.1", 0))
        server.listen(0)  # the kernel drops what asks for more, as a firewall does
        for one in (first, second):
            one.setblocking(False)
            one.connect_ex(server.getsockname())
        port = server.getsockname()[1]
        login = replace(sshd.login(), address="127.0.0.1", port=port, connect=None)
        with pytest.raises(ReachError, match=f"no answer from 127.0.0.1 port {port}") as caught:
            SshSession.open(login, connect_s=0.2)
    assert "firewall" in str(caught.value.cure)
    with pytest.raises(ReachError, match=f"127.0.0.1 port {port} refused it"):
        SshSession.open(login)


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-slow\r\n"])
def test_a_server_that_falls_silent_is_given_up(sshd: Sshd, said: bytes) -> None:
    here, there = socket.socketpair()
    with there:
        there.sendall(said)
        with pytest.raises(ReachError, match="does not speak SSH with us") as caught:
            SshSession.open(
                replace(sshd.login(), connect=lambda: here, waits=SshTimeouts(handshake_s=0.3))
            )
    assert "overloaded" in str(caught.value.cure)


def test_a_rejected_user_is_named(sshd: Sshd) -> None:
    with pytest.raises(LoginError, match="does not let nobody-here in"):
        SshSession.open(replace(sshd.login(), user="nobody-here"))


def test_private_keys_are_not_in_a_login_s_text(sshd: Sshd) -> None:
    assert sshd.user.private.splitlines()[1] not in repr(sshd.login())
