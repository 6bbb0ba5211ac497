"""A process that goes on when its terminal is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from osmef.errors import StorageError
from osmef.programs import start_apart
from osmef.results.files import storage

# A program that begins on a slow machine reads its files for some seconds.
_BEGINS_S = 60.0
_LOOK_S = 0.1
_LAST_WORDS = 2000


def start_in_background(
    arguments: Sequence[str], more: Mapping[str, str], log: Path, begun: Callable[[int], bool]
) -> int:
    """Start ``osmef`` with these arguments in a session of its own; return the process's id.

    ``more`` goes into its environment, which only its user can read. What it prints goes to the end
    of ``log``. Returns once ``begun`` says so of its id. Raises StorageError if it ends before.
    """
    with storage("write the log of the campaign", log):
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab", opener=_through_no_link) as file:
            told = file.tell()
            process = start_apart(
                [sys.executable, "-m", "osmef", *arguments],
                env={**os.environ, **more},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
    end = time.monotonic() + _BEGINS_S
    while time.monotonic() < end and process.poll() is None and not begun(process.pid):
        time.sleep(_LOOK_S)
    if process.poll() is None:
        process.returncode = 0  # it outlives us: nobody waits for it here
    elif process.returncode != 0:
        text = log.read_bytes()[told:].decode(errors="replace").strip()
        raise StorageError(
            f"it ended at once: {text[-_LAST_WORDS:]}", where=str(log), cure="mend that"
        )
    return process.pid


def _through_no_link(path: str, flags: int) -> int:
    """Open a log, which may be in a directory that others write to."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)
