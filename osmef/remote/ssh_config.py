"""A host as its user names it to ssh: an alias of OpenSSH's configuration, or user@host:port."""

from __future__ import annotations

import contextlib
import getpass
import re
import shlex
import socket
import subprocess
import threading
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import paramiko

from osmef.errors import CredentialsError
from osmef.remote.keys import OwnKeys
from osmef.remote.known_hosts import DEFAULT_FILES as KNOWN_HOSTS
from osmef.remote.known_hosts import known_keys
from osmef.remote.login import SSH_PORT, Login

CONFIG_FILES = (Path("~/.ssh/config"), Path("/etc/ssh/ssh_config"))

_PARTS = re.compile(
    r"(?:(?P<user>[^@\s]+)@)?(?:\[(?P<v6>[^]\s]+)\]|(?P<host>[^]\[:@\s]+))(?::(?P<port>[0-9]+))?"
)
_MOST_JUMPS = 8
_MOST_INCLUDES = 16
_EVERYWHERE = ["Host *"]
_OF_A_SHELL = set("|&;<>()$`*?~\n")


def find_login(
    name: str,
    ssh: str,
    *,
    identity: str | None = None,
    jump: str | None = None,
    known_hosts: str | None = None,
) -> Login:
    """Return how to log in to ``ssh``, which is written ``[USER@]HOST[:PORT]``.

    HOST is an alias, a name, an IPv4 address, or an IPv6 address in brackets.
    ``identity`` and ``known_hosts`` are files, ``jump`` is one or several destinations with commas
    between them; each goes before what OpenSSH's configuration says. ``known_hosts`` holds for the
    jump hosts, too. Connects to nothing. Raises CredentialsError.
    """
    hosts = None if known_hosts is None else (in_home(known_hosts),)
    try:
        login = _Search(_read_config(), hosts).login(name, ssh, jump, _MOST_JUMPS)
    except (ValueError, KeyError, paramiko.SSHException) as error:
        raise CredentialsError(
            f"OpenSSH's configuration makes no sense for {ssh}: {error}",
            where=name,
            cure="try it with ssh itself: ssh -G HOST",
        ) from None
    if identity is None:
        return login
    return replace(login, key=OwnKeys((in_home(identity),), others_of_agent=False))


@dataclass(frozen=True)
class _Search:
    config: paramiko.SSHConfig
    known_hosts: tuple[Path, ...] | None

    def login(self, name: str, ssh: str, jump: str | None, left: int) -> Login:
        parts = _PARTS.fullmatch(ssh)
        if parts is None:
            cure = "check how it is written"
            raise CredentialsError("is no [user@]host[:port]", where=ssh, cure=cure)
        options = self.config.lookup(parts["v6"] or parts["host"])
        address, port = options["hostname"], int(parts["port"] or options.get("port", SSH_PORT))
        if not 0 < port < 65536:
            raise ValueError(f"the port {port}")
        before = self._jump(name, jump or options.get("proxyjump", "none"), left)
        command = options.get("proxycommand") if before is None else None
        files = tuple(map(in_home, options.get("identityfile", [])))
        only = options.get("identitiesonly", "no").lower() == "yes"
        known = self.known_hosts or _known_hosts(options)
        return Login(
            name=name,
            user=parts["user"] or options.get("user") or getpass.getuser(),
            address=address,
            host_keys=known_keys(address, port, known, options.get("hostkeyalias", "")),
            key=OwnKeys(files, others_of_agent=not only),
            port=port,
            jump=before,
            connect=None if command is None else partial(_through, _argv(name, command)),
        )

    def _jump(self, name: str, hops: str, left: int) -> Login | None:
        if hops.lower() == "none":
            return None
        if left == 0:
            message, cure = (
                "too many jump hosts in a row",
                "does a ProxyJump lead back to its host?",
            )
            raise CredentialsError(message, where=name, cure=cure)
        others, _, last = hops.rpartition(",")
        return self.login(f"the jump host {last}", last, others or None, left - 1)


def _known_hosts(options: paramiko.SSHConfigDict) -> tuple[Path, ...]:
    named = options.get("userknownhostsfile")
    if named is None:
        return KNOWN_HOSTS
    files = tuple(in_home(file) for file in shlex.split(named) if file.lower() != "none")
    return files or KNOWN_HOSTS


def _read_config() -> paramiko.SSHConfig:
    lines: list[str] = []
    for file in map(Path.expanduser, CONFIG_FILES):
        # A block of its own for each file: what stands before its first Host holds for all hosts.
        lines += [*_EVERYWHERE, *_lines(file, file.parent, _MOST_INCLUDES)]
    return paramiko.SSHConfig.from_text("\n".join(lines))


def in_home(path: str) -> Path:
    """Return a path with ``~`` filled in, as it stands where there is no such home."""
    with contextlib.suppress(RuntimeError):
        return Path(path).expanduser()
    return Path(path)


def _lines(file: Path, folder: Path, left: int) -> list[str]:
    """Return a file's lines and those of the files that it includes, which paramiko leaves out."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        message = f"can't be read: {error.strerror}"
        raise CredentialsError(message, where=str(file), cure="check its permissions") from None
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        word, _, rest = line.strip().replace("=", " ", 1).partition(" ")
        inside = inside or word.lower() in {"host", "match"}
        if word.lower() == "match" and "exec" in rest.lower().split():
            raise CredentialsError(  # paramiko would hand it to a shell
                "has a Match exec, and OSMeF runs no shell",
                where=str(file),
                cure="match by host or user instead",
            )
        if word.lower() != "include":
            lines.append(line)
            continue
        if inside or left == 0:
            raise CredentialsError(
                "has an Include inside a Host or Match, or too many one in the other",
                where=str(file),
                cure="move it before the first Host",
            )
        for path in (path for pattern in shlex.split(rest) for path in _found(pattern, folder)):
            lines += [*_lines(path, folder, left - 1), *_EVERYWHERE]
    return lines


def _found(pattern: str, folder: Path) -> list[Path]:
    path = folder / in_home(pattern)
    found = Path(path.anchor).glob(str(path.relative_to(path.anchor)))
    return sorted(path for path in found if path.is_file())


def _argv(name: str, command: str) -> list[str]:
    if _OF_A_SHELL & set(command):
        raise CredentialsError(
            "its ProxyCommand needs a shell, and OSMeF runs none",
            where=name,
            cure="use ProxyJump, a plain command, or write jump in the inventory",
        )
    return shlex.split(command)


def _through(argv: list[str]) -> socket.socket:
    """Connect through a program that speaks to the sshd on its standard input and output."""
    here, there = socket.socketpair()
    with there:
        end = there.fileno()
        try:
            # A session of its own: Ctrl-C is not meant for it, while the run still cleans up.
            program = subprocess.Popen(
                argv, stdin=end, stdout=end, stderr=subprocess.DEVNULL, start_new_session=True
            )
        except OSError:
            here.close()
            raise
    threading.Thread(target=program.wait, name="proxy", daemon=True).start()
    return here
