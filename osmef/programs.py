"""System programs: lookup, and start in a session that Ctrl-C does not reach."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from osmef.errors import ProviderError

SYSTEM_DIRECTORIES = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin")


def search_path() -> str:
    """Return PATH with the directories of system programs appended."""
    directories = [*os.environ.get("PATH", "").split(os.pathsep), *SYSTEM_DIRECTORIES]
    return os.pathsep.join(filter(None, directories))


def find_program(name: str, package: str, where: str) -> str:
    """Return the path of a system program, in PATH or a system directory.

    ``where`` is what needs it. Raises ProviderError that names the Debian package.
    """
    path = shutil.which(name, path=search_path())
    if path is None:
        raise ProviderError(
            f"no {name} on this machine, and it can't be done without",
            where=where,
            cure=f"apt install {package}, or your system's package of it",
        )
    return str(Path(path).absolute())


TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGHUP)
"""What a terminal sends to all processes of the job that runs in it."""


def start_in_new_session(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program in a new session, with the arguments of ``subprocess.Popen``.

    No signal of the terminal reaches it, also not between its first moment, in our session, and its
    own: it has them blocked, and may unblock them. Raises OSError.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, TERMINAL_SIGNALS)
    try:
        return subprocess.Popen(argv, start_new_session=True, **options)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
