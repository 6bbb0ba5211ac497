"""The agent, iperf3 and nuttcp between the same two namespaces."""

from __future__ import annotations

import json
import re
import shutil
import statistics
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.bench.room import ADDRESSES, Room

CONNECTIONS = (1, 8, 50)
SENDER, RECEIVER = 0, 1
OURS = "osmef-agent"


@dataclass(frozen=True)
class Tool:
    """Commands of both ends, and how to find the receiver's rate in their outputs."""

    name: str
    port: int
    receive: Callable[[int, float], list[str]]
    send: Callable[[int, float], list[str]]
    rate: Callable[[str, str], float]


@dataclass(frozen=True)
class Sample:
    """Receiver goodput, and the CPU-seconds of both ends for each GB received."""

    bps: float
    cpu_s_per_gb: float


def _agent_rate(receiver: str, _sender: str) -> float:
    result = next(e for e in map(json.loads, receiver.splitlines()) if e["event"] == "result")
    received = result["receiving"]
    common = sum(flow["common_bytes"] for flow in received["flows"])
    return float(8 * common / received["common_length_s"])


def _iperf3_rate(_receiver: str, sender: str) -> float:
    return float(json.loads(sender)["end"]["sum_received"]["bits_per_second"])


def _nuttcp_rate(_receiver: str, sender: str) -> float:
    found = re.search(r"rate_Mbps=([0-9.]+)", sender)
    if found is None:
        raise RuntimeError(f"nuttcp says no rate: {sender}")
    return 1e6 * float(found[1])


def tools(agent: Path) -> list[Tool]:
    host = ADDRESSES[RECEIVER]
    return [
        Tool(
            OURS,
            5210,
            lambda _n, _t: [str(agent), "recv", "--json"],
            lambda n, t: [str(agent), "send", host, "--flows", str(n), "--duration", str(t)],
            _agent_rate,
        ),
        Tool(
            "iperf3",
            5201,
            lambda _n, _t: ["iperf3", "-s", "-1"],
            lambda n, t: ["iperf3", "-c", host, "-J", "-P", str(n), "-t", f"{t:g}"],
            _iperf3_rate,
        ),
        Tool(
            "nuttcp",
            5000,
            lambda _n, _t: ["nuttcp", "-1", "--nofork"],
            lambda n, t: ["nuttcp", "-fparse", f"-N{n}", f"-T{t:g}", host],
            _nuttcp_rate,
        ),
    ]


def measure(room: Room, tool: Tool, connections: int, duration_s: float) -> Sample:
    receiver = room.start(RECEIVER, tool.receive(connections, duration_s))
    room.await_port(RECEIVER, tool.port)
    sent = room.end(room.start(SENDER, tool.send(connections, duration_s)))
    received = room.end(receiver)
    bps = tool.rate(received.output, sent.output)
    gigabytes = bps * duration_s / 8e9
    return Sample(bps, (sent.cpu_s + received.cpu_s) / gigabytes)


def bench_peers(console: Console, agent: Path, repeat: int, duration_s: float) -> None:
    """Measure and print; tools that are not installed are left out, and that is said."""
    found = []
    for tool in tools(agent):
        if tool.name == OURS or shutil.which(tool.name):
            found.append(tool)
        else:
            console.print(f"{tool.name} is not installed, so it is left out")
    samples: dict[tuple[int, str], list[Sample]] = defaultdict(list)
    room = Room()
    try:
        rounds = [(n, tool) for _ in range(repeat) for n in CONNECTIONS for tool in found]
        for connections, tool in track(
            rounds, description="peers", console=console, transient=True
        ):
            samples[connections, tool.name].append(measure(room, tool, connections, duration_s))
    finally:
        room.close()
    console.print(_table(samples))


def _table(samples: dict[tuple[int, str], list[Sample]]) -> Table:
    table = Table(
        "connections", "tool", "Gbit/s (min-max)", "agent / tool",
        "CPU-s per GB (min-max)", "agent / tool ",
        title="two namespaces, medians of interleaved repetitions",
    )  # fmt: skip
    for (connections, name), values in samples.items():
        ours = samples[connections, OURS]
        table.add_row(
            str(connections),
            name,
            _spread([v.bps / 1e9 for v in values]),
            _ratio([v.bps for v in ours], [v.bps for v in values]),
            _spread([v.cpu_s_per_gb for v in values]),
            _ratio([v.cpu_s_per_gb for v in ours], [v.cpu_s_per_gb for v in values]),
        )
    return table


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3g} ({min(values):.3g}-{max(values):.3g})"


def _ratio(ours: list[float], theirs: list[float]) -> str:
    return f"{statistics.median(ours) / statistics.median(theirs):.2f}"
