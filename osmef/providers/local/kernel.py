"""The kernel's networks: links, addresses, routes and rates by netlink, namespaces and mounts.

Sources: rtnetlink(7), namespaces(7), unshare(2), setns(2), mount(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from osmef.errors import ProviderError
from osmef.providers.local.addresses import has_ipv6

_NAME = "pyroute2"


def _import() -> tuple[Any, Any]:
    """Import two classes below an empty package, which others don't see.

    The package imports all of its parts at once, which takes three times as long as the one that is
    wanted, for each emulated cloud.
    """
    spec = None if _NAME in sys.modules else find_spec(_NAME)
    if spec is not None:
        sys.modules[_NAME] = package = ModuleType(_NAME)
        package.__path__ = list(spec.submodule_search_locations or ())
    try:
        route = import_module(f"{_NAME}.iproute").IPRoute
        return route, import_module(f"{_NAME}.netlink.exceptions").NetlinkError
    finally:
        if spec is not None:
            del sys.modules[_NAME]


IPRoute, NetlinkError = _import()


CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 4096

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags: int) -> None:
    """Move this process into new namespaces. Raises OSError."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(fd: int, flag: int) -> None:
    """Move this process into a namespace that exists. Raises OSError."""
    _check(_libc.setns(ctypes.c_int(fd), ctypes.c_int(flag)), "setns")


def mount(source: str, target: str, fstype: str | None, flags: int, options: str = "") -> None:
    """Attach a file system, or bind a file over another. Raises OSError."""
    result = _libc.mount(
        source.encode(),
        target.encode(),
        fstype.encode() if fstype else None,
        ctypes.c_ulong(flags),
        options.encode(),
    )
    _check(result, f"mount {fstype or source} on {target}")


OVERLAY_MTU = 1450
"""1500 bytes of Ethernet without the 50 of outer Ethernet, IPv4, UDP and VXLAN (RFC 7348)."""

_ANY_MAC = "00:00:00:00:00:00"
_BURST_S = 0.002
_QUEUE_S = 0.1
_SMALLEST_BURST = 4 * 1514
_SMALLEST_QUEUE = 128 * 1024
_LARGEST_QUEUE = 16 * 1024 * 1024
_INGRESS = 0xFFFF0000
_EVERY_PROTOCOL = 0x0003
_OUTER = 0x10000
"""The handle 1: of the outer one of two buckets; the inner one hangs at 1:1."""


class Namespace:
    """A network namespace, kept alive by this object's descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._open: Netlink | None = None

    @classmethod
    def of_process(cls, pid: int | str) -> Namespace:
        """Return the namespace of a process ("self": this one). Raises OSError."""
        return cls(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY))

    @classmethod
    def create(cls, **ipv4: int) -> Namespace:
        """Create a namespace with its loopback up, and with these net.ipv4 sysctls.

        It speaks IPv6 on its loopback, and where ``add_ipv6`` is called for a device. Addresses
        hold at once, since no other process can have them, and come from this process alone.
        """
        with _back_home():
            unshare(CLONE_NEWNET)
            namespace = cls.of_process("self")
        ipv4 = {"ip_forward": 0, **ipv4}
        namespace.set_sysctls({f"ipv4/{name}": value for name, value in ipv4.items()})
        if has_ipv6():
            own = {"disable_ipv6": 1, "accept_dad": 0, "accept_ra": 0}
            namespace.set_sysctls(
                {
                    "ipv6/conf/all/forwarding": ipv4["ip_forward"],
                    **{f"ipv6/conf/default/{name}": value for name, value in own.items()},
                    "ipv6/conf/lo/disable_ipv6": 0,
                }
            )
        with namespace.netlink() as net:
            net.up("lo")
        return namespace

    @property
    def identity(self) -> int:
        """The inode number, which identifies a namespace."""
        return os.fstat(self._fd).st_ino

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    def enter(self) -> None:
        """Move this process in."""
        setns(self._fd, CLONE_NEWNET)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)

    def set_sysctls(self, net: dict[str, int]) -> None:
        """Set sysctls of /proc/sys/net. Raises OSError."""
        with self.entered():
            for name, value in net.items():
                Path("/proc/sys/net", name).write_text(str(value))

    @contextmanager
    def netlink(self) -> Iterator[Netlink]:
        """Open a netlink socket in the namespace, or yield the one that is open.

        What the kernel refuses becomes a ProviderError.
        """
        if self._open is not None:
            yield self._open
            return
        with self.entered():
            route = IPRoute()
        self._open = Netlink(route, self)
        try:
            yield self._open
        except NetlinkError as error:
            raise ProviderError(f"the kernel refuses a network setting: {error}") from error
        finally:
            self._open = None
            route.close()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Move this process in, and back to the previous network namespace."""
        with _back_home():
            self.enter()
            yield


@contextmanager
def _back_home() -> Iterator[None]:
    """Return to the previous network namespace."""
    home = Namespace.of_process("self")
    try:
        yield
    finally:
        home.enter()
        home.close()


class Netlink:
    """Requests on one namespace's netlink socket."""

    def __init__(self, route: Any, namespace: Namespace) -> None:  # pyroute2 has no types
        self._route = route
        self._namespace = namespace

    def _index(self, name: str) -> int:
        # By a system call: a request for a link and its answer take ten times as long.
        try:
            with self._namespace.entered():
                return socket.if_nametoindex(name)
        except OSError as error:
            raise ProviderError(f"network device {name!r} does not exist") from error

    def _add(self, name: str, kind: str, **options: Any) -> None:
        """Add a device and set it up."""
        with _needs(f"network devices of kind {kind!r}", kind):
            self._route.link("add", ifname=name, kind=kind, state="up", **options)

    def has(self, name: str) -> bool:
        """Return whether a device of a name exists."""
        with self._namespace.entered():
            return any(one == name for _, one in socket.if_nameindex())

    def up(self, name: str) -> None:
        """Set a device up."""
        self._route.link("set", index=self._index(name), state="up")

    def add_bridge(self, name: str) -> None:
        """Add a bridge and set it up."""
        self._add(name, "bridge")

    def add_veth(self, name: str, bridge: str, far: Namespace, far_name: str, mtu: int) -> None:
        """Add a veth pair between a bridge here and another namespace, both ends up."""
        peer = {"ifname": far_name, "net_ns_fd": far.fileno(), "mtu": mtu}
        self._add(name, "veth", mtu=mtu, peer=peer, master=self._index(bridge))
        with far.netlink() as there:
            there.up(far_name)

    def attach(self, name: str, bridge: str) -> None:
        """Make a device a port of a bridge."""
        self._route.link("set", index=self._index(name), master=self._index(bridge))

    def add_vxlan(self, name: str, vni: int, lower: str, local: str, peers: list[str]) -> None:
        """Add a VXLAN device that floods to its peers by a static list (RFC 7348, section 4)."""
        self._add(
            name,
            "vxlan",
            mtu=OVERLAY_MTU,
            vxlan_id=vni,
            vxlan_link=self._index(lower),
            vxlan_local=local,
            vxlan_port=4789,
            vxlan_learning=True,
        )
        index = self._index(name)
        for peer in peers:
            self._route.fdb("append", ifindex=index, lladdr=_ANY_MAC, dst=peer)

    def add_address(self, name: str, address: str, prefix_length: int) -> None:
        """Give a device an address, IPv4 or IPv6."""
        self._route.addr("add", index=self._index(name), address=address, prefixlen=prefix_length)

    def add_default_route(self, gateway: str) -> None:
        """Add a default route by this gateway."""
        default_route = "::/0" if ":" in gateway else "0.0.0.0/0"
        self._route.route("add", dst=default_route, gateway=gateway)

    def limit_rate(self, name: str, rate_bps: float) -> None:
        """Shape a device's egress to a rate, by a token bucket (tc-tbf(8)).

        The bucket holds 2 ms, so that a late timer loses no tokens. The queue behind it holds
        100 ms within the bounds of a switch's shared buffer, 128 KiB to 16 MiB: in a short queue
        the flows of a transfer that begins at once lose packets together, and share unfairly.
        """
        self._add_bucket(name, rate_bps, rate_bps, None)

    def limit_bursts(self, name: str, rate_bps: float, burst: int, filling_bps: float) -> None:
        """Shape a device's egress: to ``filling_bps`` once a bucket of ``burst`` bytes is empty.

        Before, it leaves at ``rate_bps``: behind the token bucket is another one for that rate,
        whose queue holds 100 ms of the lower rate.
        """
        with _needs("the queueing discipline 'tbf'", "sch_tbf"):
            self._route.tc(
                "add",
                "tbf",
                index=self._index(name),
                handle=_OUTER,
                rate=round(filling_bps / 8),
                burst=burst,
                limit=_queue(filling_bps),
            )
        self._add_bucket(name, rate_bps, filling_bps, _OUTER + 1)

    def _add_bucket(
        self, name: str, rate_bps: float, queued_bps: float, parent: int | None
    ) -> None:
        """Add a token bucket, with a queue for 100 ms."""
        rate = rate_bps / 8
        below = {} if parent is None else {"parent": parent}
        with _needs("the queueing discipline 'tbf'", "sch_tbf"):
            self._route.tc(
                "add",
                "tbf",
                index=self._index(name),
                **below,
                rate=round(rate),
                burst=round(max(rate * _BURST_S, _SMALLEST_BURST)),
                limit=_queue(queued_bps),
            )

    def add_medium(self, name: str, rate_bps: float) -> None:
        """Add an ifb device, by which several ports share a rate."""
        self._add(name, "ifb")
        self.limit_rate(name, rate_bps)

    def share(self, port: str, medium: str) -> None:
        """Redirect the ingress of a port through a shared medium (tc-mirred(8))."""
        index = self._index(port)
        redirect = {
            "kind": "mirred",
            "direction": "egress",
            "action": "redirect",
            "ifindex": self._index(medium),
        }
        with _needs("redirection of packets", "-a sch_ingress cls_u32 act_mirred"):
            self._route.tc("add", "ingress", index=index)
            try:
                self._route.tc(
                    *("add-filter", "u32"),
                    index=index,
                    parent=_INGRESS,
                    prio=1,
                    protocol=_EVERY_PROTOCOL,
                    target=_OUTER,
                    keys=["0x0/0x0+0"],
                    action=redirect,
                )
            except NetlinkError:
                self.leave(port)
                raise

    def leave(self, port: str) -> None:
        """Undo ``share``."""
        self._route.tc("del", "ingress", index=self._index(port))

    def peer(self, name: str, candidates: dict[str, Namespace]) -> tuple[str, int] | None:
        """Return the namespace of a veth's other end, and its index there."""
        (link,) = self._route.link("get", ifname=name)
        nsid = link.get("link_netnsid")
        for candidate, namespace in candidates.items():
            if nsid is not None and self._route.get_netnsid(fd=namespace.fileno())["nsid"] == nsid:
                return candidate, int(link.get("link"))
        return None

    def vxlan_beside(self, index: int) -> int | None:
        """Return the VNI of the VXLAN on the bridge that a device is a port of."""
        (port,) = self._route.link("get", index=index)
        for link in self._route.get_links():
            info = link.get(("linkinfo", "data"))
            if link.get("master") == port.get("master") is not None and info is not None:
                vni = info.get("vxlan_id")
                if vni is not None:
                    return int(vni)
        return None


def _queue(rate_bps: float) -> int:
    return round(min(max(rate_bps / 8 * _QUEUE_S, _SMALLEST_QUEUE), _LARGEST_QUEUE))


@contextmanager
def _needs(what: str, module: str) -> Iterator[None]:
    try:
        yield
    except NetlinkError as error:
        if error.code not in {errno.EOPNOTSUPP, errno.ENOENT}:
            raise
        raise ProviderError(
            f"this machine's kernel has no {what}",
            cure=f"load the module as root: modprobe {module}; or use a kernel that has it",
        ) from error
