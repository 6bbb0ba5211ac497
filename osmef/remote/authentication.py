"""Keys for public-key authentication: a run's own pair, or the user's files and SSH agent."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from paramiko.agent import AgentSSH
from paramiko.pkey import UnknownKeyType

from osmef.named_file import read_file
from osmef.remote.keys import KeyPair, OwnKeys

DEFAULT_FILES = tuple(Path("~/.ssh", name) for name in ("id_ed25519", "id_ecdsa", "id_rsa"))
"""The files that OpenSSH looks for where none is named."""

_SIGN_S = 20.0  # the key may be one that wants to be touched
_MOST_BYTES = 64 << 10
_CERTIFICATE = "-cert.pub"
_MAGIC = b"openssh-key-v1\0"


@dataclass(frozen=True)
class Offers:
    """Keys to offer, each with a name for messages, and why others are unusable."""

    keys: list[tuple[str, paramiko.PKey]]
    unusable: list[str] = field(default_factory=list)


@contextlib.contextmanager
def offers_of(key: KeyPair | OwnKeys, agent_s: float) -> Iterator[Offers]:
    """Provide the keys of a login, for as long as the SSH agent is connected.

    An agent that has not listed its keys after ``agent_s`` seconds is done without.
    """
    if isinstance(key, KeyPair):
        yield Offers([("the key of the run", pkey_of(key))])
        return
    try:
        agent = _Agent(agent_s)
    except (OSError, paramiko.SSHException) as error:
        hangs = isinstance(error, TimeoutError | BlockingIOError)
        why = "it does not answer" if hangs else error
        yield _choose(key, {}, f"the SSH agent can't be used: {why}")
        return
    try:
        yield _choose(key, {one.asbytes(): one for one in agent.get_keys()}, None)
    finally:
        agent.close()


def pkey_of(pair: KeyPair) -> paramiko.PKey:
    """Return the private key as paramiko's type."""
    return paramiko.Ed25519Key(file_obj=io.StringIO(pair.private))


def _choose(own: OwnKeys, held: Mapping[bytes, paramiko.PKey], trouble: str | None) -> Offers:
    offers = Offers([], [trouble] if trouble else [])
    left = dict(held)
    for path in own.files or (path for path in map(Path.expanduser, DEFAULT_FILES)):
        public = _public_of(path)
        if public in left:
            offers.keys.append((f"{path} in the agent", left.pop(public)))
            continue
        if not own.files and not path.exists():
            continue
        try:
            offers.keys.append((str(path), _load(path)))
        except ValueError as error:
            offers.unusable.append(f"{path} {error}")
    if own.others_of_agent:
        offers.keys.extend(("a key of the agent", one) for one in left.values())
    return offers


class _Agent(AgentSSH):
    """The user's SSH agent, or none. Raises OSError or SSHException on a time-out.

    paramiko's own class would wait for ever.
    """

    def __init__(self, list_s: float) -> None:
        super().__init__()
        path = os.environ.get("SSH_AUTH_SOCK")
        if path is None:
            return
        agent = socket.socket(socket.AF_UNIX)
        agent.settimeout(list_s)
        try:
            agent.connect(path)
            self._connect(agent)  # type: ignore[attr-defined] # the stubs leave it out
            agent.settimeout(_SIGN_S)
        except (ConnectionRefusedError, FileNotFoundError):  # it is gone
            agent.close()
        except BaseException:
            agent.close()
            raise

    def close(self) -> None:
        """Close the connection to the agent."""
        self._close()  # type: ignore[attr-defined]


def _load(path: Path) -> paramiko.PKey:
    """Load a private key. Raises ValueError, whose text continues the file's name."""
    try:
        for file in _files_of(path):
            read_file(file, _MOST_BYTES)  # paramiko would read anything
        return paramiko.PKey.from_path(path)
    except OSError as error:
        raise ValueError(f"can't be read: {error.strerror}") from None
    except (TypeError, paramiko.PasswordRequiredException):  # how the libraries say "encrypted"
        raise ValueError("is encrypted, and no SSH agent holds it (ssh-add)") from None
    except (ValueError, UnsupportedAlgorithm, paramiko.SSHException, UnknownKeyType):
        raise ValueError("holds no private key that can be used") from None


def _files_of(path: Path) -> list[Path]:
    """Return the key file and, if it exists, its certificate."""
    key = path.with_name(path.name.removesuffix(_CERTIFICATE))
    certificate = key.with_name(key.name + _CERTIFICATE)
    return [key, certificate] if certificate.exists() else [key]


def _public_of(path: Path) -> bytes | None:
    """Return the public key in an OpenSSH file, as an agent identifies it.

    Either the file holds nothing else, or a private key, beside which the public one is never
    encrypted (OpenSSH, PROTOCOL.key).
    """
    try:
        text = read_file(path, _MOST_BYTES).decode("ascii")
        if not text.startswith("-----"):
            return base64.b64decode(text.split()[1])
        data = base64.b64decode("".join(text.splitlines()[1:-1]))
    except (OSError, ValueError, IndexError):
        return None
    if not data.startswith(_MAGIC):
        return None
    fields = paramiko.Message(data[len(_MAGIC) :])
    for _ in ("cipher", "key derivation", "its options"):
        fields.get_binary()
    fields.get_int()  # how many keys; it is always one
    return fields.get_binary()
