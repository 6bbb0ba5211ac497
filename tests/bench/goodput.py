"""How much the agent moves, and what CPU time that takes, beside its peers."""

from __future__ import annotations

from functools import partial

from tests.bench.contest import LESS, MORE, Contest, compare, hold
from tests.bench.report import Bench, Section, Table
from tests.bench.room import PLACES
from tests.bench.transfer import Sending, measure, movers

FLOWS = (1, 8, 50, 128)


def bench(bench: Bench) -> Section:
    contests = [
        Contest(
            f"{place.name}, {flows} flow{'s' * (flows > 1)}",
            {
                name: partial(measure, bench.room, mover, Sending(place, flows, bench.duration_s))
                for name, mover in movers(bench.agent).items()
            },
        )
        for place in PLACES
        for flows in FLOWS
    ]
    samples = hold(bench.console, "goodput", contests, bench.repeat)
    return Section(
        "Goodput and CPU time",
        "What the receivers read, all bytes over all the time, no warm-up left out at any program. "
        "CPU time is user and system time of both ends' processes, as the kernel accounts it.",
        [
            Table("Goodput, Gbit/s", *compare(samples, contests, "gbps", MORE)),
            Table("CPU-seconds for each GB", *compare(samples, contests, "cpu_s_per_gb", LESS)),
        ],
        tools=("iperf3", "iperf", "nuttcp"),
        problems=samples.problems,
    )
