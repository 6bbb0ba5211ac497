"""A PostgreSQL server of our own for tests, on a socket in a directory of its own."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

_ACCOUNTS = ("postgres", "nobody")
"""Who runs it where the tests are root's: initdb refuses root."""


@dataclass
class Postgres:
    """A server with one user and no password, which nobody reaches but through its directory."""

    programs: Path
    place: Path
    account: dict[str, int]
    process: subprocess.Popen[str] | None = None
    numbers: Iterator[int] = field(default_factory=count)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = ["-D", "data", "-k", str(self.place), "-h", "", "-F"]
        self.process = subprocess.Popen(
            [self.programs / "postgres", *options],
            cwd=self.place,
            stderr=subprocess.PIPE,
            text=True,
            env={"LC_ALL": "C"},
            **self.account,  # type: ignore[call-overload]  # user and group
        )
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if "ready to accept connections" in line:
                return
        raise AssertionError("it ended")

    def stop(self) -> None:
        """End it as a crash of the machine does; its data stay."""
        assert self.process is not None
        assert self.process.stderr is not None
        self.process.send_signal(3)  # SIGQUIT: at once, without tidying up (server-shutdown)
        self.process.wait()
        self.process.stderr.close()

    def new_database(self, encoding: str = "UTF8") -> str:
        """Make a database, and return its URL."""
        url = self.url(name := f"test_{next(self.numbers)}")
        server = ["-h", str(self.place), "-U", "osmef"]
        new = ["-E", encoding, "-T", "template0", name]
        subprocess.run([str(self.programs / "createdb"), *server, *new], check=True, cwd="/")
        return url

    def url(self, name: str) -> str:
        """Return the URL of a database, whether it exists or not."""
        return f"postgresql+psycopg://osmef@/{name}?host={self.place}"


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a server as long as the context lasts; skip where it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = found[-1] if found else Path(shutil.which("initdb") or "")
    if not initdb.name:
        pytest.skip("no PostgreSQL here (Debian: apt install postgresql)")
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("no psycopg here (pip install 'osmef[postgresql]')")
    place = Path(tempfile.mkdtemp(prefix="osmef-postgres-"))  # a socket's path is 107 bytes long
    try:
        account: dict[str, int] = {}
        if os.geteuid() == 0:
            user = next(pwd.getpwnam(name) for name in _ACCOUNTS if _is_there(name))
            account = {"user": user.pw_uid, "group": user.pw_gid}
            os.chown(place, user.pw_uid, user.pw_gid)
        command = [
            str(initdb),
            "-D",
            "data",
            "-A",
            "trust",
            "-U",
            "osmef",
            "-E",
            "UTF8",
            "--no-sync",
        ]
        subprocess.run(
            command,
            check=True,
            cwd=place,
            env={"LC_ALL": "C"},
            stdout=subprocess.DEVNULL,
            **account,  # type: ignore[call-overload]  # user and group
        )
        server = Postgres(initdb.parent, place, account)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(place)


def _is_there(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
