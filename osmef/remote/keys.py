"""SSH key pairs that live in memory for one run."""

from __future__ import annotations

import io
from dataclasses import dataclass

import paramiko
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


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
