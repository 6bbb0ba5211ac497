"""Kill -9 at every moment of a layer's life: what its journal names is removed, and all of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from osmef.engine.layers import layer_of
from osmef.errors import EndpointError
from osmef.kinds import LAYERS
from osmef.layers.host import LayerHost
from osmef.layers.root import Root
from osmef.layers.traces import Trace, TraceNames, is_of, remove
from osmef.remote.session import ProgramResult
from osmef.scenario.fields import Family
from tests.layers import engine, runtime
from tests.layers.machines import Machines, Notes

if TYPE_CHECKING:
    from osmef.remote.session import SshSession
    from osmef.scenario.layers import LayerSettings

RUN = "a-run"


class KilledError(BaseException):
    """The program is gone; no line of it runs any more."""


@dataclass
class Steps:
    """What a program does at one machine, and in the journal for it: it is killed before one."""

    left: int

    def take(self) -> None:
        if self.left == 0:
            raise KilledError
        self.left -= 1


@dataclass
class Mortal:
    """A session of a program that is killed."""

    session: SshSession
    steps: Steps

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", within_s: float | None = None
    ) -> ProgramResult:
        self.steps.take()
        return self.session.run(argv, stdin=stdin, within_s=within_s)

    def word(self, argv: Sequence[str]) -> str:
        return self.session.word(argv)


@dataclass
class MortalNotes(Notes):
    """A journal to which a program writes that is killed."""

    steps: Steps = field(default_factory=lambda: Steps(-1))

    def intend(self, trace: Trace) -> None:
        self.steps.take()
        super().intend(trace)

    def created(self, trace: Trace) -> None:
        self.steps.take()
        super().created(trace)

    def destroyed(self, trace: Trace) -> None:
        self.steps.take()
        super().destroyed(trace)


def mortal(
    name: str, session: SshSession, steps: Steps, words: Callable[[Sequence[str]], list[str]]
) -> LayerHost:
    root = Root(cast("SshSession", Mortal(session, steps)), words)
    return LayerHost(name, root, TraceNames(RUN, name), MortalNotes(steps=steps), b"an agent")


def live(machines: Machines, settings: LayerSettings, family: Family) -> bool:
    """Raise a layer and take it down; tell whether the program lived to see the end."""
    try:
        layer_of(settings).up(machines.underlay(family))
        machines.lower()
    except KilledError:
        return False
    return True


def reap(machines: Machines, sessions: Mapping[str, SshSession]) -> None:
    """Remove what the journal names, the newest first."""
    for name, host in machines.hosts.items():
        root = Root(sessions[name])
        for trace in reversed(cast("Notes", host.notes).existing):
            assert is_of(RUN, trace), trace
            remove(root, RUN, trace)


def check_every_end(
    machines: Machines, settings: LayerSettings, family: Family, state: Callable[[], list[str]]
) -> int:
    """Kill before each step at machine a, reap, and compare; return how many steps there are."""
    words = machines.hosts["a"].root.command_line
    sessions = {name: host.root.session for name, host in machines.hosts.items()}
    before = state()
    for number in itertools.count():
        left = {"a": Steps(number), "b": Steps(-1)}
        machines.hosts = {
            name: mortal(name, sessions[name], left[name], words) for name in sessions
        }
        machines.reserved.clear()
        ended = live(machines, settings, family)
        reap(machines, sessions)
        assert state() == before, f"killed before step {number}"
        if ended:
            return number
    raise AssertionError


KINDS = {
    **{name: {} for name in LAYERS.own if name not in {"bond", "container"}},
    **{f"container-{name}": {"network": name} for name in ("host", "bridge", "macvlan")},
    "container-crun": {"network": "bridge", "engine": "crun"},
}
"""What is set of each kind. Bonds are of cards, see tests/providers/libvirt/test_bonds.py."""


@pytest.mark.real("layers")
@pytest.mark.timeout(1200)  # a life of 50 steps is lived 50 times
@pytest.mark.parametrize(
    ("name", "family"), [*((name, Family.IPV4) for name in KINDS), ("bridge", Family.IPV6)]
)
def test_a_layer_of_a_program_that_is_killed_is_reaped(
    machines: Machines, tmp_path: Path, name: str, family: Family
) -> None:
    (tmp_path / "crun").mkdir()
    if name == "container-crun":
        runtime.install(machines, runtime.words_of_runtime(tmp_path / "crun"))
    engine.install(machines, tmp_path)
    settings = LAYERS.settings(name.partition("-")[0] if "container" in name else name)
    layer, host = layer_of(settings(**KINDS[name])), machines.hosts["a"]
    space = host.new_space()
    try:
        layer.probe(host, space, family)
    except EndpointError as error:
        pytest.skip(f"not on this machine: {error.message}")
    finally:
        host.drop("netns", space)
    steps = check_every_end(
        machines,
        layer.settings,
        family,
        lambda: [*machines.state(), *engine.has(tmp_path), *runtime.has(machines)],
    )
    assert steps > 5
