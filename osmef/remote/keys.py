"""The keys that an endpoint's sshd lets in: a run's own pair in memory, or the user's own keys."""

from __future__ import annotations

import base64
import contextlib
import io
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from paramiko.pkey import UnknownKeyType

DEFAULT_FILES = tuple(Path("~/.ssh", name) for name in ("id_ed25519", "id_ecdsa", "id_rsa"))
"""The files that OpenSSH looks for where none is named."""

AGENT_TIMEOUT_S = 15.0  # a key may want to be touched
_MAGIC = b"openssh-key-v1\0"


@dataclass(frozen=True)
class Offers:
    """Keys to log in with, each under a name for messages, and why others can't be used."""

    keys: list[tuple[str, paramiko.PKey]]
    unusable: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class KeyPair:
    """An Ed25519 key pair in OpenSSH's formats. The private half is never written to a disk."""

    private: str
    public: str

    @classmethod
    def generate(cls, comment: str) -> KeyPair:
        """Make a new pair; the comment ends the public line."""
        key = Ed25519PrivateKey.generate()
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        ).decode()
        public = (
            key.public_key()
            .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
            .decode()
        )
        return cls(private, f"{public} {comment}")

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public!r})"

    def paramiko(self) -> paramiko.PKey:
        """Return the private half as paramiko takes it."""
        return paramiko.Ed25519Key(file_obj=io.StringIO(self.private))

    @contextlib.contextmanager
    def offers(self) -> Iterator[Offers]:
        """Offer the pair."""
        yield Offers([("the key of the run", self.paramiko())])


@dataclass(frozen=True)
class OwnKeys:
    """The user's own keys: those of ``files``, then all that an SSH agent holds.

    A file that is encrypted is used through the agent, if that holds its key. With
    ``others_of_agent=False`` nothing else of the agent is shown. No passphrase is ever asked for.
    """

    files: tuple[Path, ...] = ()
    others_of_agent: bool = True

    @contextlib.contextmanager
    def offers(self) -> Iterator[Offers]:
        """Offer the keys for as long as the connection to the agent stands."""
        try:
            agent = _Agent()
        except (OSError, paramiko.SSHException) as error:
            why = "it does not answer" if isinstance(error, TimeoutError) else error
            yield self._choose({}, f"the SSH agent can't be used: {why}")
            return
        try:
            yield self._choose({key.asbytes(): key for key in agent.get_keys()}, None)
        finally:
            agent.close()

    def _choose(self, held: Mapping[bytes, paramiko.PKey], trouble: str | None) -> Offers:
        offers = Offers([], [trouble] if trouble else [])
        left = dict(held)
        for path in self.files or (path for path in map(Path.expanduser, DEFAULT_FILES)):
            public = _public_of(path)
            if public in left:
                offers.keys.append((f"{path} in the agent", left.pop(public)))
                continue
            if not self.files and not path.exists():
                continue
            try:
                offers.keys.append((str(path), _load(path)))
            except ValueError as error:
                offers.unusable.append(f"{path} {error}")
        if self.others_of_agent:
            offers.keys.extend(("a key of the agent", key) for key in left.values())
        return offers


class _Agent(paramiko.Agent):
    """The user's agent, or none; paramiko's own would wait for ever for one that hangs."""

    def _connect(self, conn: socket.socket) -> None:
        conn.settimeout(AGENT_TIMEOUT_S)
        try:
            super()._connect(conn)  # type: ignore[misc] # the stubs leave it out
        except BaseException:
            conn.close()
            raise


def _load(path: Path) -> paramiko.PKey:
    """Read a private key. Raises ValueError, whose text goes on after the file's name."""
    try:
        return paramiko.PKey.from_path(path)
    except OSError as error:
        raise ValueError(f"can't be read: {error.strerror}") from None
    except (TypeError, paramiko.PasswordRequiredException):  # how the libraries say "encrypted"
        raise ValueError("is encrypted, and no SSH agent holds it (ssh-add)") from None
    except (ValueError, UnsupportedAlgorithm, paramiko.SSHException, UnknownKeyType):
        raise ValueError("holds no private key that can be used") from None


def _public_of(path: Path) -> bytes | None:
    """Return the public key in a file of OpenSSH's, as an agent names it.

    Either the file holds nothing else, or a private key, beside which the public one is never
    encrypted (OpenSSH, PROTOCOL.key).
    """
    try:
        text = path.read_text(encoding="ascii")
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
