"""Aliases of OpenSSH's configuration, as ssh itself would read them."""

from __future__ import annotations

import contextlib
import getpass
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import CredentialsError, HostKeyError, ReachError
from osmef.remote.login import Login, OwnKeys
from osmef.remote.session import SshSession
from osmef.remote.ssh_config import find_login
from tests.sshd import Sshd

Write = Callable[[str], Path]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write ~/.ssh/config in a home of the test's own, and leave the system's out."""
    folder = tmp_path / "home" / ".ssh"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr("osmef.remote.ssh_config.CONFIG_FILES", (Path("~/.ssh/config"),))

    def write(text: str) -> Path:
        (folder / "config").write_text(text)
        return folder

    return write


def test_a_user_without_a_name_has_to_set_one(
    config: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers may run as any number, without a line in /etc/passwd."""
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 1 << 30)
    with pytest.raises(CredentialsError, match="has no name here") as refused:
        find_login("a", "me@node")
    assert "USER=me" in str(refused.value.cure)
    monkeypatch.setenv("USER", "someone")
    assert find_login("a", "me@node").user == "me"


def address(login: Login) -> tuple[str, str, int]:
    return login.user, login.address, login.port


@pytest.mark.parametrize(
    ("ssh", "expected"),
    [
        ("node", ("someone", "192.0.2.7", 2200)),
        ("me@node", ("me", "192.0.2.7", 2200)),
        ("me@node:22", ("me", "192.0.2.7", 22)),
        ("other", ("everybody", "other", 22)),
        ("192.0.2.9", ("everybody", "192.0.2.9", 22)),
        ("[2001:db8::1]", ("everybody", "2001:db8::1", 22)),
        ("a@[2001:db8::1]:2222", ("a", "2001:db8::1", 2222)),
    ],
)
def test_user_and_port_in_the_inventory_override_the_ssh_configuration(
    config: Write, ssh: str, expected: tuple[str, str, int]
) -> None:
    config(
        "Host node\n  HostName 192.0.2.7\n  Port=2200\n  User someone\nHost *\n  User everybody\n"
    )
    assert address(find_login("a", ssh)) == expected


def test_without_an_ssh_configuration_the_defaults_are_used(config: Write) -> None:
    login = find_login("a", "node")
    assert address(login) == (getpass.getuser(), "node", 22)
    assert login.key == OwnKeys()
    assert login.jump is None


@pytest.mark.parametrize(
    ("text", "own", "expected"),
    [
        ("IdentityFile ~/.ssh/lab\n", None, ("lab", True)),
        ("IdentityFile ~/.ssh/lab\nIdentitiesOnly yes\n", None, ("lab", False)),
        ("IdentityFile ~/.ssh/lab\n", "~/.ssh/mine", ("mine", False)),
    ],
)
def test_keys_are_those_of_the_configuration_or_the_one_named(
    config: Write, text: str, own: str | None, expected: tuple[str, bool]
) -> None:
    folder = config(text)
    key = find_login("a", "node", identity=own).key
    assert key == OwnKeys((folder / expected[0],), others_of_agent=expected[1])


def chain(login: Login | None) -> list[tuple[str, int]]:
    return [] if login is None else [*chain(login.jump), (login.address, login.port)]


@pytest.mark.parametrize(
    ("jump", "expected"),
    [
        (None, [("outer.example.org", 22), ("inner", 2222), ("node", 22)]),
        ("direct", [("direct", 22), ("node", 22)]),
        ("x@a:1,b:2,[::1]:3", [("a", 1), ("b", 2), ("::1", 3), ("node", 22)]),
        ("none", [("node", 22)]),
    ],
)
def test_jump_hosts_are_followed_through_the_configuration(
    config: Write, jump: str | None, expected: list[tuple[str, int]]
) -> None:
    config(
        "Host node\n  ProxyJump inner:2222\n"
        "Host inner\n  ProxyJump outer\n"
        "Host outer\n  HostName outer.example.org\n"
    )
    assert chain(find_login("a", "node", jump=jump)) == expected


def test_included_files_count_as_if_they_stood_there(config: Write) -> None:
    folder = config("Include conf.d/*.conf\nUser late\nHost node\n  Port 3\n")
    (folder / "conf.d").mkdir()
    (folder / "conf.d" / "a.conf").write_text("Host node\n  HostName 192.0.2.1\n")
    (folder / "conf.d" / "b.conf").write_text(f"Include {folder}/more\nHost other\n  User o\n")
    (folder / "more").write_text("Host node\n  User early\n")
    assert address(find_login("a", "node")) == ("early", "192.0.2.1", 3)
    assert address(find_login("a", "other")) == ("o", "other", 22)
    assert address(find_login("a", "third")) == ("late", "third", 22)


@pytest.mark.parametrize(
    "text",
    [
        "Host a b\n  HostName h-%h.example.org\nHost b\n  User u\n  Port 2\n",
        "Match host node\n  User m\n  HostName 192.0.2.1\nHost *\n  User x\n",
        "Host !node *\n  User not\nHost no*\n  User star\n  IdentityFile ~/.ssh/%r-%h\n",
        "User top\nHost node\n  User never\n  ProxyJump u@hop:7\n",
        "User top # of all\nHost no* # and others\n  Port 3\t# not 4\n",
        'Match Host "node" !USER nobody\n  User m\nMatch host other\n  Port 4\n',
        "Host node\n  ProxyJump ssh://u@hop:7\n",
    ],
)
def test_ssh_itself_reads_the_same(config: Write, text: str) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("no ssh here (Debian: apt install openssh-client)")
    folder = config(text)
    for host in ("node", "a", "b"):
        told = subprocess.run(
            ["ssh", "-G", "-F", folder / "config", host], capture_output=True, text=True, check=True
        ).stdout
        by_key = dict(line.partition(" ")[::2] for line in told.splitlines())
        login = find_login("a", host)
        assert login.address == by_key["hostname"]
        assert login.port == int(by_key["port"])
        assert login.user == by_key["user"]
        hop = login.jump
        assert by_key.get("proxyjump") == (f"{hop.user}@{hop.address}:{hop.port}" if hop else None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Host node\n  Include more\n", "Include inside a Host"),
        ("Include config\n", "too many nested ones"),
        ("Host node\n  ProxyJump node\n", "too many jump hosts in a row"),
        ("Host node\n  ProxyCommand nc %h %p | tee log\n", "needs a shell"),
        ("Match host node exec true\n  User x\n", "Match exec"),
        ("Match originalhost\n  User x\n", "without a value"),
        ("Match localnetwork 192.0.2.0/24\n  User x\n", "Match localnetwork, and"),
        ("Match tagged lab\n  User x\n", "Match tagged, and"),
        ("Port x\n", "makes no sense"),
        ("Port 70000\n", "the port 70000"),
        ('UserKnownHostsFile "a\n', "makes no sense"),
        ('Include "a\n', "makes no sense"),
        ("nonsense\n", "makes no sense"),
    ],
)
def test_an_unsupported_ssh_configuration_is_an_error(config: Write, text: str, said: str) -> None:
    config(text)
    with pytest.raises(CredentialsError, match=said) as caught:
        find_login("a", "node")
    assert caught.value.cure


@pytest.mark.parametrize(
    "match",
    [
        'Match exec "{}"',
        'match\texec "{}"',
        'Match "exec" "{}"',
        "Match 'exec' '{}'",
        'Match ex"ec" "{}"',
        'Match !exec "{}"',
        'Match host node exec="{}"',
        'Match host node EXEC "{}"',
        'Match\u00a0exec "{}"',
    ],
)
def test_no_shell_is_run_however_a_match_asks_for_it(config: Write, match: str) -> None:
    file = config("") / "made"
    config(match.format(f"touch {file}") + "\n  User x\n")
    with pytest.raises(CredentialsError, match="has a Match"):
        find_login("a", "node")
    assert not file.exists()


def test_a_command_and_a_match_see_what_is_written_with_the_host(config: Write) -> None:
    config(
        "Match user me\n  HostKeyAlias mine\n"
        "Host *\n  Port 22\n  User x\n  ProxyCommand ssh -W %h:%p %r@gateway\n"
    )
    login = find_login("a", "me@node:2222")
    assert isinstance(login.connect, partial)
    assert login.connect.args == (["ssh", "-W", "node:2222", "me@gateway"],)
    assert "(as mine)" in login.host_keys.source


def test_paths_may_hold_variables(config: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYS", "/srv/keys")
    config("IdentityFile ${KEYS}/lab\nIdentityFile ${NO_SUCH_ONE}/lab\n")
    key = find_login("a", "node").key
    assert key == OwnKeys((Path("/srv/keys/lab"), Path("${NO_SUCH_ONE}/lab")))


KEYWORDS = ["Host", "Match", "Include", "Port", "User", "ProxyJump", "HostName", "IdentityFile"]
words = st.sampled_from(
    [*KEYWORDS, "*", "node", "all", "host", "~no-such-user/x", "%h", "%", "=", "'", '"', "22"]
)


@given(st.lists(st.lists(words, max_size=4).map(" ".join), max_size=5).map("\n".join))
def test_any_configuration_is_a_login_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    file = tmp_path_factory.getbasetemp() / "ssh_config"
    file.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("osmef.remote.ssh_config.CONFIG_FILES", (file,))
        with contextlib.suppress(CredentialsError):
            assert find_login("a", "node").name == "a"


def test_the_suggested_ssh_command_uses_the_same_jump_host_and_known_hosts(config: Write) -> None:
    config("")
    login = find_login("a", "me@[::1]:2222", jump="gate", known_hosts="/lab/hosts")
    command = "ssh -oUserKnownHostsFile=/lab/hosts -p 2222 -J gate me@::1"
    assert f"log in once with {command}, compare" in login.host_keys.cure


@pytest.mark.parametrize("ssh", ["", "a b", "me@", "node:", "node:x", "a@b@c:", "[::1"])
def test_an_invalid_ssh_destination_is_an_error(config: Write, ssh: str) -> None:
    with pytest.raises(CredentialsError, match="is no "):
        find_login("a", ssh)


def test_an_ssh_alias_with_all_options_can_log_in(config: Write, sshd: Sshd) -> None:
    with sshd.listening() as end:
        folder = config(
            f"Host node\n  HostName 127.0.0.1\n  Port {end.port}\n  User {end.user}\n"
            "  HostKeyAlias the-node\n  UserKnownHostsFile ~/.ssh/lab-hosts\n"
            "  IdentityFile ~/.ssh/lab\n  IdentitiesOnly yes\n"
        )
        (folder / "lab").write_text(sshd.user.private)
        with pytest.raises(HostKeyError, match="the-node") as caught:
            SshSession.open(find_login("a", "node"))
        assert "log in once with ssh node, compare" in str(caught.value.cure)
        (folder / "lab-hosts").write_text(f"the-node {sshd.host.public}\n")
        session = SshSession.open(find_login("a", "node"))
        assert session.run(["echo", "here"]).stdout == b"here\n"
        session.close()


def test_known_hosts_that_is_named_holds_for_the_jump_hosts_too(config: Write, sshd: Sshd) -> None:
    file = config("").parent / "hosts"
    file.write_text(f"[127.0.0.1]:1 {sshd.host.public}\nnode {sshd.host.public}\n")
    login = find_login("a", "node", jump="127.0.0.1:1", known_hosts="~/hosts")
    assert login.jump is not None
    assert login.host_keys.accepted == login.jump.host_keys.accepted != ()


def test_a_plain_proxy_command_is_run_without_a_shell(config: Write, sshd: Sshd) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("no ssh here (Debian: apt install openssh-client)")
    with sshd.listening() as end:
        folder = config("")
        hosts = folder / "known_hosts"
        hosts.write_text(f"[127.0.0.1]:{end.port} {sshd.host.public}\nnode {sshd.host.public}\n")
        key = folder / "lab"
        key.write_text(sshd.user.private)
        key.chmod(0o600)
        config(
            f"Host node\n  User {end.user}\n  IdentityFile {key}\n"
            f"  ProxyCommand ssh -F none -i {key} -o UserKnownHostsFile={hosts} -p {end.port}"
            f" -W 127.0.0.1:{end.port} {end.user}@127.0.0.1\n"
        )
        session = SshSession.open(find_login("a", "node"))
        assert session.run(["echo", "here"]).stdout == b"here\n"
        session.close()
        for server in sshd.servers:
            server.wait(timeout=10)
        assert len(sshd.servers) == 2


@pytest.mark.parametrize("command", ["no-such-program %h", "true"])
def test_a_failing_proxy_command_is_reported(config: Write, command: str) -> None:
    config(f"Host node\n  ProxyCommand {command}\n")
    with pytest.raises(ReachError):
        SshSession.open(find_login("a", "node"))
