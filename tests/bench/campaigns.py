"""What conducting costs: many sessions at once, in threads and on two Dask workers; four weeks.

    python -m tests.bench.campaigns DIRECTORY

conducts the four weeks, and says how long that takes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from osmef.campaigns.state.rows import CampaignPhase, SessionState
from osmef.campaigns.state.store import Store
from osmef.results.rundir import RunDirectory
from tests.bench.report import Bench, Section, Table
from tests.campaigns import test_kills as weeks
from tests.campaigns.emulated import conduct

SIZES = (1, 10, 100, 1000, 10_000)
CONVERGED = 1000
ENOUGH_MB = 1024.0
# Times vary: so much more for each pair is no growth.
GROWN = 1.25
# Below so many pairs what is there once costs more than they do.
_MANY = 100
WEEKS_S = 60.0


def _run(*arguments: str) -> dict[str, Any]:
    """Return the last line of a process of its own, as JSON. Raises CalledProcessError."""
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _verdict(*, fine: bool) -> str:
    return "reached" if fine else "**not reached**"


def _growth(count: int, found: Mapping[str, float], before: Mapping[str, float]) -> tuple[str, str]:
    """Return what a pair costs against a tenth of the pairs, and whether that is no more."""
    ratios = [found[key] / before[key] for key in ("cpu_ms", "memory_kb")]
    ratios.append(found["delay_max_s"] / before["delay_max_s"] / 10)
    shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    return shown, _verdict(fine=max(ratios) <= GROWN) if count > _MANY else "-"


def _row(count: int, found: Mapping[str, float], before: Mapping[str, float]) -> tuple[str, ...]:
    enough = "-"
    if count == CONVERGED:
        enough = _verdict(fine=found["peak_mb"] < ENOUGH_MB and found["busy_percent"] < 100)
    return (
        str(count),
        f"{found['cpu_ms']:.1f} ms",
        f"{found['memory_kb']:.0f} kB",
        f"{found['peak_mb']:.0f} MB",
        f"{found['busy_percent']:.1f} %",
        f"{found['delay_median_s']:.2f} s",
        f"{found['delay_max_s']:.2f} s",
        enough,
        *(_growth(count, found, before) if before else ("-", "-")),
    )


def _table(kind: str, title: str, problems: list[str]) -> Table:
    header = ("pairs", "CPU a pair", "memory a pair", "peak", "CPU while all run")
    delays = ("delay, median", "delay, longest", "under 1 GiB and 1 core")
    growth = ("CPU, memory, delay a pair against a tenth", "no worse than linear")
    rows = []
    before: dict[str, float] = {}
    for count in SIZES:
        try:
            found = _run("tests.bench.campaigns_pairs", kind, str(count))
        except subprocess.CalledProcessError as error:
            problems.append(f"{count} pairs, {kind}: {error.stderr.strip().splitlines()[-1]}")
            before = {}
            continue
        rows.append(_row(count, found, before))
        before = found
    return Table(title, (*header, *delays, *growth), rows)


def _weeks() -> Table:
    with tempfile.TemporaryDirectory() as place:
        found = _run("tests.bench.campaigns", place)
    row = (
        str(found["sessions"]),
        str(found["trials"]),
        f"{found['seconds']:.1f} s",
        _verdict(fine=found["seconds"] < WEEKS_S),
    )
    return Table(
        "Four weeks over four emulated clouds, in simulated time",
        ("sessions", "trials", "real time", "under a minute"),
        [row],
    )


def bench(_bench: Bench) -> Section:
    """Measure what each session costs its conductor, from one to ten thousand at once."""
    problems: list[str] = []
    return Section(
        "Campaigns",
        "Simulated sessions that are all due at one moment, each with a run directory and its"
        " journal, with the real conductor and SQLite: in threads of the conductor's process, and"
        " on two Dask workers of the same machine. CPU and memory are the conductor's process"
        " alone. The delay is from when a session is due until it begins in its thread; with all"
        " due at once the last one waits for all others, so it grows with their number: a tenth"
        f" of it is compared. No worse than linear: none of the three is more than {GROWN} times"
        " that of a tenth of the pairs.",
        [
            _table("threads", "Sessions at once, in threads", problems),
            _table("dask", "Sessions at once, on two Dask workers: their conductor", problems),
            _weeks(),
        ],
        problems=problems,
        repeated=False,
    )


def _conduct_weeks(place: Path) -> dict[str, float]:
    (place / "pair.yaml").write_text(weeks.SCENARIO)
    file = place / "campaign.yaml"
    file.write_text(weeks.FILE)
    begun_s = time.monotonic()
    phase = conduct(file, place / "state.sqlite", place / "out")
    seconds = time.monotonic() - begun_s
    store = Store(f"sqlite:///{place / 'state.sqlite'}")
    sessions = store.sessions(1)
    store.close()
    if phase is not CampaignPhase.ENDED or {one.state for one in sessions} != {SessionState.DONE}:
        raise RuntimeError("the four weeks did not end well")
    trials = sum(
        len(RunDirectory(Path(one.directory or "")).read_trials().trials) for one in sessions
    )
    return {"sessions": len(sessions), "trials": trials, "seconds": seconds}


def main() -> int:
    sys.stdout.write(json.dumps(_conduct_weeks(Path(sys.argv[1]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
