"""Put the agent on an endpoint: find the binary for its architecture, push it, check it."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from osmef.errors import AgentError, ReachError

if TYPE_CHECKING:  # paramiko takes long to import, and `osmef validate` knows workloads, too
    from osmef.remote.session import Session

AGENT = "osmef-agent"
"""The agent's name on an endpoint."""

_BINARIES = Path(__file__).parent / "bin"
# What `uname -m` says on systems that run another architecture's programs just as well.
_SAME_AS = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Binary:
    """The agent's binary: its content and its SHA-256."""

    machine: str
    data: bytes
    sha256: str


@dataclass(frozen=True)
class Deployment:
    """An agent on an endpoint; paths are relative to the login's home."""

    directory: str
    path: str
    binary: Binary


@cache
def find_binary(machine: str) -> Binary:
    """Return the agent for an architecture as ``uname -m`` names it. Raises AgentError."""
    machine = _SAME_AS.get(machine, machine)
    path = _BINARIES / f"{AGENT}-{machine}"
    try:
        data = path.read_bytes()
    except OSError:
        have = sorted(p.name.removeprefix(f"{AGENT}-") for p in _BINARIES.glob(f"{AGENT}-*"))
        raise AgentError(
            f"no agent for {machine!r} is installed, only for: {', '.join(have) or 'none'}",
            cure="install OSMeF from a wheel, or build all agents in its source tree: make agents",
        ) from None
    return Binary(machine, data, hashlib.sha256(data).hexdigest())


def deploy(session: Session, directory: str) -> Deployment:
    """Push the agent into a directory of its own and read it back to check its hash.

    Raises AgentError or ReachError.

    The endpoint needs nothing but ``uname``, a home and sshd's file transfer. After an error
    nothing stays there, as far as it can still be reached.
    """
    binary = find_binary(session.word(["uname", "-m"]))
    path = f"{directory}/{AGENT}"
    try:
        session.put(binary.data, path, 0o700)
        _check(session, path, binary)
    except BaseException:
        with contextlib.suppress(ReachError):
            session.remove_directory(directory)
        raise
    return Deployment(directory, path, binary)


def _check(session: Session, path: str, binary: Binary) -> None:
    found = hashlib.sha256(session.read(path, len(binary.data) + 1)).hexdigest()
    if found != binary.sha256:
        raise AgentError(
            f"the pushed agent has the hash {found}, not {binary.sha256}",
            where=session.name,
            cure="is the endpoint's disk full or failing?",
        )
