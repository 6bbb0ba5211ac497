"""A bulk transfer by the agent and by each of its peers: the same flows, the same time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench import parsers, tools
from tests.bench.contest import AGENT, Sample
from tests.bench.parsers import Transfer
from tests.bench.room import Ended, Place, Room


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
            *[str(binary), "send", s.place.address, "--flows", str(s.flows)],
            *["--duration", f"{s.duration_s:g}", *options],
        ],
        lambda received, _sent, _s: parsers.agent_transfer(received.output),
    )


def iperf3(*options: str) -> Mover:
    return Mover(
        5201,
        lambda _s: ["iperf3", "-s", "-1"],
        lambda s: [
            *["iperf3", "-c", s.place.address, "-J", "-P", str(s.flows)],
            *["-t", f"{s.duration_s:g}", *options],
        ],
        lambda _received, sent, _s: parsers.iperf3_transfer(sent.output),
    )


IPERF2 = Mover(
    5001,
    # After that many connections the server ends by itself: each run has one of its own, whose
    # CPU time is that of this run.
    lambda s: ["iperf", "-s", "-e", "-f", "k", "-P", str(s.flows)],
    lambda s: ["iperf", "-c", s.place.address, "-P", str(s.flows), "-t", f"{s.duration_s:g}"],
    lambda received, _sent, s: parsers.iperf2_transfer(received.output, s.flows),
)
NUTTCP = Mover(
    5000,
    lambda _s: ["nuttcp", "-1", "--nofork"],
    # A data port for each flow, away from those of the other programs.
    lambda s: [
        *["nuttcp", "-fparse", "-p", "20001", f"-N{s.flows}"],
        *[f"-T{s.duration_s:g}", s.place.address],
    ],
    lambda _received, sent, _s: parsers.nuttcp_transfer(sent.output),
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
