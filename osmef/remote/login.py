"""Login to an endpoint: address, accepted host keys, and keys of the run or of the user."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from osmef.errors import HostKeyError

if TYPE_CHECKING:
    import paramiko

    from osmef.remote.session import SshSession


@dataclass(frozen=True)
class KeyPair:
    """An Ed25519 key pair in OpenSSH's formats. The private key is never on a disk."""

    private: str
    public: str

    @classmethod
    def generate(cls, comment: str) -> KeyPair:
        """Generate a pair; the comment is at the end of the public line."""
        # slow to load, and `osmef validate` and `osmef plan` connect to nothing
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
            Ed25519PrivateKey,
        )

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


@dataclass(frozen=True)
class OwnKeys:
    """The user's own keys: those of ``files``, then those of an SSH agent.

    A file that is encrypted is used through the agent, if that holds its key. With
    ``others_of_agent=False`` nothing else of the agent is shown. No passphrase is ever asked for.
    """

    files: tuple[Path, ...] = ()
    others_of_agent: bool = True


SSH_PORT = 22
SLOW_SHELL_CURE = (
    "the login's shell starts every program, and reads its start files (~/.bashrc) first: see how"
    " long `ssh HOST true` takes, and let them do nothing where the shell is not interactive; or"
    " have bash not read them there: `AcceptEnv SHLVL` in sshd_config"
)
"""Added if sshd has started a program, and there is no output of it."""


@dataclass(frozen=True)
class HostKeys:
    """The accepted host keys of a server, in OpenSSH's format ("ssh-ed25519 AAAA...").

    Without accepted keys every server is refused, and the error has the key that it showed.
    ``source`` is where the keys come from, and ``cure`` what to do if a server shows another key.
    """

    accepted: tuple[str, ...]
    revoked: tuple[str, ...] = ()
    source: str = "the provider"
    cure: str = "somebody else may be answering at this address; find out who before you go on"

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the accepted keys."""
        return tuple(dict.fromkeys(key.split()[0] for key in self.accepted))

    def verify(self, shown: paramiko.PKey, where: str) -> None:
        """Raise HostKeyError unless a server's key is accepted."""
        blob = shown.get_base64()
        message = f"the server shows the host key {shown.get_name()} {shown.fingerprint},"
        if blob in (key.split()[1] for key in self.revoked):
            cure = "this key must not be used any more: give the machine a new one first"
            raise HostKeyError(f"{message} which {self.source} revokes", where=where, cure=cure)
        if blob in (key.split()[1] for key in self.accepted):
            return
        what = "which is not the one that" if self.accepted else "and no key of it is known to"
        end = f"{what} {self.source}" + (" has for it" if self.accepted else "")
        raise HostKeyError(f"{message} {end}", where=where, cure=self.cure)


@dataclass(frozen=True)
class SshTimeouts:
    """Time-outs of a session, in seconds.

    ``handshake_s`` is for each step of sshd until the login, ``agent_s`` for the user's SSH agent
    to list its keys. ``answer_s`` is for sshd to start a program, ``command_s`` for output of that,
    or for a file to be written or read.
    """

    handshake_s: float = 20.0
    agent_s: float = 5.0
    answer_s: float = 20.0
    command_s: float = 30.0


@dataclass(frozen=True)
class Login:
    """Login to an endpoint.

    ``key`` is the run's own pair, or the user's own keys. ``jump`` is the login of a jump host,
    which may have one itself. ``connect`` opens the TCP connection if that is not just address and
    port; it raises OSError. ``waits`` are the timeouts of the connection and of its operations.
    ``kept`` is a session that its owner closes; while it is open, it is shared instead of opening a
    new one.
    """

    name: str
    user: str
    address: str
    host_keys: HostKeys
    key: KeyPair | OwnKeys
    port: int = SSH_PORT
    jump: Login | None = None
    connect: Callable[[], socket.socket] | None = field(default=None, compare=False)
    waits: SshTimeouts = field(default_factory=SshTimeouts)
    kept: SshSession | None = field(default=None, compare=False, repr=False)

    @property
    def socket_address(self) -> str:
        """Address and port, for messages."""
        return f"{self.address} port {self.port}"
