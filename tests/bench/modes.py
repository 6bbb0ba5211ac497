"""The agent's zerocopy and discard modes beside the same modes of iperf3."""

from __future__ import annotations

from functools import partial

from tests.bench import tools
from tests.bench.contest import AGENT, LESS, MORE, Contest, compare, hold
from tests.bench.report import Bench, Section, Table
from tests.bench.room import PLACES
from tests.bench.transfer import Mover, Sending, agent, iperf3, measure

FLOWS = (1, 8)
OPTIONS = {
    "zerocopy": ("-Z",),
    "discard": ("--skip-rx-copy",),
    "zerocopy-discard": ("-Z", "--skip-rx-copy"),
}
"""iperf3's name of each mode of the agent."""


def _movers(bench: Bench, mode: str) -> dict[str, Mover]:
    found = {AGENT: agent(bench.agent, "--mode", mode)}
    if tools.path_of("iperf3") and all(tools.knows_option("iperf3", o) for o in OPTIONS[mode]):
        found["iperf3"] = iperf3(*OPTIONS[mode])
    return found


def bench(bench: Bench) -> Section:
    contests = [
        Contest(
            f"{place.name}, {mode}, {flows} flow{'s' * (flows > 1)}",
            {
                name: partial(measure, bench.room, mover, Sending(place, flows, bench.duration_s))
                for name, mover in _movers(bench, mode).items()
            },
        )
        for place in PLACES
        for mode in OPTIONS
        for flows in FLOWS
    ]
    samples = hold(bench.console, "modes", contests, bench.repeat)
    return Section(
        "Zerocopy and discard",
        "`zerocopy`: the sender's payload is not copied into the kernel (iperf3 `-Z`); `discard`: "
        "the receiver's is not copied out of it (iperf3 `--skip-rx-copy`, after version 3.18; a "
        "mode that the installed iperf3 lacks has nobody to be compared with).",
        [
            Table("Goodput, Gbit/s", *compare(samples, contests, "gbps", MORE)),
            Table("CPU-seconds for each GB", *compare(samples, contests, "cpu_s_per_gb", LESS)),
        ],
        tools=("iperf3",),
        problems=samples.problems,
    )
