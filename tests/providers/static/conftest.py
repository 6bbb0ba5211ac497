"""Machines for the tests: real sshds on ports of the loopback."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from osmef.providers.static import lock
from osmef.remote.login import Login
from tests.sshd import Sshd


@dataclass
class Machine:
    """A machine and its line of an inventory."""

    sshd: Sshd
    login: Login
    entry: dict[str, object]


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Machine]]:
    """Make a machine of a name. Only root can make several with a lock of its own on each."""
    if os.geteuid() != 0:
        monkeypatch.setattr(lock, "PATH", str(tmp_path / "lock"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    made: list[Machine] = []
    with ExitStack() as stack:

        def make(name: str) -> Machine:
            folder = tmp_path / name
            folder.mkdir()
            sshd = Sshd(folder)
            stack.callback(sshd.close)
            login = stack.enter_context(sshd.listening())
            at = f"{login.address}]:{login.port}"
            (folder / "known_hosts").write_text(f"[{at} {sshd.host.public}\n")
            (folder / "key").write_text(sshd.user.private)
            entry: dict[str, object] = {
                "ssh": f"{login.user}@{login.address}:{login.port}",
                "identity": str(folder / "key"),
                "known_hosts": str(folder / "known_hosts"),
            }
            made.append(Machine(sshd, login, entry))
            return made[-1]

        yield make
