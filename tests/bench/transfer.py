"""A bulk transfer by the agent and by each of its peers: the same flows, the same time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from osmef.errors import OutputError
from osmef.workloads.kinds import iperf2 as of_iperf2
from osmef.workloads.kinds import iperf3 as of_iperf3
from osmef.workloads.kinds import nuttcp as of_nuttcp
from tests.bench import tools
from tests.bench.contest import AGENT, Sample
from tests.bench.room import Ended, Place, Room


@dataclass(frozen=True)
class Transfer:
    """Payload that receivers read, over all flows, and the time that it took them."""

    received_bytes: float
    elapsed_s: float

    @property
    def bps(self) -> float:
        return 8 * self.received_bytes / self.elapsed_s


@dataclass(frozen=True)
class Sending:
    """What every program is asked for."""

    place: Place
    flows: int
    duration_s: float


@dataclass(frozen=True)
class Mover:
    """A program's commands for both ends, and how to find the transfer in their outputs."""

    port: int
    receive: Callable[[Sending], list[str]]
    send: Callable[[Sending], list[str]]
    read: Callable[[Ended, Ended, Sending], Transfer]


def agent(binary: Path, *options: str) -> Mover:
    """Return the agent by hand, with options for both ends."""
    return Mover(
        5210,
        lambda _s: [str(binary), "recv", "--json", *options],
        lambda s: [
            *[str(binary), "send", s.place.address, "--connections", str(s.flows)],
            *["--duration", f"{s.duration_s:g}", *options],
        ],
        lambda received, _sent, _s: agent_transfer(received.output),
    )


def iperf3(*options: str) -> Mover:
    return Mover(
        5201,
        lambda _s: ["iperf3", "-s", "-1"],
        lambda s: [
            *["iperf3", "-c", s.place.address, "-J", "-P", str(s.flows)],
            *["-t", f"{s.duration_s:g}", *options],
        ],
        lambda _received, sent, _s: iperf3_transfer(sent.output),
    )


IPERF2 = Mover(
    5001,
    # After that many connections the server ends by itself: each run has one of its own, whose
    # CPU time is that of this run.
    lambda s: ["iperf", "-s", "-e", "-f", "k", "-P", str(s.flows)],
    lambda s: ["iperf", "-c", s.place.address, "-P", str(s.flows), "-t", f"{s.duration_s:g}"],
    lambda received, _sent, s: iperf2_transfer(received.output, s.flows),
)
NUTTCP = Mover(
    5000,
    lambda _s: ["nuttcp", "-1", "--nofork"],
    # A data port for each flow, away from those of the other programs.
    lambda s: [
        *["nuttcp", "-fparse", "-p", "20001", f"-N{s.flows}"],
        *[f"-T{s.duration_s:g}", s.place.address],
    ],
    lambda _received, sent, _s: nuttcp_transfer(sent.output),
)


def movers(binary: Path) -> dict[str, Mover]:
    """Return the agent and those of its peers that are installed."""
    all_of_them = {AGENT: agent(binary), "iperf3": iperf3(), "iperf": IPERF2, "nuttcp": NUTTCP}
    return {n: mover for n, mover in all_of_them.items() if n == AGENT or tools.path_of(n)}


def measure(room: Room, mover: Mover, sending: Sending) -> Sample:
    """Return `gbps`, receiver goodput, and `cpu_s_per_gb`, user and system time of both ends."""
    place = sending.place
    with room.running(place.server, mover.receive(sending), mover.port) as receiver:
        sent = room.run(place.client, mover.send(sending))
        received = receiver.end()
    transfer = mover.read(received, sent, sending)
    cpu_s = sent.cpu_s + received.cpu_s
    return {"gbps": transfer.bps / 1e9, "cpu_s_per_gb": 1e9 * cpu_s / transfer.received_bytes}


def agent_transfer(receiver: str) -> Transfer:
    """Read the events of ``osmef-agent recv --json``. Raises OutputError.

    As with its peers, all bytes over all the time, not the common interval.
    """
    lines = [line for line in receiver.splitlines() if line.startswith('{"event":"result"')]
    if len(lines) != 1:
        raise OutputError("there is not one result of the agent", tail=receiver[-500:])
    result = json.loads(lines[0])
    received = sum(flow["bytes"] for flow in result["receiving"]["flows"])
    return Transfer(received, result["elapsed_s"])


def iperf3_transfer(client: str) -> Transfer:
    """Read ``iperf3 -c HOST -J``: the client gets the receiver's figures. Raises OutputError."""
    way = of_iperf3.read(client).forward
    if way is None:
        raise OutputError("iperf3 tells no transfer", tail=client[-500:])
    return _by_rate(way.received_bytes, way.received_bps)


def iperf2_transfer(server: str, flows: int) -> Transfer:
    """Read ``iperf -s -e -f k``: all bytes, until the last flow ends. Raises OutputError.

    The time of iperf's sum is at times that of the first one that ends.
    """
    received = of_iperf2.read(server).received
    if received is None or received.total is None or len(received.flows) != flows:
        raise OutputError(f"iperf does not report {flows} flows", tail=server[-500:])
    ends = (row.end_s for row in (*received.flows, received.total))
    return Transfer(received.total.bytes, max(ends))


def nuttcp_transfer(client: str) -> Transfer:
    """Read ``nuttcp -fparse``. Raises OutputError."""
    told = of_nuttcp.read(client)
    return _by_rate(told.received_bytes, told.received_bps)


def _by_rate(received_bytes: float | None, bps: float | None) -> Transfer:
    if not received_bytes or not bps:
        raise OutputError(f"there was no transfer: {received_bytes} bytes at {bps} bit/s")
    return Transfer(received_bytes, 8 * received_bytes / bps)
