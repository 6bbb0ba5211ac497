"""Run the system's tools that build an image, in namespaces that end with them."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from osmef.errors import ProviderError
from osmef.programs import find_program, search_path, start_apart

WHERE = "osmef image build"
_LOOK_S = 0.2
_END_S = 10.0
_TAIL_LINES = 12
_SAID = 300
# Where the tools look for nothing but what they are told.
_ENVIRONMENT = {"LC_ALL": "C", "INITRD": "No"}


@dataclass(frozen=True)
class Workshop:
    """How tools are run: ``check`` is called again and again while they do, and may raise.

    ``prefix`` starts a command as root of namespaces of its own: whatever the tool mounts or
    starts is gone when it ends, also if it is killed or this process is (setpriv, unshare(1)).
    """

    prefix: tuple[str, ...]
    check: Callable[[], None]

    def run(self, argv: Sequence[str], on_line: Callable[[str], None] = lambda _line: None) -> None:
        """Run a tool to its end. Raises ProviderError with the end of what it said."""
        tail: list[str] = []

        def hear(line: str) -> None:
            tail.append(line)
            del tail[:-_TAIL_LINES]
            on_line(line)

        process = start_apart(
            [*self.prefix, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **_ENVIRONMENT, "PATH": search_path()},
        )
        with process:
            try:
                self._follow(process, hear)
            except BaseException:
                process.kill()
                _drain(process)
                raise
        if process.returncode != 0:
            errors = [line for line in tail if line.startswith("E: ")] or tail[-3:]
            raise ProviderError(
                f"{Path(argv[0]).name} failed: {' / '.join(errors)[:_SAID]}",
                where=WHERE,
                cure=_cure("\n".join(tail)),
            )

    def _follow(self, process: subprocess.Popen[bytes], hear: Callable[[str], None]) -> None:
        rest = b""
        while True:
            self.check()
            if not _readable(process, _LOOK_S):
                continue
            data = os.read(_output(process), 65536)
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                hear(line.decode(errors="replace").strip())
            if not data:
                return


def open_workshop(check: Callable[[], None]) -> Workshop:
    """Find out how this user can run tools as root of their own. Raises ProviderError."""
    setpriv = find_program("setpriv", "util-linux", WHERE)
    unshare = find_program("unshare", "util-linux", WHERE)
    user: tuple[str, ...] = ()
    if os.geteuid() != 0:
        find_program("newuidmap", "uidmap", WHERE)
        user = ("--user", "--map-root-user", "--map-auto")
    spaces = ("--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc")
    workshop = Workshop((setpriv, "--pdeathsig", "KILL", unshare, *user, *spaces), check)
    try:
        workshop.run(["true"])
    except ProviderError as error:
        raise ProviderError(
            f"this machine does not let this user make namespaces: {error.message}",
            where=WHERE,
            cure="run it as root; or see that /etc/subuid and /etc/subgid have a line for this"
            " user, and that user namespaces are allowed",
        ) from error
    return workshop


def _output(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None  # noqa: S101 - it was started with a pipe
    return process.stdout.fileno()


def _readable(process: subprocess.Popen[bytes], seconds: float) -> bool:
    return bool(select.select([_output(process)], [], [], seconds)[0])


def _drain(process: subprocess.Popen[bytes]) -> None:
    """Wait until the last process that could write has ended, and with it the namespaces."""
    with contextlib.suppress(OSError):
        while _readable(process, _END_S) and os.read(_output(process), 65536):
            pass


def _cure(said: str) -> str:
    for words, cure in _CURES.items():
        if words in said:
            return cure
    return "read what it said; `apt-get update` and a retry mend what the network broke"


_CURES = {
    "No space left": "free some space on that disk, or give another --output",
    "Could not allocate": "give the image more room: --size 4GiB",
    "Unable to locate package": "look at the names of --packages: apt-cache search WORD",
    "Temporary failure resolving": "is the package registry reachable? try: apt-get update",
    "Could not connect": "is the package registry reachable? try: apt-get update",
    "NO_PUBKEY": "apt install debian-archive-keyring",
    "does not have a Release file": "look at --suite: does the registry have that release?",
}
