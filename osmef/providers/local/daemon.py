"""The sandbox's first process: serves the controller's requests, and ends with it.

Its standard input is the channel to the controller. When the other end closes, for whatever
reason, this process exits at once, and the kernel ends all that lives in the sandbox.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import time
import traceback
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from osmef.errors import ProviderError, limit_cure
from osmef.programs import TERMINAL_SIGNALS
from osmef.providers.local import kernel, wire
from osmef.providers.local.addresses import IPV6_PREFIX_LENGTH, has_ipv6, ipv6_of
from osmef.providers.local.kernel import OVERLAY_MTU, Namespace, Netlink
from osmef.providers.local.wire import CloudSpec, GuestSpec, HostSpec, TenantSpec

_FILES = Path("/run/osmef")
_HOME = Path("/run/home")
_NOBODY = 65534
_LOG_TAIL_BYTES = 600

_SSHD_CONFIG = """\
Port 22
ListenAddress {management}
HostKey {files}/host_key
AuthorizedKeysFile {files}/authorized_keys
AuthenticationMethods publickey
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
DisableForwarding yes
PidFile none
PrintMotd no
PrintLastLog no
UseDNS no
LogLevel INFO
MaxSessions 256
MaxStartups 256
Subsystem sftp internal-sftp
"""


@dataclass(frozen=True)
class GuestProcess:
    """A started guest. Its first process is sshd, which logs to a memfd."""

    spec: GuestSpec
    pid: int
    log: int

    def listens(self) -> bool:
        """Return whether sshd has logged that it listens on its address.

        Asking the kernel (/proc/PID/net/tcp) takes milliseconds, as it walks through the tables of
        the whole machine.
        """
        return f"listening on {self.spec.management} port 22." in self._said()

    def _said(self) -> str:
        size = os.fstat(self.log).st_size
        text = os.pread(self.log, _LOG_TAIL_BYTES, max(0, size - _LOG_TAIL_BYTES))
        return text.decode(errors="replace")

    def has_ended(self) -> bool:
        """Return whether the first process, and so the whole guest, has ended."""
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True

    def log_tail(self) -> str:
        """Return the end of sshd's log, in one line."""
        return " / ".join(self._said().split("\n")).strip(" /") or "no message"


def boot(spec: GuestSpec, namespace: Namespace) -> GuestProcess:
    """Start a guest in a network namespace, whose sshd listens later. Raises OSError."""
    log = os.memfd_create(f"sshd-{spec.name}")
    home = os.open("/proc/self/ns/pid", os.O_RDONLY)
    # Only children are born in the new process namespace; afterwards ours is set back.
    kernel.unshare(kernel.CLONE_NEWPID)
    try:
        pid = os.fork()
        if pid == 0:
            _become(spec, namespace, log)
    finally:
        kernel.setns(home, kernel.CLONE_NEWPID)
        os.close(home)
    return GuestProcess(spec, pid, log)


def _become(spec: GuestSpec, namespace: Namespace, log: int) -> None:
    """Exec sshd in the forked child; an error goes to its log. Never returns."""
    try:
        os.setsid()
        for number in (1, 2):
            os.dup2(log, number)
        namespace.enter()
        kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC)
        socket.sethostname(spec.hostname)
        _mount_own()
        _allow_ping()
        _write_files(spec)
        os.sched_setaffinity(0, spec.cpus)
        if spec.rootless:
            _become_user(spec.uid, spec.gid)
        # Python ignores SIGPIPE, and what is ignored stays so in every program started from here.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.chdir(_HOME)
        command = [spec.sshd, "-D", "-e", "-f", str(_FILES / "sshd_config")]
        os.execve(spec.sshd, command, {"PATH": os.environ["PATH"]})  # noqa: S606 - no shell needed
    except OSError as error:
        os.write(log, str(error).encode())
    except BaseException:
        os.write(log, traceback.format_exc().encode())
    finally:
        os._exit(1)


def _mount_own() -> None:
    safe = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("proc", "/proc", "proc", safe | kernel.MS_NOEXEC)
    # Without it /sys/class/net would show another namespace's devices.
    kernel.mount("sysfs", "/sys", "sysfs", safe | kernel.MS_NOEXEC | kernel.MS_RDONLY)
    kernel.mount("tmpfs", "/run", "tmpfs", safe, "mode=0755")


def _allow_ping() -> None:
    """Permit unprivileged echo requests, as systemd does (icmp(7))."""
    gid = os.getgid()
    Path("/proc/sys/net/ipv4/ping_group_range").write_text(f"{gid} {gid}")


def _write_files(spec: GuestSpec) -> None:
    """Write sshd's files to /run, and private accounts over the machine's own."""
    os.umask(0o022)
    _FILES.mkdir(mode=0o700)
    _HOME.mkdir(mode=0o700)
    Path("/run/sshd").mkdir(mode=0o755)
    for name, text in {
        "sshd_config": _SSHD_CONFIG.format(files=_FILES, management=spec.management),
        "authorized_keys": spec.authorized_key + "\n",
        "host_key": spec.host_key,
    }.items():
        path = _FILES / name
        path.touch(mode=0o600)
        path.write_text(text)
    accounts = {
        "passwd": f"{spec.user}:x:{spec.uid}:{spec.gid}::{_HOME}:/bin/sh\n"
        f"sshd:x:{_NOBODY}:{_NOBODY}::/run/sshd:/bin/false\n",
        "group": f"{spec.user}:x:{spec.gid}:\nnogroup:x:{_NOBODY}:\n",
        "shadow": f"{spec.user}:*:::::::\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
        "hosts.allow": "",
        "hosts.deny": "",
    }
    for name, text in accounts.items():
        if Path("/etc", name).exists():  # a file that is not there can't be hidden, nor disturb
            private = _FILES / f"etc-{name}"
            private.write_text(text)
            kernel.mount(str(private), f"/etc/{name}", None, kernel.MS_BIND)


def _become_user(uid: int, gid: int) -> None:
    """Map back to the controller's user: sshd can't be this namespace's root.

    A namespace that an ordinary user made has one user id only, so root's sshd could not give its
    unprivileged half another one (user_namespaces(7)).
    """
    inner_uid, inner_gid = os.getuid(), os.getgid()
    kernel.unshare(kernel.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {inner_uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {inner_gid} 1")


_MTU = 1500
_READY_S = 15.0
_CONNECT_S = 5.0
_POLL_S = 0.005
_PHYSICAL, _MANAGEMENT = "phys", "mgmt"


def first_address(network: str) -> str:
    """Return the first usable address of a network in CIDR form: its gateway."""
    return str(IPv4Network(network)[1])


def _prefix_length(network: str) -> int:
    return IPv4Network(network).prefixlen


def _give_address(namespace: Namespace, device: str, address: str, network: str) -> None:
    """Assign a device its address in a network, with the derived IPv6 address."""
    if has_ipv6():
        namespace.set_sysctls({f"ipv6/conf/{device}/disable_ipv6": 0})
    with namespace.netlink() as net:
        net.add_address(device, address, _prefix_length(network))
        if has_ipv6():
            net.add_address(device, ipv6_of(address), IPV6_PREFIX_LENGTH)


class EmulatedCloud:
    """Everything in one sandbox."""

    def __init__(self, spec: CloudSpec) -> None:
        """Create the networks. Raises ProviderError, NetlinkError or OSError."""
        self._spec = spec
        self._hosts: dict[str, Namespace] = {}
        self._guests: dict[str, GuestProcess] = {}
        self._ports: dict[str, list[tuple[str, str]]] = {host.name: [] for host in spec.hosts}
        self._media: dict[str, str | None] = {}
        self._tenants = {tenant.name: tenant for tenant in spec.tenants}
        self._own_namespace = Namespace.of_process("self")
        with self._own_namespace.netlink() as net:
            net.up("lo")
            net.add_bridge(_PHYSICAL)
            net.add_bridge(_MANAGEMENT)
            net.add_address(
                _MANAGEMENT, first_address(spec.management), _prefix_length(spec.management)
            )
            for number, host in enumerate(spec.hosts):
                self._hosts[host.name] = self._add_host(net, f"port{number}", host, forward=False)
                self._ports[host.name].append((f"port{number}", _PHYSICAL))
                self._limit(self._hosts[host.name])
            node = self._add_host(net, "portn", spec.network_node, forward=True)
            with node.netlink() as there:
                there.limit_rate("eth0", spec.link_rate_bps)
        for tenant in spec.tenants:
            self._add_tenant(tenant, node)

    def _add_host(self, net: Netlink, port: str, host: HostSpec, *, forward: bool) -> Namespace:
        namespace = Namespace.create(ip_forward=int(forward))
        net.add_veth(port, _PHYSICAL, namespace, "eth0", _MTU)
        net.limit_rate(port, self._spec.link_rate_bps)
        _give_address(namespace, "eth0", host.address, self._spec.physical)
        return namespace

    def _limit(self, host: Namespace) -> None:
        """Shape a host's egress to the rate of its link, or by its token bucket."""
        spec = self._spec
        with host.netlink() as net:
            if spec.burst_bytes is None:
                net.limit_rate("eth0", spec.link_rate_bps)
            else:
                bucket = (spec.burst_bytes, spec.filling_bps)
                net.limit_bursts("eth0", spec.link_rate_bps, *bucket)

    def _add_tenant(self, tenant: TenantSpec, node: Namespace) -> None:
        addresses = {host.name: host.address for host in self._spec.hosts}
        tunnels = [(self._hosts[name], addresses[name]) for name in tenant.hosts]
        tunnels.append((node, self._spec.network_node.address))
        for namespace, address in tunnels:
            with namespace.netlink() as net:
                device = f"vxlan{tenant.vni}"
                peers = [other for _, other in tunnels if other != address]
                net.add_bridge(tenant.name)
                net.add_vxlan(device, tenant.vni, "eth0", address, peers)
                net.attach(device, tenant.name)
        _give_address(node, tenant.name, first_address(tenant.network), tenant.network)

    def boot(self, spec: GuestSpec) -> None:
        """Attach a guest to its networks and start it."""
        number, tenant = len(self._guests), self._tenants[spec.tenant]
        host = self._hosts[spec.host]
        # An ordinary user's sshd may listen on port 22 only where this says so.
        ports = {"ip_unprivileged_port_start": 22} if spec.rootless else {}
        if spec.on_host:
            namespace, device = host, tenant.name
            host.set_sysctls({f"ipv4/{name}": value for name, value in ports.items()})
        else:
            namespace, device = Namespace.create(**ports), "eth0"
            with host.netlink() as net:
                net.add_veth(f"vm{number}", tenant.name, namespace, "eth0", OVERLAY_MTU)
        _give_address(namespace, device, spec.address, tenant.network)
        gateway = first_address(tenant.network)
        with namespace.netlink() as net:
            net.add_default_route(gateway)
            if has_ipv6():
                net.add_default_route(ipv6_of(gateway))
        with self._own_namespace.netlink() as net:
            net.add_veth(f"mgmt{number}", _MANAGEMENT, namespace, "mgmt0", _MTU)
        with namespace.netlink() as net:
            net.add_address("mgmt0", spec.management, _prefix_length(self._spec.management))
        for nic, switch in enumerate(spec.nics):
            port = self._add_nic(namespace, f"{number}x{nic}", switch, wire.nic_name(nic))
            self._ports[spec.host].append((port, switch))
        self._guests[spec.name] = boot(spec, namespace)

    def _add_nic(self, namespace: Namespace, number: str, switch: str, name: str) -> str:
        """Attach a further card to a switch by a link of its own, and return the port there.

        The link is a bridge of two ports, each of which holds one direction to the rate: a rate on
        the guest's own end is lost when that is moved into a namespace.
        """
        link, near, far = (f"{end}{number}" for end in ("link", "near", "far"))
        with self._own_namespace.netlink() as net:
            if not net.has(switch):
                net.add_bridge(switch)
            net.add_bridge(link)
            net.add_veth(near, link, namespace, name, _MTU)
            net.add_veth(far, link, self._own_namespace, f"sw{number}", _MTU)
            net.attach(f"sw{number}", switch)
            for port in (near, far):
                net.limit_rate(port, self._spec.link_rate_bps)
        return near

    def prepare(self, hosts: list[str], *, in_turns: bool) -> None:
        """Let hosts share one medium on each switch, at the rate of a link, or end that."""
        medium = f"turn{list(self._hosts).index(hosts[0])}" if in_turns else None
        with self._own_namespace.netlink() as net:
            for host in hosts:
                for port, switch in self._ports[host]:
                    self._join(net, port, None if medium is None else f"{medium}{switch}")

    def _join(self, net: Netlink, port: str, medium: str | None) -> None:
        """Redirect the ingress of a port through a medium, or through none."""
        before = self._media.get(port)
        if medium == before:
            return
        if before is not None:
            net.leave(port)
            self._media[port] = None
        if medium is not None:
            if not net.has(medium):
                net.add_medium(medium, self._spec.link_rate_bps)
            net.share(port, medium)
        self._media[port] = medium

    def wait_ready(self) -> None:
        """Wait until each guest's sshd listens. Raises ProviderError with the end of its log."""
        deadline = time.monotonic() + _READY_S
        for one in self._guests.values():
            while not one.listens():
                if one.has_ended() or time.monotonic() > deadline:
                    raise ProviderError(
                        f"sshd does not start: {one.log_tail()}",
                        where=one.spec.name,
                        cure=f"try '{one.spec.sshd} -t' on this machine",
                    )
                time.sleep(_POLL_S)

    def connect(self, name: str) -> socket.socket:
        """Open a connection from the management network to a guest's sshd. Raises OSError."""
        address = self._guests[name].spec.management
        sock = socket.create_connection((address, 22), timeout=_CONNECT_S)
        sock.settimeout(None)
        return sock

    def locate(self, name: str) -> tuple[str, str | None] | None:
        """Read back the host and the tenant of a guest from the kernel; None once it has ended.

        A guest whose process is in a host's namespace is that host. A VM is where the other end of
        its eth0 is, and its tenant is the one of the VXLAN on that bridge.
        """
        if self._guests[name].has_ended():
            return None
        try:
            namespace = Namespace.of_process(self._guests[name].pid)
        except OSError as error:
            raise ProviderError("the endpoint's processes are gone", where=name) from error
        try:
            for host, candidate in self._hosts.items():
                if candidate.identity == namespace.identity:
                    return host, None
            with namespace.netlink() as net:
                found = net.peer("eth0", self._hosts)
        finally:
            namespace.close()
        if found is None:
            raise ProviderError("the VM's veth has no peer on a host", where=name)
        host, index = found
        with self._hosts[host].netlink() as net:
            vni = net.vxlan_beside(index)
        return host, next((one.name for one in self._spec.tenants if one.vni == vni), None)


def _exit_with_controller(channel: socket.socket) -> None:
    """Exit on the channel's end, even during work (signal-driven I/O, fcntl(2))."""
    poll = select.poll()
    poll.register(channel, 0)

    def look(_signal: int = 0, _frame: object = None) -> None:
        if poll.poll(0):
            os._exit(0)

    signal.signal(signal.SIGIO, look)
    fcntl.fcntl(channel, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(channel, fcntl.F_SETFL, fcntl.fcntl(channel, fcntl.F_GETFL) | os.O_ASYNC)
    look()


class _Daemon:
    """The requests, one method each. An answer may carry one file descriptor."""

    def __init__(self) -> None:
        self._cloud: EmulatedCloud | None = None

    @property
    def cloud(self) -> EmulatedCloud:
        if self._cloud is None:
            raise ProviderError("the sandbox has no cloud yet")
        return self._cloud

    def answer(self, request: dict[str, Any]) -> tuple[dict[str, Any], socket.socket | None]:
        """Serve one request."""
        match request:
            case {"do": "build", "cloud": spec}:
                # Imported late, so that a controller that is gone by now is noticed before.
                from osmef.providers.local.daemon import EmulatedCloud  # noqa: PLC0415

                self._cloud = EmulatedCloud(wire.cloud_from(spec))
            case {"do": "boot", "guest": spec}:
                self.cloud.boot(wire.guest_from(spec))
            case {"do": "prepare", "hosts": hosts, "in_turns": in_turns}:
                self.cloud.prepare(hosts, in_turns=in_turns)
            case {"do": "wait"}:
                self.cloud.wait_ready()
            case {"do": "connect", "name": name}:
                return {}, self.cloud.connect(name)
            case {"do": "locate", "name": name}:
                return {"place": self.cloud.locate(name)}, None
            case _:
                raise ProviderError(f"the sandbox does not know {request.get('do')!r}")
        return {}, None

    def serve(self, channel: socket.socket) -> None:
        """Serve requests until the channel closes."""
        while True:
            try:
                request, _ = wire.receive(channel)
            except EOFError:
                return
            try:
                reply, sock = self.answer(request)
            except ProviderError as error:
                failure = {"message": error.message, "where": error.where, "cure": error.cure}
                reply, sock = {"error": failure}, None
            except OSError as error:
                failure = {"message": str(error), "where": None, "cure": limit_cure(error)}
                reply, sock = {"error": failure}, None
            wire.send(channel, reply, [sock.fileno()] if sock else [])
            if sock:
                sock.close()


def main() -> None:
    """Serve the channel on standard input."""
    channel = socket.socket(fileno=os.dup(0))
    with Path(os.devnull).open("rb") as null:
        os.dup2(null.fileno(), 0)
    _exit_with_controller(channel)
    # The terminal's Ctrl-C is the controller's business.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, TERMINAL_SIGNALS)  # guests have theirs as usual
    _Daemon().serve(channel)


if __name__ == "__main__":
    main()
