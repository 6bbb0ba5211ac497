"""A session that is there and does nothing until all may end: in a thread, or at a worker.

It has its run directory and its journal, says that it has begun by a byte in ``PLACE/begun``, and
ends when there is a file ``PLACE/over``: some at a time, as thousands of threads that wake at once
in one process do little but ask for its interpreter. What it "costs" is the UNIX time at which it
began.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from osmef.campaigns.rows import State
from osmef.campaigns.session import End, Work
from osmef.engine.journal import Journal
from osmef.results.rundir import RunDirectory

_LOOK_S = 0.2
_AT_ONCE = 8
_gates: dict[Path, threading.Semaphore] = {}
_lock = threading.Lock()


def hold(place: Path, work: Work) -> End:
    """Be there."""
    began_s = time.time()
    gate = _gate(place / "over")
    with RunDirectory.create_at(Path(work.directory), work.text, ".yaml") as directory:
        journal = Journal(directory.journal)
        journal.note("start", seed=work.seed, missing=1)
        with (place / "begun").open("ab", buffering=0) as begun:
            begun.write(b"x")
        gate.acquire()
        journal.note("end")
    gate.release()
    return End(State.DONE, trials_ok=1, cost=began_s)


def _gate(path: Path) -> threading.Semaphore:
    """Return what lets some pass when there is a file; one thread of a process looks for it."""
    with _lock:
        if path not in _gates:
            _gates[path] = threading.Semaphore(0)
            threading.Thread(target=_open_when, args=(path,), daemon=True).start()
        return _gates[path]


def _open_when(path: Path) -> None:
    while not path.exists():
        time.sleep(_LOOK_S)
    _gates[path].release(_AT_ONCE)
