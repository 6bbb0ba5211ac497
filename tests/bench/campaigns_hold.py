"""A session that is there and does nothing until all may end: in a thread, or at a worker.

It has its run directory and its journal, says that it has begun by a byte in ``PLACE/begun``, and
ends when there is a file ``PLACE/over``: some at a time, as thousands of threads that wake at once
in one process do little but ask for its interpreter. It waits for a byte in a pipe, as a real one
does for its VMs. What it "costs" is the UNIX time at which it began.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from osmef.campaigns.executors.session import SessionJob, SessionResult
from osmef.campaigns.state.rows import SessionState
from osmef.engine.journal import Journal
from osmef.results.rundir import RunDirectory
from tests.journals import write_note

_LOOK_S = 0.2
_AT_ONCE = 8
_gates: dict[Path, tuple[int, int]] = {}
_lock = threading.Lock()


def hold(place: Path, work: SessionJob) -> SessionResult:
    """Be there."""
    began_s = time.time()
    passes, passed = _gate(place / "over")
    with RunDirectory.create_at(Path(work.directory), work.text, ".yaml") as directory:
        journal = Journal(directory.journal)
        write_note(journal, "start", seed=work.seed, missing=1)
        with (place / "begun").open("ab", buffering=0) as begun:
            begun.write(b"x")
        os.read(passes, 1)
        write_note(journal, "end")
    os.write(passed, b"x")
    return SessionResult(SessionState.DONE, trials_ok=1, cost=began_s)


def _gate(path: Path) -> tuple[int, int]:
    """Return a pipe that has bytes for some when there is a file; one thread looks for it."""
    with _lock:
        if path not in _gates:
            _gates[path] = os.pipe()
            threading.Thread(target=_open_when, args=(path,), daemon=True).start()
        return _gates[path]


def _open_when(path: Path) -> None:
    while not path.exists():
        time.sleep(_LOOK_S)
    os.write(_gates[path][1], b"x" * _AT_ONCE)
