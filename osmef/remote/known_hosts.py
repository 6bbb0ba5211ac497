"""OpenSSH's known_hosts: which keys a server may show (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import shlex
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from osmef.errors import CredentialsError
from osmef.named_file import UnfitFileError, read_text_file
from osmef.remote.login import SSH_PORT, HostKeys

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
    """Return the keys that the files hold for a server, under its alias if it has one.

    ``visit`` is the command by which its user logs in there, if that is not the address alone.

    None may be known; a server is then refused when it is connected to, with what it showed.
    Files that are not there hold nothing. Raises CredentialsError for one that can't be read.
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
        which = [] if file == DEFAULT_FILES[0] else ["-f", str(file)]  # no shell knows a quoted ~
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
    except (FileNotFoundError, RuntimeError):  # or nobody has such a home
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
    """Tell a whole key from a torn line: the blob begins with its own type (RFC 4253, 6.6)."""
    try:
        data = base64.b64decode(blob, validate=True)
    except ValueError:
        return False
    return data.startswith(len(kind).to_bytes(4, "big") + kind.encode())


def _is_one_of(name: str, hosts: str) -> bool:
    """Tell whether a list of patterns means a name; one that is negated rules the line out."""
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
