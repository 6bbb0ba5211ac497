"""Keys for endpoints: a run's own pair in memory, or the user's own keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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
