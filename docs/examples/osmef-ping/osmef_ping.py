"""ping as a workload of OSMeF: round trips of ICMP echo (RFC 792)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from osmef.formats import amount, first, positive
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.fields import Duration, Size
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramsSettings, Run, Where
from osmef.workloads.tool import Tool
from pydantic import Field

_PACKETS = re.compile(r"^(\d+) packets transmitted, (\d+) received", re.MULTILINE)
_TIMES = re.compile(r"^rtt min/avg/max/mdev = [^/]+/([^/]+)/([^/]+)/\S+ ms", re.MULTILINE)


class PingSettings(ProgramsSettings):
    """Ping: echo requests one after the other, by the ping of iputils."""

    kind: Literal["ping"] = Field(default="ping", description="the kind of workload")
    interval: Duration = Field(
        default=0.2, ge=0.002, le=60, description="from one request to the next (-i)"
    )
    size: Size = Field(
        default=56, ge=16, le=65507, description="of a request, without the headers (-s)"
    )


class Ping(Tool[PingSettings]):
    """The sender asks, and the receiver's kernel answers."""

    Settings = PingSettings
    example = "workload: {kind: ping, duration: 5s, size: 1000 B}"
    programs = (Program("ping", package="iputils-ping"),)
    output_measures = (
        Measure(
            name="icmp_rtt_mean_us", unit="us", better=Better.LOWER, label="RTT of ICMP",
            head="mean\nRTT\nµs", digits=".0f", over_pairs=OverPairs.MEAN, leading=True,
            source="ping(8)", help="mean time from a request to its answer",
        ),
        Measure(
            name="icmp_rtt_max_us", unit="us", better=Better.LOWER, head="longest\nRTT\nµs",
            digits=".0f", over_pairs=OverPairs.WORST, source="ping(8)",
            help="longest time from a request to its answer",
        ),
        Measure(
            name="icmp_loss_percent", unit="%", better=Better.LOWER, head="loss\n%",
            digits=".1f", over_pairs=OverPairs.MEAN, source="ping(8)",
            help="share of the requests that got no answer",
        ),
    )  # fmt: skip

    def runs(self) -> Sequence[Run]:
        """Return ping at the sender; its exit status is 1 where no answer came."""
        s = self._settings
        count = max(1, round(s.duration / s.interval))
        options = ["-n", "-q", "-c", str(count), "-i", f"{s.interval:g}", "-s", f"{s.size:.0f}"]
        return (Run(on=Where.SENDER, argv=["ping", *options, "{peer}"], exits=[0, 1]),)

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read what ping printed."""
        return read(ended[-1].printed.text_of_stdout)


def read(text: str) -> dict[str, float | None]:
    """Return the numbers that ping prints: us and percent. Raises OutputError.

    Without any answer there are no round trips, and their numbers are None.
    """
    packets = first(_PACKETS, text, "line of the packets")
    sent, received = positive(packets[1], "packets sent"), amount(packets[2], "packets received")
    mean_us = max_us = None
    if received:
        times = first(_TIMES, text, "line of the round trips")
        mean_us, max_us = (1000 * amount(time, "a round trip") for time in times.groups())
    return {
        "icmp_rtt_mean_us": mean_us,
        "icmp_rtt_max_us": max_us,
        "icmp_loss_percent": 100 * (sent - received) / sent,
    }
