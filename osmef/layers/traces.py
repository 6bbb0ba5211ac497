"""Traces of layers outside of their own namespaces on an endpoint, and their removal.

A layer is in a network namespace of its own, and is deleted with it. The namespace and everything
outside of it that a layer creates or changes is a trace: its name identifies the run, and each kind
is removed in one way, whichever layer created it. So cleaning up after a killed run does not need
the code of its layers.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from osmef.errors import EndpointError, ReachError
from osmef.layers import crun, nics
from osmef.layers.root import CRUN, ENGINES, Root, error_of

_HASH = 5
ROUTES = "147"
"""The protocol number that identifies routes of layers (ip-route(8))."""
_NO_SUCH = ("cannot find device", "does not exist", "no such", "not found", "no container with")
_MOST_TRIES = 20


@dataclass(frozen=True)
class Trace:
    """A trace: its kind and its name.

    ``netns`` is a namespace; ``link`` an interface in the host's own; ``nft`` a table of nftables;
    ``forwarding`` an interface with enabled IP forwarding and its earlier value (``eth0=0``);
    ``route`` a route to an address inside, over an interface; ``xfrm`` the common number of IPsec
    states and policies that belong together; ``container``, ``image`` and ``network`` are a
    container engine's, with its name as prefix (``podman:osmef-…``). ``nic`` is a network card in a
    namespace of ours, with its earlier state (``eth1@osmef-…=52:54:…,1500,up,none``).
    """

    kind: str
    name: str


@dataclass(frozen=True)
class TraceNames:
    """Names of the traces of one run at one endpoint."""

    run: str
    endpoint: str

    @property
    def text(self) -> str:
        """Eight characters, of which the first identify the run."""
        endpoint = hashlib.sha256(self.endpoint.encode()).hexdigest()[: 8 - _HASH]
        return f"{run_hash(self.run)}{endpoint}"

    @property
    def group(self) -> int:
        """The group number of the run's interfaces, set at their creation."""
        return group_of(self.run)

    def space(self, number: int) -> str:
        """Return the name of a network namespace."""
        return f"osmef-{self.text}-{number}"

    def of_engine(self, engine: str, number: int) -> str:
        """Return the name of an object of a container engine, prefixed by the engine's name."""
        return f"{engine}:{self.space(number)}"

    def link(self, number: int) -> str:
        """Return the name of an interface, 15 characters at most (IFNAMSIZ)."""
        return f"om{self.text}n{number}"

    def ipsec(self, number: int) -> str:
        """Return an id of IPsec states and policies, 31 bits, of which the first are the run's."""
        return str((int(run_hash(self.run), 16) << 11) + number % 2**11)

    def table(self, number: int) -> str:
        """Return the name of a table of nftables."""
        return f"osmef_{self.text}_{number}"


def run_hash(run: str) -> str:
    """Return the hash of a run in its names."""
    return hashlib.sha256(run.encode()).hexdigest()[:_HASH]


def group_of(run: str) -> int:
    """Return the group of a run's interfaces: not 0, and in 31 bits."""
    return int(hashlib.sha256(f"group of {run}".encode()).hexdigest()[:7], 16) + 1


_NAME = r"[^\s/=@-][^\s/=@]{{0,14}}"
_SPACE = r"osmef-{run}[0-9a-f]{{3}}-[0-9]{{1,4}}"
_INNER6 = "fd6f:736d:6566:[0-9a-f:]{{1,24}}"
_NAMES: Mapping[str, str] = {
    "netns": _SPACE,
    "link": r"om{run}[0-9a-f]{{3}}n[0-9]{{1,4}}",
    "nft": r"osmef_{run}[0-9a-f]{{3}}_[0-9]{{1,4}}",
    "forwarding": rf"{_NAME}=0",
    "ipv6": rf"{_NAME}/(accept_ra|forwarding)=[01]",
    "route": rf"(198\.1[89](\.[0-9]{{{{1,3}}}}){{{{2}}}}|{_INNER6})@{_NAME}",
    **dict.fromkeys(
        ("image", "network"),
        f"(podman|docker):{_SPACE}",
    ),
    "container": f"(podman|docker|{CRUN}):{_SPACE}",
    "xfrm": r"[0-9]{{1,10}}",
    "nic": f"{_NAME}@{_SPACE}=" + nics.PATTERN.replace("{", "{{").replace("}", "}}"),
}
KINDS = frozenset(_NAMES)


def is_of(run: str, trace: Trace) -> bool:
    """Return whether a name can be one of a run: a journal may be damaged or forged."""
    pattern = _NAMES.get(trace.kind)
    of_run = run_hash(run)
    if pattern is None or re.fullmatch(pattern.format(run=of_run), trace.name) is None:
        return False
    return trace.kind != "xfrm" or int(trace.name) >> 11 == int(of_run, 16)


def traces_of_run(root: Root, names: TraceNames) -> list[Trace]:
    """Return the traces of a run that exist at an endpoint, by their names.

    Raises EndpointError, ReachError.
    """
    named = _of_containers(root)
    named += [Trace("netns", name) for name in spaces(root)]
    tables = root.run(["nft", "list", "tables"]).stdout.decode(errors="replace").split()
    named += [Trace("nft", name) for name in tables]
    links = root.ask(None, "link", "show", "group", str(names.group))
    named += [Trace("link", str(link.get("ifname"))) for link in links]
    ours = [one for one in named if is_of(names.run, one) and names.text in one.name]
    return [*ours, *(one for one in _routes(root) if is_of(names.run, one))]


def _routes(root: Root) -> list[Trace]:
    """Return the routes of our protocol, which name no run: a machine has one run at a time."""
    listed = [
        one
        for version in ("-4", "-6")
        for one in root.ask(None, version, "route", "show", "protocol", ROUTES)
    ]
    return [Trace("route", f"{one.get('dst')}@{one.get('dev')}") for one in listed]


def _of_containers(root: Root) -> list[Trace]:
    """Return all objects of crun and of the engines that answer, containers first."""
    named = [Trace("container", f"{CRUN}:{name}") for name in _listed(root, "ls", crun.PLACE)]
    for engine in ENGINES:
        for kind, words in _LISTS.items():
            names = _listed(root, engine, *words)
            named += [Trace(kind, f"{engine}:{name.rpartition('/')[2]}") for name in names]
    return named


_LISTS: Mapping[str, tuple[str, ...]] = {
    "container": ("ps", "--all", "--format", "{{.Names}}"),
    "network": ("network", "ls", "--format", "{{.Name}}"),
    "image": ("images", "--format", "{{.Repository}}"),
}
"""Commands that list the names of a container engine's objects."""


def _listed(root: Root, *argv: str) -> list[str]:
    """Return the words that a program prints; none where it is missing, fails or hangs."""
    try:
        done = root.run(argv)
    except ReachError:
        raise
    except EndpointError:
        return []
    return [] if done.status else done.stdout.decode(errors="replace").split()


def remove(root: Root, run: str, trace: Trace) -> None:
    """Remove a trace; an absent one, or one that is not ours, is success.

    Raises EndpointError, ReachError.
    """
    _REMOVE[trace.kind](root, run, trace.name)


def _remove_space(root: Root, _run: str, name: str) -> None:
    """End the processes in a namespace of ours, delete its interfaces, and then itself.

    The kernel removes a namespace some time after its name is gone, and its objects in other
    namespaces, such as the port of a tunnel, only then.
    """
    for _ in range(_MOST_TRIES):
        pids = root.run(["ip", "netns", "pids", name]).stdout.decode(errors="replace").split()
        if not pids:
            break
        root.run(["kill", "-KILL", *pids])
    if name not in spaces(root):
        return
    with contextlib.suppress(EndpointError):  # a name without a namespace
        for link in root.ask(name, "link", "show"):
            if str(link.get("ifname")).startswith("om"):
                root.run(["ip", "-n", name, "link", "delete", "dev", str(link["ifname"])])
    _unless_gone(root, ["ip", "netns", "delete", name])


def spaces(root: Root) -> list[str]:
    """Return the names of all network namespaces of an endpoint."""
    lines = root.do(["ip", "netns", "list"]).splitlines()
    return [line.split()[0] for line in lines if line.strip()]


def _remove_link(root: Root, run: str, name: str) -> None:
    """Delete an interface of the host that is in the run's group.

    An interface that a program has created is in no group at first.
    """
    for which in (["group", str(group_of(run))], ["type", "tun"]):
        if any(link.get("ifname") == name for link in root.ask(None, "link", "show", *which)):
            _unless_gone(root, ["ip", "link", "delete", "dev", name])


def _remove_table(root: Root, _run: str, name: str) -> None:
    for line in root.do(["nft", "list", "tables"]).splitlines():  # table FAMILY NAME
        if line.split()[2:] == [name]:
            _unless_gone(root, ["nft", "delete", *line.split()])


def forwarding_file(interface: str, version: int) -> str:
    """Return the sysctl file of an interface's forwarding (ip-sysctl)."""
    return f"/proc/sys/net/ipv{version}/conf/{interface}/forwarding"


def _restore_forwarding(root: Root, _run: str, name: str) -> None:
    interface, _, before = name.rpartition("=")
    if root.run(["test", "-e", forwarding_file(interface, 4)]).status == 0:
        root.do(["tee", forwarding_file(interface, 4)], before.encode())


IPV6, IPV6_KEYS = "/proc/sys/net/ipv6/conf", ("accept_ra", "forwarding")


def ipv6_file(interface: str, key: str) -> str:
    """Return the sysctl file of an IPv6 key of an interface, or of ``all`` (ip-sysctl)."""
    return f"{IPV6}/{interface}/{key}"


def _restore_ipv6(root: Root, _run: str, name: str) -> None:
    place, _, before = name.rpartition("=")
    path = f"{IPV6}/{place}"
    if root.run(["test", "-e", path]).status == 0:
        root.do(["tee", path], before.encode())


def _remove_route(root: Root, _run: str, name: str) -> None:
    address, _, interface = name.partition("@")
    width = 128 if ":" in address else 32
    words = ["ip", "route", "delete", f"{address}/{width}", "dev", interface, "protocol", ROUTES]
    _unless_gone(root, words)


def _remove_ipsec(root: Root, _run: str, number: str) -> None:
    _unless_gone(root, ["ip", "xfrm", "policy", "deleteall", "priority", number])
    _unless_gone(root, ["ip", "xfrm", "state", "deleteall", "reqid", number])


def _restore_nic(root: Root, _run: str, name: str) -> None:
    place, _, before = name.partition("=")
    device, _, space = place.partition("@")
    nics.restore_nic(root, device, space, before)


def _remove_with(*words: str) -> Callable[[Root, str, str], None]:
    def remove_it(root: Root, _run: str, name: str) -> None:
        engine, _, own = name.partition(":")
        _unless_gone(root, [engine, *words, own])

    return remove_it


def _remove_container(root: Root, run: str, name: str) -> None:
    engine, _, own = name.partition(":")
    if engine == CRUN:
        crun.remove(root, own)
    else:
        _remove_with("rm", "--force", "--volumes")(root, run, name)


def _unless_gone(root: Root, argv: list[str]) -> None:
    done = root.run(argv)
    text = (done.stderr + done.stdout).decode(errors="replace").lower()
    if done.status and not any(word in text for word in _NO_SUCH):
        raise error_of(root.name, argv[0], done)


_REMOVE: Mapping[str, Callable[[Root, str, str], None]] = {
    "netns": _remove_space,
    "link": _remove_link,
    "nft": _remove_table,
    "forwarding": _restore_forwarding,
    "ipv6": _restore_ipv6,
    "route": _remove_route,
    "xfrm": _remove_ipsec,
    "container": _remove_container,
    "image": _remove_with("rmi", "--force"),
    "network": _remove_with("network", "rm"),
    "nic": _restore_nic,
}
