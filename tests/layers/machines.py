"""Two machines that are network namespaces of this one, joined by a cable, without any sshd."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from osmef.errors import EndpointError
from osmef.layers.base import Layer, LayerEnd, Underlay, UnderlayEnd
from osmef.layers.host import LayerHost, overlaps
from osmef.layers.root import Root, in_namespace
from osmef.layers.traces import Trace, TraceNames
from osmef.remote.session import ProgramResult, SshSession
from osmef.scenario.fields import Family

LAB = """
set -e
mount -t tmpfs tmpfs /run
mkdir /run/netns
ip netns add a
ip netns add b
ip -n a link add data0 type veth peer name data0 netns b
for m in a b; do
  ip -n $m link set lo up
  ip -n $m link set data0 addrgenmode none up
done
ip -n a addr add 10.9.3.1/30 dev data0
ip -n b addr add 10.9.3.2/30 dev data0
ip -n a addr add fe80::1/64 dev data0 nodad  # by which routers ask for neighbours
ip -n b addr add fe80::2/64 dev data0 nodad
ip -n a addr add fd00:9::1/64 dev data0 nodad
ip -n b addr add fd00:9::2/64 dev data0 nodad
echo ready
exec cat
"""
ADDRESSES = {
    Family.IPV4: {"a": "10.9.3.1", "b": "10.9.3.2"},
    Family.IPV6: {"a": "fd00:9::1", "b": "fd00:9::2"},
}
TALK = """
import socket, sys
what, address, port = sys.argv[1:]
if what == "listen":
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, int(port)), family=family) as server:
        print("ready", flush=True)
        peer, _ = server.accept()
        data = b"".join(iter(lambda: peer.recv(65536), b""))
        peer.sendall(b"%d" % len(data))
else:
    with socket.create_connection((address, int(port)), timeout=10) as sock:
        sock.sendall(bytes(100_000))
        sock.shutdown(socket.SHUT_WR)
        print(sock.recv(100).decode())
"""


@dataclass
class Shell:
    """Runs programs on one machine, as a session does by SSH. ``ran`` is what they were."""

    name: str
    enter: tuple[str, ...]
    user: str = "0"
    ran: list[list[str]] = field(default_factory=list)

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", within_s: float | None = None
    ) -> ProgramResult:
        self.ran.append(list(argv))
        try:
            done = subprocess.run(
                [*self.enter, *argv],
                input=stdin,
                capture_output=True,
                check=False,
                timeout=within_s,
            )
        except FileNotFoundError:
            return ProgramResult(127, b"", b"not found")
        # Without a shell nobody says 127: nsenter does, in words and with a status of its own.
        missing = b"failed to execute" in done.stderr
        return ProgramResult(127 if missing else done.returncode, done.stdout, done.stderr)

    def word(self, argv: Sequence[str]) -> str:
        return self.user if argv[0] == "id" else self.run(argv).stdout.decode().strip()


@dataclass
class Notes:
    """A ledger in memory."""

    existing: list[Trace] = field(default_factory=list)
    seen: list[Trace] = field(default_factory=list)

    def intend(self, trace: Trace) -> None:
        self.existing.append(trace)
        self.seen.append(trace)

    def created(self, trace: Trace) -> None:
        assert trace in self.existing, "it was made before it was noted"

    def destroyed(self, trace: Trace) -> None:
        self.existing.remove(trace)


@dataclass
class Machines:
    """Both machines, by name."""

    hosts: dict[str, LayerHost]
    shells: dict[str, Shell]
    reserved: set[int] = field(default_factory=set)

    def on(self, name: str, *argv: str) -> str:
        """Run a program on a machine, and return what it prints."""
        done = self.shells[name].run(argv)
        assert done.status == 0, done.stderr
        return done.stdout.decode()

    def notes(self, name: str) -> Notes:
        return cast("Notes", self.hosts[name].notes)

    def underlay(
        self, family: Family = Family.IPV4, below: Mapping[str, LayerEnd] | None = None
    ) -> Underlay:
        """Return what a layer is raised on: the cable, or another layer."""
        addresses = ADDRESSES[family]
        if below is not None:
            addresses = {name: one.address for name, one in below.items()}
        ends = {
            name: UnderlayEnd(
                host,
                {other: below[name].bind if below else addresses[name]},
                {other: addresses[other]},
                below[name].mtu if below else 1500,
                below[name] if below else None,
            )
            for (name, host), other in zip(self.hosts.items(), "ba", strict=True)
        }
        taken = [net for end in ends.values() for net in end.host.networks(end.space)]
        subnets = ["198.18.0.0/22", "198.18.4.0/22"]
        first = next(net for net in subnets if not overlaps(net, taken))
        stem = first.rpartition(".")[0]
        inner = {"a": f"{stem}.1", "b": f"{stem}.2"}
        if family is Family.IPV6:
            inner = {"a": "fd6f:736d:6566::1", "b": "fd6f:736d:6566::2"}
        gateway = "fd6f:736d:6566::9" if family is Family.IPV6 else f"{stem}.9"
        return Underlay(family, ends, inner, gateway, first, self._take)

    def _take(self, count: int, busy: set[int]) -> range:
        taken = busy | self.reserved
        first = next(n for n in range(20900, 20000, -1) if not taken & set(range(n, n + count)))
        self.reserved |= set(range(first, first + count))
        return range(first, first + count)

    def send(self, attached: Mapping[str, LayerEnd], port: int = 7777) -> int:
        """Send 100 kB from a to b inside of a layer; return how many bytes came."""
        here, there = attached["a"], attached["b"]
        port = there.ports.start if there.ports else port
        talk = [sys.executable, "-c", TALK]
        listen = in_namespace(there.space, [*talk, "listen", there.bind, str(port)])
        connect = in_namespace(here.space, [*talk, "connect", there.address, str(port)])
        with subprocess.Popen([*self.shells["b"].enter, *listen], stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            try:
                assert server.stdout.readline() == b"ready\n"
                return int(self.on("a", *connect))
            finally:
                server.kill()

    def lower(self) -> None:
        for host in self.hosts.values():
            host.drop_all()

    def state(self) -> list[str]:
        """Return what the kernel knows of both machines' networks."""
        looks = (
            ("ip", "-o", "link"), ("ip", "-o", "address"), ("ip", "rule"),
            ("ip", "route", "show", "table", "all"), ("ip", "xfrm", "policy"),
            ("cat", "/proc/sys/net/ipv4/conf/data0/forwarding"),
            ("cat", "/proc/sys/net/ipv4/conf/all/forwarding"), ("ls", "/run/netns"),
            ("grep", "-r", ".", "/proc/sys/net/ipv6/conf", "--include=accept_ra"),
            ("grep", "-r", ".", "/proc/sys/net/ipv6/conf", "--include=forwarding"),
            *([("nft", "list", "ruleset")] if shutil.which("nft") else []),
        )  # fmt: skip
        script = "".join(f"echo {shlex.join(look)}:; {shlex.join(look)}; " for look in looks)
        return [
            f"{name}: {line}"
            for name in self.hosts
            for line in self.on(name, "sh", "-c", script).splitlines()
        ]


@contextmanager
def two_machines() -> Iterator[Machines]:
    """Have two machines, or skip the test where only root could."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "nsenter", "unshare"))):
        pytest.skip("only root can make two machines of this one, with iproute2 and util-linux")
    argv = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with subprocess.Popen(
        [*argv, "sh", "-c", LAB], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        pid = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().strip()
        mount = ("nsenter", f"--target={pid}", "--mount", "--pid", "--")
        shells = {m: Shell(m, (*mount, "nsenter", f"--net=/run/netns/{m}", "--")) for m in "ab"}
        hosts = {
            m: LayerHost(m, Root(cast("SshSession", shell)), TraceNames("a-run", m), Notes())
            for m, shell in shells.items()
        }
        try:
            yield Machines(hosts, shells)
        finally:
            process.kill()


@contextmanager
def one_machine() -> Iterator[LayerHost]:
    """Have a machine whose first process is in its own network, as of every real one."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "nsenter", "unshare"))):
        pytest.skip("only root can make a machine of this one, with iproute2 and util-linux")
    argv = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    script = "mount -t tmpfs tmpfs /run; mkdir /run/netns; ip link set lo up; echo ready; exec cat"
    with subprocess.Popen(
        [*argv, "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        pid = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().strip()
        shell = Shell("m", ("nsenter", f"--target={pid}", "--mount", "--pid", "--net", "--"))
        try:
            yield LayerHost("m", Root(cast("SshSession", shell)), TraceNames("a-run", "m"), Notes())
        finally:
            process.kill()


def raised(
    machines: Machines, layer: Layer[Any], family: Family = Family.IPV4
) -> Mapping[str, LayerEnd]:
    """Raise a layer, or see that what this kernel lacks is told, and skip the test then."""
    host = machines.hosts["a"]
    space = host.new_space()
    try:
        layer.probe(host, space, family)
    except EndpointError as error:
        told = str(error)
        assert "a: " in told, "it names the endpoint"
        assert "cure: " in told
        assert layer.module in told or "there is no program" in told
        pytest.skip(f"not on this machine: {error.message}")
    finally:
        host.drop("netns", space)
    return layer.up(machines.underlay(family))


def check_whole_life(
    machines: Machines, make: Callable[[], Layer[Any]], family: Family = Family.IPV4
) -> Mapping[str, LayerEnd]:
    """Raise a layer, send through it, take it down: all is as before."""
    before = machines.state()
    attached = raised(machines, make(), family)
    assert machines.send(attached) == 100_000
    for host in machines.hosts.values():
        assert {(t.kind, t.name) for t in host.traces} == {
            (t.kind, t.name) for t in cast("Notes", host.notes).existing
        }
    machines.lower()
    after = machines.state()
    assert [line for line in after if line not in before] == []
    assert [line for line in before if line not in after] == []
    assert not any(machines.notes(name).existing for name in "ab")
    return attached


class Recorder(Root):
    """Runs nothing, and keeps what would be run: command lines, and what goes to their input."""

    def __init__(self) -> None:
        self.argvs: list[list[str]] = []
        self.inputs: list[str] = []

    def do(self, argv: Sequence[str], stdin: bytes = b"") -> str:
        self.argvs.append(list(argv))
        self.inputs.append(stdin.decode())
        return '[{"dev": "data0", "mtu": 1500}]' if "-j" in argv else ""


def recorded(count: int = 3) -> tuple[Underlay, dict[str, Recorder]]:
    """Return a ground of several endpoints at which nothing is done."""
    names = "abcdefgh"[:count]
    roots = {name: Recorder() for name in names}
    addresses = {name: f"10.0.0.{number}" for number, name in enumerate(names, 1)}
    ends = {
        name: UnderlayEnd(
            LayerHost(name, roots[name], TraceNames("a-run", name), Notes()),
            {other: addresses[name] for other in names if other != name},
            {other: addresses[other] for other in names if other != name},
            1500,
        )
        for name in names
    }
    inner = {name: f"198.18.0.{number}" for number, name in enumerate(names, 1)}
    take = iter([range(20999, 21000)])
    underlay = Underlay(
        Family.IPV4, ends, inner, "198.18.3.232", "198.18.0.0/22", lambda _count, _busy: next(take)
    )
    return underlay, roots
