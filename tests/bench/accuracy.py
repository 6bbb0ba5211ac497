"""How far the rate that the agent reports is from what the kernel knows to be true."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.agents.lab import Event
from tests.bench import ends
from tests.bench.contest import AGENT, Contest, Sample, Samples, hold
from tests.bench.report import Bench, Section, Table
from tests.bench.room import APART, Room

FLOWS = 4
ETHERNET = 14
HEADERS = ETHERNET + 20 + 32
"""Of each segment: Ethernet, IPv4, and TCP with its timestamps."""
WARMUP_S = 0.5
BURST_S = 0.005
QUEUE_BYTES = 4_000_000
ENOUGH_PERCENT = 0.5
SHAPES = {
    "tbf, 100 Mbit/s": ("tbf", 100e6),
    "tbf, 500 Mbit/s": ("tbf", 500e6),
    "htb, 500 Mbit/s": ("htb", 500e6),
}
LOOK_S = 0.002

# One segment a packet: the interface counts the headers of a bigger packet only once.
_SHAPE = """
import sys
from pyroute2 import IPRoute
kind, rate, burst, limit = sys.argv[1], *map(int, sys.argv[2:])
with IPRoute() as ipr:
    (index,) = ipr.link_lookup(ifname="one")
    ipr.link("set", index=index, gso_max_segs=1)
    if kind == "tbf":
        ipr.tc("add", "tbf", index=index, rate=rate, burst=burst, limit=limit)
    else:
        ipr.tc("add", "htb", index=index, handle=0x10000, default=0x10)
        shape = {"rate": rate, "ceil": rate, "burst": burst, "cburst": burst}
        ipr.tc("add-class", "htb", index=index, handle=0x10010, parent=0x10000, **shape)
        ipr.tc("add", "pfifo", index=index, handle=0x100000, parent=0x10010, limit=limit // 1500)
"""


def _shape(room: Room, kind: str, bps: float) -> None:
    byte_rate = bps / 8
    numbers = (round(byte_rate), round(byte_rate * BURST_S), QUEUE_BYTES)
    room.python(APART.client, _SHAPE, kind, *map(str, numbers))


@dataclass(frozen=True)
class Look:
    """The receiving interface at one moment: the payload that came since it exists, about."""

    realtime_s: float
    payload_bytes: int


def _look(table: Path) -> Look:
    (line,) = [t for t in table.read_text(encoding="ascii").splitlines() if "two:" in t]
    received, packets = map(int, line.split(":")[1].split()[:2])
    return Look(time.time(), received - HEADERS * packets)


@contextmanager
def _watched(room: Room) -> Iterator[list[Look]]:
    """Note the counters all the time; complete when the context has ended."""
    table, over = room.table(APART.server, "dev"), threading.Event()
    looks = [_look(table)]

    def watch() -> None:
        while not over.wait(LOOK_S):
            looks.append(_look(table))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield looks
    finally:
        over.set()
        thread.join()
        looks.append(_look(table))


def _payload_at(looks: list[Look], realtime_s: float) -> float:
    """Return the payload that had come, drawing a line between two looks."""
    after = bisect_left(looks, realtime_s, key=lambda look: look.realtime_s)
    one, two = looks[after - 1], looks[after]
    share = (realtime_s - one.realtime_s) / (two.realtime_s - one.realtime_s)
    return one.payload_bytes + share * (two.payload_bytes - one.payload_bytes)


def _counted_bps(looks: list[Look], result: Event) -> float:
    """Return what the interface counted in the interval that the agent's rate is of."""
    length_s = float(result["receiving"]["common_length_s"])
    start_s = result["start_realtime_ns"] / 1e9 + result["receiving"]["common_start_s"]
    payload = _payload_at(looks, start_s + length_s) - _payload_at(looks, start_s)
    return 8 * payload / length_s


def _measure(bench: Bench, kind: str, wire_bps: float) -> Sample:
    keys = {
        "connections": FLOWS,
        "duration_s": bench.duration_s,
        "warmup_s": WARMUP_S,
        "interval_s": 1,
    }
    with (
        closing(Room()) as room,
        ends.pair(room, APART, bench.agent) as agents,
        _watched(room) as looks,
    ):
        _shape(room, kind, wire_bps)
        results = ends.run_pair(agents, APART, "bulk", **keys)
    received = results.listener["receiving"]
    agent_bps = 8 * sum(f["common_bytes"] for f in received["flows"]) / received["common_length_s"]
    mss = results.connector["sending"]["flows"][0]["tcp"]["mss"]
    shaper_bps = wire_bps * mss / (mss + HEADERS)
    return {
        "agent": agent_bps / 1e6,
        "shaper": shaper_bps / 1e6,
        "shaper_percent": 100 * (agent_bps / shaper_bps - 1),
        "counters_percent": 100 * (agent_bps / _counted_bps(looks, results.listener) - 1),
    }


def _row(samples: Samples, what: str, truth: str) -> tuple[str, ...]:
    rate, error = (samples.spread(what, AGENT, name) for name in ("agent", f"{truth}_percent"))
    wanted = f"within {ENOUGH_PERCENT} %"
    if rate is None or error is None:
        return what, truth, "-", "-", wanted, "not measured"
    reached = "reached" if abs(error.median) <= ENOUGH_PERCENT else "**not reached**"
    return what, truth, str(rate), str(error), wanted, reached


def bench(bench: Bench) -> Section:
    contests = [
        Contest(what, {AGENT: partial(_measure, bench, *shape)}) for what, shape in SHAPES.items()
    ]
    samples = hold(bench.console, "accuracy", contests, bench.repeat)
    rows = [_row(samples, what, truth) for what in SHAPES for truth in ("shaper", "counters")]
    return Section(
        "Error of the rate",
        f"The aggregate of {FLOWS} flows through a veth pair with a shaper, {WARMUP_S} s of "
        "warm-up left out. `shaper`: the payload's share of its rate, MSS / (MSS + "
        f"{HEADERS} bytes of TCP, IPv4 and Ethernet headers). `counters`: the payload that the "
        "receiving interface counted in the same interval: its bytes less its packets' headers.",
        [
            Table(
                "Rate and error",
                ("", "against", "agent, Mbit/s", "error, %", "wanted", "verdict"),
                rows,
            )
        ],
        problems=samples.problems,
    )
