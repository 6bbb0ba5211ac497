"""The most memory that an agent ever had at 128 flows."""

from __future__ import annotations

import re
from pathlib import Path

from tests.bench import ends
from tests.bench.contest import AGENT, Contest, Sample, Samples, hold
from tests.bench.report import Bench, Section, Table
from tests.bench.room import APART

FLOWS = 128
ENOUGH_MB = 20.0


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def _measure(bench: Bench) -> Sample:
    keys = {"connections": FLOWS, "duration_s": bench.duration_s, "interval_s": 0.1}
    with ends.pair(bench.room, APART, bench.agent) as agents:
        ends.run_pair(agents, APART, "bulk", **keys)
        client, server = (_peak_mb(agent.process.pid) for agent in agents)
    return {"sender": client, "receiver": server}


def _row(samples: Samples, what: str, end: str) -> tuple[str, str, str, str]:
    spread = samples.spread(what, AGENT, end)
    reached = "reached" if spread and max(spread.values) < ENOUGH_MB else "**not reached**"
    return end, str(spread or "-"), f"under {ENOUGH_MB:g} MB", reached


def bench(bench: Bench) -> Section:
    contest = Contest(f"{FLOWS} flows", {AGENT: lambda: _measure(bench)})
    samples = hold(bench.console, "memory", [contest], bench.repeat)
    return Section(
        "Memory",
        "The peak of the resident memory (`VmHWM`) of the agent after a transfer.",
        [
            Table(
                f"{FLOWS} flows, MB",
                ("", "agent", "wanted", "verdict"),
                [_row(samples, contest.what, end) for end in ("sender", "receiver")],
            )
        ],
        problems=samples.problems,
    )
