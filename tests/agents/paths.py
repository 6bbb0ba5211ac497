"""Real agents in two namespaces, over a path that is fast, slow or far, on CPUs that are loaded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from osmef.agent.messages import BulkResult
from osmef.results.trial import Interval, TransferEnd
from osmef.workloads.kinds.btc import transfer_end
from tests.agents.lab import Agent, Event, job, succeed
from tests.agents.udp_peer import flow_of, udp_job
from tests.bench.room import ADDRESSES, Room

FAR_ADDRESSES = ("10.98.0.1", "10.98.0.2")
FAR_DELAY_S = 0.01
# What else runs on the machine must not be what limits a transfer.
FIRST = ("nice", "-n", "-20")
_DELAY_LINE = Path(__file__).with_name("delay_line.py")


class Paths:
    """Two namespaces: ``fast`` is a veth pair between them, ``far`` a path with delay."""

    def __init__(self, binary: Path) -> None:
        self._binary = binary
        self._room = Room()
        self._delay: subprocess.Popen[str] | None = None

    def close(self) -> None:
        if self._delay:
            _kill(self._delay)
        self._room.close()

    def far(self) -> tuple[str, str]:
        """Open the path with delay; return the addresses of its ends."""
        if not self._delay:
            one, two = (str(self._room.pid(number)) for number in (0, 1))
            ends = [one, FAR_ADDRESSES[0], two, FAR_ADDRESSES[1]]
            self._delay = subprocess.Popen(
                [*FIRST, sys.executable, _DELAY_LINE, *ends, str(FAR_DELAY_S)],
                stdout=subprocess.PIPE,
                text=True,
            )
            assert self._delay.stdout is not None
            assert self._delay.stdout.readline() == "ready\n"
        return FAR_ADDRESSES

    @contextmanager
    def shaped(self, tbf: str) -> Iterator[None]:
        """Let a token bucket of the kernel shape what the sender sends over the fast path."""
        self._room.run(0, ["tc", "qdisc", "add", "dev", "one", "root", *tbf.split()])
        try:
            yield
        finally:
            self._room.run(0, ["tc", "qdisc", "del", "dev", "one", "root"])

    def datagrams(self, **keys: object) -> tuple[Event, Event]:
        """Send one flow of UDP over the fast path; return what its sender and its receiver say."""
        with ExitStack() as stack:
            one, two = (
                stack.enter_context(Agent(*self._room.enter(number), self._binary))
                for number in (0, 1)
            )
            both = udp_job(**keys)
            two.command("udp", side="listen", bind=ADDRESSES[1], port=0, **both)
            port = two.expect("listening")["port"]
            one.command("udp", side="connect", host=ADDRESSES[1], port=port, **both)
            one.expect("connected")
            two.expect("connected")
            one.command("start", id="job-1")
            (_, sent), (_, received) = succeed(one, two)
        return flow_of(sent), flow_of(received)

    def transfer(
        self,
        *,
        address: str = ADDRESSES[1],
        how: tuple[Sequence[str], Sequence[str]] = (FIRST, FIRST),
        sender: Mapping[str, object] | None = None,
        receiver: Mapping[str, object] | None = None,
        **keys: object,
    ) -> tuple[TransferEnd, TransferEnd, list[Interval]]:
        """Measure; ``how`` is the prefix of each end's command, sender and receiver their keys."""
        with ExitStack() as stack:
            one, two = (
                stack.enter_context(Agent(*self._room.enter(number), *prefix, self._binary))
                for number, prefix in enumerate(how)
            )
            both = job(**keys)
            two.command("bulk", side="listen", bind=address, port=0, **both | dict(receiver or {}))
            port = two.expect("listening")["port"]
            one.command(
                "bulk", side="connect", host=address, port=port, **both | dict(sender or {})
            )
            one.expect("connected")
            two.expect("connected")
            one.command("start", id="job-1")
            ends = succeed(one, two)
        series = [row for events, _ in ends for event in events for row in _rows(event)]
        results = [BulkResult.model_validate(event) for _, event in ends]
        one_end, other_end = (transfer_end(result.role, result) for result in results)
        return one_end, other_end, series


@contextmanager
def busy(cpu: int, programs: int = 1) -> Iterator[None]:
    """Load a CPU with programs that never stop."""
    command = ["taskset", "-c", str(cpu), sys.executable, "-c", "while True: pass"]
    hogs = [subprocess.Popen(command) for _ in range(programs)]
    try:
        yield
    finally:
        for hog in hogs:
            _kill(hog)


def _kill(process: subprocess.Popen[Any]) -> None:
    process.kill()
    process.wait()
    if process.stdout:
        process.stdout.close()


def _rows(event: Event) -> Iterator[Interval]:
    for flow, size in enumerate(event["bytes"]):
        yield Interval(
            trial=1,
            endpoint=event["role"],
            role=event["role"],
            flow=flow,
            start_s=event["start_s"],
            length_s=event["length_s"],
            warmup=event["warmup"],
            bytes=size,
            retransmits=event["retransmits"] and event["retransmits"][flow],
            rtt_us=event["rtt_us"] and event["rtt_us"][flow],
            cwnd=event["cwnd"] and event["cwnd"][flow],
        )
