"""What the pairs on an OpenStack took, as a section of the page of benchmarks."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.bench.report import Section, Table
from tests.openstack.calls import Call

WANTED = 0.4
_ID = re.compile(r"/([0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32})(?=/|$)|(?<=/os-keypairs)/.+")
ABOUT = """\
Making and deleting {pairs} pairs of servers, each pair on one host and each server with a floating
address, on a real keystone, placement, glance, nova and neutron whose hypervisors are fakes: what
is measured is the work of the APIs, no boot. The provider beside a plain program that makes the
same with openstacksdk, one thing after the other, and waits for each server with the SDK's own
functions as they are (a look every two seconds). One run of each, after one pair to warm up. By
`make bench-openstack`; [what bounds it](decisions/openstack-speed.md)."""


@dataclass(frozen=True)
class Outcome:
    """Wall time, CPU time of the cloud's processes by name, and all calls to its APIs."""

    pairs: int
    make_s: float
    delete_s: float
    cpu_s: Mapping[str, float]
    calls: Sequence[Call]

    @property
    def wall_s(self) -> float:
        return self.make_s + self.delete_s

    @property
    def kinds(self) -> Counter[tuple[str, str]]:
        """Count the calls by service and what they do."""
        return Counter((call.service, f"{call.method} {_path(call.path)}") for call in self.calls)


def _path(path: str) -> str:
    return _ID.sub("/ID", path.partition("?")[0])


def section(found: Mapping[str, Outcome]) -> Section:
    """Return the section about the provider and, second, what it is compared with."""
    ours = next(iter(found.values()))
    return Section(
        f"OpenStack: {ours.pairs} pairs",
        ABOUT.format(pairs=ours.pairs),
        [_times(found), _services(found), _calls(found)],
        repeated=False,
    )


def _times(found: Mapping[str, Outcome]) -> Table:
    ours, theirs = found.values()
    cpus = len(os.sched_getaffinity(0))
    rows = [
        _row("make, s", [one.make_s for one in found.values()]),
        _row("delete, s", [one.delete_s for one in found.values()]),
        (*_row("both, s", [one.wall_s for one in found.values()])[:-1], *_verdict(ours, theirs)),
        _row("CPU time of the cloud, s", [sum(one.cpu_s.values()) for one in found.values()]),
        _row(
            f"the same on {cpus} CPUs at least, s",
            [sum(one.cpu_s.values()) / cpus for one in found.values()],
        ),
        _row("calls to the APIs a pair", [len(one.calls) / one.pairs for one in found.values()]),
    ]
    return Table(
        "Time and calls",
        ("", *found, "ratio", "wanted", "verdict"),
        [row + ("",) * (len(found) + 4 - len(row)) for row in rows],
    )


def _row(what: str, values: Sequence[float]) -> tuple[str, ...]:
    ratio = f"{values[0] / values[1]:.2f}" if values[1] else "-"
    return (what, *(f"{value:.1f}" for value in values), ratio)


def _verdict(ours: Outcome, theirs: Outcome) -> tuple[str, str, str]:
    ratio = ours.wall_s / theirs.wall_s
    verdict = "reached" if ratio <= WANTED else "**not reached**"
    return f"{ratio:.2f}", f"at most {WANTED}", verdict


def _services(found: Mapping[str, Outcome]) -> Table:
    ours, theirs = found.values()
    names = sorted(ours.cpu_s, key=lambda name: -ours.cpu_s[name])
    rows = [
        (name, f"{ours.cpu_s[name] / ours.pairs:.2f}", f"{theirs.cpu_s[name] / theirs.pairs:.2f}")
        for name in names
    ]
    return Table("CPU time of the cloud's processes a pair, s", ("", *found), rows)


def _calls(found: Mapping[str, Outcome]) -> Table:
    kinds = {name: one.kinds for name, one in found.items()}
    order: Counter[tuple[str, str]] = sum(kinds.values(), Counter())
    rows = [
        (*kind, *(f"{kinds[name][kind] / one.pairs:.2f}" for name, one in found.items()))
        for kind, _ in sorted(order.items(), key=lambda one: (one[0][0], -one[1]))
    ]
    return Table("Calls to the APIs a pair, by kind", ("service", "call", *found), rows)
