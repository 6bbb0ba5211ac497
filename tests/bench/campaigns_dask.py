"""What conducting costs with workers elsewhere: the same simulated sessions on two Dask workers.

    python -m tests.bench.campaigns_dask PAIRS

Each session says where it is, has its journal at its controller, and waits until all
have begun.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, wait
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from osmef.campaigns.dask import Dask
from osmef.campaigns.rows import State
from osmef.campaigns.session import End, Work
from osmef.engine.journal import Journal
from osmef.engine.stop import Stop
from osmef.results.rundir import RunDirectory
from tests.bench.process import memory_mb
from tests.bench.report import Table
from tests.campaigns.dask_cluster import Workers, scheduler

SCENARIO = "name: pair\nworkload: {duration: 1s}\n"
SIZES = (1, 10, 100, 1000)
_WORKERS = 2


def _hold(until_s: float, work: Work) -> End:
    """Run a session that is there and does nothing until a time; what it cost is its beginning."""
    began_s = time.time()
    with RunDirectory.create_at(Path(work.directory), SCENARIO, ".yaml") as directory:
        journal = Journal(directory.journal)
        journal.note("start", seed=work.seed, missing=1)
        time.sleep(max(0.0, until_s - time.time()))
        journal.note("end")
    return End(State.DONE, trials_ok=1, cost=began_s)


def _run(count: int, place: Path) -> dict[str, float]:
    with ExitStack() as stack:
        address, _ = stack.enter_context(scheduler(place))
        slots = -(-count // _WORKERS)
        Workers(address, place, stack, threads=slots).start(*[f"osmef={slots}"] * _WORKERS)
        dask = Dask(address, Stop(), lambda *_: None)
        stack.callback(dask.close)
        warm = [_work(-number, place) for number in range(1, 2 * _WORKERS + 1)]
        _all([dask.submit(partial(_hold, 0.0), one) for one in warm])  # they load what they need
        before_mb, before_s, due_s = memory_mb("VmRSS"), time.process_time(), time.time()
        plateau_s = due_s + 10 + count * 0.1
        hold = partial(_hold, plateau_s)
        sessions = [dask.submit(hold, _work(number, place)) for number in range(count)]
        ends: list[End] = _all(sessions)
        spent_s = time.process_time() - before_s
        delays_s = [(one.cost or 0.0) - due_s for one in ends]
        if max(delays_s) > plateau_s - due_s:
            raise RuntimeError("the sessions did not all run at once")
        return {
            "cpu_ms": 1000 * spent_s / count,
            "memory_kb": 1000 * (memory_mb("VmHWM") - before_mb) / count,
            "peak_mb": memory_mb("VmHWM"),
            "delay_median_s": median(delays_s),
            "delay_max_s": max(delays_s),
        }


def _all(sessions: list[Future[End]]) -> list[End]:
    wait(sessions)
    return [one.result() for one in sessions]


def _work(number: int, place: Path) -> Work:
    return Work(
        session=number,
        slot="once",
        window="once",
        platform=f"pair {number}",
        text=SCENARIO,
        file="pair.yaml",
        directory=str(place / "out" / f"pair-{number}"),
        seed=number,
    )


def _measured(count: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.bench.campaigns_dask", str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def table() -> Table:
    """Measure the controller of sessions on two workers, from one to a thousand at once."""
    header = ("pairs", "CPU a pair", "memory a pair", "peak", "delay, median", "delay, longest")
    rows = []
    for count in SIZES:
        found = _measured(count)
        numbers = (found["cpu_ms"], found["memory_kb"], found["peak_mb"])
        delays = (found["delay_median_s"], found["delay_max_s"])
        cpu_ms, memory_kb, peak_mb = numbers
        shown = (f"{cpu_ms:.1f} ms", f"{memory_kb:.0f} kB", f"{peak_mb:.0f} MB")
        rows.append((str(count), *shown, *(f"{one:.2f} s" for one in delays)))
    return Table("Sessions at once on two Dask workers: their controller", header, rows)


def main() -> int:
    with tempfile.TemporaryDirectory() as place:
        sys.stdout.write(json.dumps(_run(int(sys.argv[1]), Path(place))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
