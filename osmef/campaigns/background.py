"""A process that goes on when its terminal is gone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from osmef.results.files import storage


def start_in_background(arguments: Sequence[str], log: Path) -> int:
    """Start ``osmef`` with these arguments in a session of its own; return the process's id.

    What it prints goes to the end of ``log``. Raises StorageError.
    """
    with storage("write the log of the campaign", log):
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "osmef", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
    process.returncode = 0  # it outlives us: nobody waits for it here
    return process.pid
