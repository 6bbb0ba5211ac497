"""OpenSSH's configuration files as ssh reads them, and a destination in their terms.

A destination is an alias of the configuration, or user@host:port. paramiko ignores included files,
treats a Match with an unknown keyword as true, compares keywords by case, passes ``exec`` to a
shell, and knows no comments at the end of a line (ssh_config(5)).
"""

from __future__ import annotations

import base64
import getpass
import hashlib
import hmac
import os
import re
import shlex
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import paramiko

from osmef.errors import CredentialsError
from osmef.files import UnfitFileError, in_home, is_file, read_text_file
from osmef.programs import start_in_new_session
from osmef.remote.login import SSH_PORT, HostKeys, Login, OwnKeys

EVERYWHERE = "Host *"

_MOST_INCLUDES = 16
_MOST_CONFIG_BYTES = 1 << 20
_SETTING = re.compile(r"(\w+)(?:\s*=\s*|\s+)(.+)")
"""A line as paramiko splits it: the keyword has to be the same here as there."""
_COMMENT = re.compile(r'\s#[^"]*$')
_COMMANDS = {"proxycommand", "localcommand", "remotecommand", "knownhostscommand"}
_MATCH_ALONE = {"all", "canonical", "final"}
_MATCH_BY = {"host", "originalhost", "user", "localuser"}


def read_config(file: Path) -> list[str]:
    """Return the lines of a file and of those it includes. Raises CredentialsError."""
    return _included_lines(file, file.parent, _MOST_INCLUDES)


def _included_lines(file: Path, folder: Path, left: int) -> list[str]:
    try:
        text = read_text_file(file, _MOST_CONFIG_BYTES, errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        message = f"can't be read: {error.strerror}"
        cure = error.cure if isinstance(error, UnfitFileError) else "check its permissions"
        raise CredentialsError(message, where=str(file), cure=cure) from None
    lines: list[str] = []
    inside = False
    for line in map(str.strip, text.splitlines()):
        setting = _SETTING.match(line)
        if line.startswith("#") or setting is None:
            lines.append(line)
            continue
        word, value = setting[1].lower(), setting[2]
        inside = inside or word in {"host", "match"}
        if word not in _COMMANDS:
            value = _COMMENT.sub("", value)
        if word != "include":
            lines.append(f"{word} {_match(value, file) if word == 'match' else value}")
            continue
        if inside or left == 0:
            raise CredentialsError(
                "has an Include inside a Host or Match, or too many nested ones",
                where=str(file),
                cure="move it before the first Host",
            )
        for path in (path for pattern in shlex.split(value) for path in _found(pattern, folder)):
            lines += [*_included_lines(path, folder, left - 1), EVERYWHERE]
    return lines


def _match(value: str, file: Path) -> str:
    """Return the conditions of a Match line. Raises CredentialsError, ValueError."""
    words = iter(shlex.split(value))
    reported: list[str] = []
    for written in words:
        word = written.lower().removeprefix("!")
        if word not in _MATCH_ALONE | _MATCH_BY:
            what = "OSMeF runs no shell" if word == "exec" else "OSMeF does not know what that is"
            raise CredentialsError(
                f"has a Match {written[:40]}, and {what}",
                where=str(file),
                cure="match by host, originalhost, user or localuser instead",
            )
        reported.append(written.lower())
        if word in _MATCH_BY:
            reported.append(_after(words, written))
    return shlex.join(reported)


def _after(words: Iterator[str], word: str) -> str:
    for value in words:
        return value
    raise ValueError(f"a Match {word} without a value")


def _found(pattern: str, folder: Path) -> list[Path]:
    path = folder / in_home(pattern)
    found = Path(path.anchor).glob(str(path.relative_to(path.anchor)))
    return sorted(path for path in found if is_file(path))


_MOST_BYTES = 64 << 20

DEFAULT_FILES = tuple(
    Path(name) for name in ("~/.ssh/known_hosts", "~/.ssh/known_hosts2", "/etc/ssh/ssh_known_hosts")
)

Line = tuple[str, str, str]
"""A line's marker or an empty text, its host names, and its key."""


def known_keys(
    address: str,
    port: int = SSH_PORT,
    files: Sequence[Path] = DEFAULT_FILES,
    alias: str = "",
    visit: str = "",
) -> HostKeys:
    """Return the known host keys of a server, under its alias if it has one.

    ``visit`` is the command by which its user logs in there, if that is not the address alone.

    There may be none; then the server is refused at the connection, and the error has its key.
    Missing files count as empty. Raises CredentialsError for one that can't be read.
    """
    visit = visit or shlex.join(["ssh", *(("-p", str(port)) * (port != SSH_PORT)), address])
    name = alias or (address if port == SSH_PORT else f"[{address}]:{port}")
    lines = [line for file in files for line in _lines(file)]
    ours = [(mark, key) for mark, hosts, key in lines if _is_one_of(name.lower(), hosts)]
    accepted = tuple(dict.fromkeys(key for mark, key in ours if not mark))
    authority = any(mark == "@cert-authority" for mark, _ in ours)
    return HostKeys(
        accepted=accepted,
        revoked=tuple(key for mark, key in ours if mark == "@revoked"),
        source=f"{files[0]} (as {name})",
        cure=_cure(name, visit, files[0], known=bool(accepted), authority=authority),
    )


def _cure(name: str, visit: str, file: Path, *, known: bool, authority: bool) -> str:
    if known:
        which = (
            [] if file == DEFAULT_FILES[0] else ["-f", str(file)]
        )  # shells don't expand a quoted ~
        forget = shlex.join(["ssh-keygen", *which, "-R", name])
        return (
            "somebody else may be answering there; if its owner says that the key has changed:"
            f" {forget}, then log in once with {visit} and compare the fingerprint"
        )
    again = f"log in once with {visit}, compare the fingerprint with what its owner says, and"
    if authority:
        return (
            f"{file} has only a @cert-authority for it, and OSMeF checks no certificates of hosts:"
            " add the key of the server itself"
        )
    return f"{again} let ssh add the key to {file}"


def _lines(file: Path) -> Iterator[Line]:
    try:
        text = read_text_file(file.expanduser(), _MOST_BYTES, errors="replace")
    except (FileNotFoundError, RuntimeError):  # or there is no such home
        return
    except OSError as error:
        message = f"can't be read: {error.strerror}"
        cure = error.cure if isinstance(error, UnfitFileError) else "check its permissions"
        raise CredentialsError(message, where=str(file), cure=cure) from None
    for line in text.splitlines():
        words = line.split()
        mark = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) >= 3 and not words[0].startswith("#") and _is_key(*words[1:3]):
            yield mark, words[0], f"{words[1]} {words[2]}"


def _is_key(kind: str, blob: str) -> bool:
    """Return whether a key is complete: its blob begins with its type (RFC 4253, 6.6)."""
    try:
        data = base64.b64decode(blob, validate=True)
    except ValueError:
        return False
    return data.startswith(len(kind).to_bytes(4, "big") + kind.encode())


def _is_one_of(name: str, hosts: str) -> bool:
    """Return whether a list of patterns matches a name; a negated match excludes it."""
    found = False
    for pattern in hosts.lower().split(",") if not hosts.startswith("|") else [hosts]:
        if _matches(name, pattern.removeprefix("!")):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def _matches(name: str, pattern: str) -> bool:
    if pattern.startswith("|1|"):
        try:
            salt, digest = (
                base64.b64decode(part, validate=True) for part in pattern.split("|")[2:]
            )
        except ValueError:
            return False
        return hmac.compare_digest(hmac.digest(salt, name.encode(), hashlib.sha1), digest)
    # A bracket is no wildcard here, but part of [host]:port.
    return fnmatchcase(name, re.sub(r"\[", "[[]", pattern))


CONFIG_FILES = (Path("~/.ssh/config"), Path("/etc/ssh/ssh_config"))

_PARTS = re.compile(
    r"(?:(?P<user>[^@\s]+)@)?(?:\[(?P<v6>[^]\s]+)\]|(?P<host>[^]\[:@\s]+))(?::(?P<port>[0-9]+))?"
)
_MOST_JUMPS = 8
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_OF_A_SHELL = set("|&;<>()$`*?~\n")


def find_login(
    name: str,
    ssh: str,
    *,
    identity: str | None = None,
    jump: str | None = None,
    known_hosts: str | None = None,
) -> Login:
    """Resolve an ssh destination, written ``[USER@]HOST[:PORT]``, to a login.

    HOST is an alias, a name, an IPv4 address, or an IPv6 address in brackets. ``identity`` and
    ``known_hosts`` are files, ``jump`` is one or several destinations with commas between them;
    each overrides OpenSSH's configuration. ``known_hosts`` holds for the jump hosts, too. Connects
    to nothing. Raises CredentialsError.
    """
    hosts = None if known_hosts is None else (in_home(known_hosts),)
    _check_own_name(name)
    try:
        login = _Search(hosts).login(name, ssh, jump, _MOST_JUMPS)
    except (ValueError, KeyError, paramiko.SSHException) as error:
        raise CredentialsError(
            f"OpenSSH's configuration makes no sense for {ssh}: {error}",
            where=name,
            cure="try it with ssh itself: ssh -G HOST",
        ) from None
    if identity is None:
        return login
    return replace(login, key=OwnKeys((in_home(identity),), others_of_agent=False))


def _check_own_name(name: str) -> None:
    """Raise CredentialsError for a user without a name: of a container's any number, say."""
    try:
        getpass.getuser()
    except (KeyError, OSError):  # the latter from Python 3.13 on
        raise CredentialsError(
            f"the user with the number {os.getuid()} has no name here, and SSH logs in by names",
            where=name,
            cure="set one, such as USER=me, or add the user to /etc/passwd",
        ) from None


def host_name_of(ssh: str, jump: str | None = None) -> str | None:
    """Return the name or address that a destination leads to by OpenSSH's configuration.

    None where a ProxyCommand may lead elsewhere, and where the configuration makes no sense.
    """
    parts = _PARTS.fullmatch(ssh.removeprefix("ssh://"))
    if parts is None:
        return None
    try:
        options = _options(parts)
    except (ValueError, KeyError, RuntimeError, paramiko.SSHException, CredentialsError):
        return None
    jumps = (jump or options.get("proxyjump", "none")).lower() != "none"
    return None if "proxycommand" in options and not jumps else options["hostname"]


@dataclass(frozen=True)
class _Search:
    known_hosts: tuple[Path, ...] | None

    def login(self, name: str, ssh: str, jump: str | None, left: int) -> Login:
        parts = _PARTS.fullmatch(ssh.removeprefix("ssh://"))
        if parts is None:
            cure = "check how it is written"
            raise CredentialsError("is no [user@]host[:port]", where=ssh, cure=cure)
        options = _options(parts)
        address, port = options["hostname"], int(options.get("port", SSH_PORT))
        if not 0 < port < 65536:
            raise ValueError(f"the port {port}")
        before = self._jump(name, jump or options.get("proxyjump", "none"), left)
        command = options.get("proxycommand") if before is None else None
        files = tuple(map(_path, options.get("identityfile", [])))
        only = options.get("identitiesonly", "no").lower() == "yes"
        known = self.known_hosts or _known_hosts(options)
        visit = self._visit(parts, jump)
        return Login(
            name=name,
            user=options.get("user") or getpass.getuser(),
            address=address,
            host_keys=known_keys(address, port, known, options.get("hostkeyalias", ""), visit),
            key=OwnKeys(files, others_of_agent=not only),
            port=port,
            jump=before,
            connect=None if command is None else partial(_through, _argv(name, command)),
        )

    def _visit(self, parts: re.Match[str], jump: str | None) -> str:
        """Return the command that does the same, which needs the same names and files."""
        files = (f"-oUserKnownHostsFile={self.known_hosts[0]}",) if self.known_hosts else ()
        port = ("-p", parts["port"]) if parts["port"] else ()
        way = ("-J", jump) if jump else ()
        user = f"{parts['user']}@" if parts["user"] else ""
        return shlex.join(["ssh", *files, *port, *way, f"{user}{parts['v6'] or parts['host']}"])

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
        return DEFAULT_FILES
    files = tuple(_path(file) for file in shlex.split(named) if file.lower() != "none")
    return files or DEFAULT_FILES


def _path(written: str) -> Path:
    """Expand ``~`` and variables in a path of the configuration."""
    return in_home(_VARIABLE.sub(lambda one: os.environ.get(one[1], one[0]), written))


def _options(parts: re.Match[str]) -> paramiko.SSHConfigDict:
    """Return a host's options by the files; those of the destination have precedence.

    So a Match sees its user, and a ProxyCommand its port.
    """
    written = [("port", parts["port"]), ("user", parts["user"])]
    lines = [EVERYWHERE, *(f"{key} {value}" for key, value in written if value)]
    for file in map(Path.expanduser, CONFIG_FILES):
        # A block of its own for each file: lines before its first Host are for all hosts.
        lines += [EVERYWHERE, *read_config(file)]
    return paramiko.SSHConfig.from_text("\n".join(lines)).lookup(parts["v6"] or parts["host"])


def _argv(name: str, command: str) -> list[str]:
    if _OF_A_SHELL & set(command):
        raise CredentialsError(
            "its ProxyCommand needs a shell, and OSMeF runs none",
            where=name,
            cure="use ProxyJump, a plain command, or write jump in the inventory",
        )
    return shlex.split(command)


def _through(argv: list[str]) -> socket.socket:
    """Connect through a ProxyCommand."""
    here, there = socket.socketpair()
    with there:
        end = there.fileno()
        try:
            # Ctrl-C is not meant for it, while the run still cleans up.
            program = start_in_new_session(argv, stdin=end, stdout=end, stderr=subprocess.DEVNULL)
        except OSError:
            here.close()
            raise
    threading.Thread(target=program.wait, name="proxy", daemon=True).start()
    return here
