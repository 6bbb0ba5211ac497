"""A guest: a process tree with namespaces and files of its own, and sshd as its first process."""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from osmef.providers.local import kernel
from osmef.providers.local.netlink import Namespace
from osmef.providers.local.wire import GuestSpec

_FILES = Path("/run/osmef")
_HOME = Path("/run/home")
_NOBODY = 65534
_LOG_TAIL_BYTES = 600
_TCP_LISTEN = "0A"

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
MaxSessions 256
MaxStartups 256
Subsystem sftp internal-sftp
"""


@dataclass(frozen=True)
class Guest:
    """A started guest. Its first process is sshd, whose log is a file in memory."""

    spec: GuestSpec
    pid: int
    log: int

    def listens(self) -> bool:
        """Tell whether sshd listens on its address, as /proc/PID/net/tcp says (proc(5))."""
        packed = int.from_bytes(socket.inet_aton(self.spec.management), sys.byteorder)
        wanted = f"{packed:08X}:0016"
        try:
            lines = Path(f"/proc/{self.pid}/net/tcp").read_text().splitlines()[1:]
        except OSError:
            return False
        rows = (line.split() for line in lines)
        return any(row[1] == wanted and row[3] == _TCP_LISTEN for row in rows)

    def has_ended(self) -> bool:
        """Tell whether the first process, and so the whole guest, has ended."""
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True

    def log_tail(self) -> str:
        """Return the end of sshd's log, in one line."""
        size = os.fstat(self.log).st_size
        text = os.pread(self.log, _LOG_TAIL_BYTES, max(0, size - _LOG_TAIL_BYTES))
        return " / ".join(text.decode(errors="replace").split("\n")).strip(" /") or "no message"


def boot(spec: GuestSpec, namespace: Namespace) -> Guest:
    """Start a guest in a network namespace; it runs when sshd listens. Raises OSError."""
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
    return Guest(spec, pid, log)


def _become(spec: GuestSpec, namespace: Namespace, log: int) -> None:
    """Turn the forked child into the guest's sshd; an error goes to its log. Never returns."""
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
    """Let the login send echo requests without root, as systemd lets all users (icmp(7))."""
    gid = os.getgid()
    Path("/proc/sys/net/ipv4/ping_group_range").write_text(f"{gid} {gid}")


def _write_files(spec: GuestSpec) -> None:
    """Write what sshd needs to /run, and hide the machine's own accounts behind private ones."""
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
    """Map back to the user who started the controller: sshd can't be this namespace's root.

    A namespace that an ordinary user made has one user id only, so root's sshd could not give its
    unprivileged half another one (user_namespaces(7)).
    """
    inner_uid, inner_gid = os.getuid(), os.getgid()
    kernel.unshare(kernel.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {inner_uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {inner_gid} 1")
