"""Tools on the controller: limited in time and output, and killed as a group."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from osmef.errors import SupplyError
from osmef.units import format_duration

_LOOK_S = 0.2
_ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT
_KEPT_BYTES = 1 << 20
_TAIL_LINES = 15
_TAIL_CHARACTERS = 1500


@dataclass(frozen=True)
class ToolRunner:
    """Runner of tools for one purpose."""

    where: str
    """What they are run for, as errors name it."""
    environment: Mapping[str, str]
    directory: Path
    check: Callable[[], None] = field(default=lambda: None)
    """Called again and again; what it raises ends the tool."""
    most_s: float = 600.0
    """How long all of them may take together, from when this was made."""
    most_bytes: int = 64 << 20
    """Of what one prints."""
    prefix: tuple[str, ...] = ()
    """What starts it, such as unshare."""
    began: float = field(default_factory=time.monotonic)

    def run(self, argv: Sequence[str]) -> str:
        """Run a tool to its end, and return the last MiB of its output, errors included.

        Raises SupplyError with the end of what it said.
        """
        try:
            process = subprocess.Popen(
                [*self.prefix, *argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=dict(self.environment),
                cwd=self.directory,
            )
        except OSError as error:
            cure = "install it on this machine"
            raise self._failed(argv, f"can't be started: {error.strerror}", "", cure) from error
        with process:
            try:
                said = self._follow(process, argv)
                # One that has closed its output may go on. It is not waited for before its group
                # is killed, so that its number can't be another's.
                while os.waitid(os.P_PID, process.pid, _ENDED) is None:
                    self._look(argv, "")
                    time.sleep(_LOOK_S)
            finally:
                _end(process)
        text = said.decode(errors="replace")
        if process.returncode != 0:
            raise self._failed(argv, f"failed ({_how(process.returncode)})", text)
        return text

    def _follow(self, process: subprocess.Popen[bytes], argv: Sequence[str]) -> bytearray:
        """Read a tool's output to its end."""
        assert process.stdout is not None  # noqa: S101 - it was started with a pipe
        output, said, count = process.stdout.fileno(), bytearray(), 0
        while True:
            self._look(argv, said.decode(errors="replace"))
            if not select.select([output], [], [], _LOOK_S)[0]:
                continue
            data = os.read(output, 65536)
            if not data:
                return said
            count += len(data)
            said += data
            del said[:-_KEPT_BYTES]
            if count > self.most_bytes:
                told = f"printed more than {self.most_bytes >> 20} MiB"
                raise self._failed(argv, told, said.decode(errors="replace"))

    def _look(self, argv: Sequence[str], said: str) -> None:
        self.check()
        if time.monotonic() - self.began > self.most_s:
            raise self._failed(argv, f"is not done after {format_duration(self.most_s)}", said)

    def _failed(
        self, argv: Sequence[str], how: str, said: str, cure: str | None = None
    ) -> SupplyError:
        lines = [line for line in said.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("E: ")] or lines[-_TAIL_LINES:]
        tail = "\n".join(errors)[-_TAIL_CHARACTERS:]
        message = f"{Path(argv[0]).name} {how}" + (f":\n{tail}" if tail else "")
        return SupplyError(message, where=self.where, cure=cure or "read what it said")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group of a tool."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _how(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"exit status {code}"
