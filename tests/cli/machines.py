"""Two machines of this one: sshds in network namespaces, one of them behind the other."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from osmef.providers.static.lock import PATH
from osmef.remote.login import KeyPair
from tests.processes import commands, descendants, pid_namespace, read_all
from tests.waiting import until

# In namespaces of its own: this one is the controller's, joined by a cable to machine a, and that
# by another one to machine b. Both have a home and a memory of their own.
LAB = """
set -e
mount -t tmpfs tmpfs /run
mkdir /run/netns /run/sshd
printf 'root:*:19000:0:99999:7:::\\n' >/run/shadow
mount --bind /run/shadow /etc/shadow
ip link set lo up
ip netns add a
ip netns add b
ip link add cable0 type veth peer name ctl0 netns a
ip -n a link add data0 type veth peer name data0 netns b
ip addr add 10.9.1.1/30 dev cable0
ip -n a addr add 10.9.1.2/30 dev ctl0
ip -n a addr add 10.9.3.1/30 dev data0
ip -n b addr add 10.9.3.2/30 dev data0
ip -n a addr add fd00:9::1/64 dev data0 nodad
ip -n b addr add fd00:9::2/64 dev data0 nodad
ip link set cable0 up
for n in 1 2; do
  ip link add nic$n netns a type veth peer name nic$n netns b
  for m in a b; do ip -n $m link set nic$n addrgenmode none; done
done
for m in a b; do
  ip -n $m link set lo up
  ip -n $m link set data0 up
done
ip -n a link set ctl0 up
for m in a b; do
  ip netns exec $m sh "$1/boot" "$1/$m" 2>>"$1/$m/log" &
done
for m in a b; do
  until grep -q 'listening on 0' "$1/$m/log"; do sleep 0.05; done
done
echo ready
exec cat
"""
BOOT = """
mount --bind $1/shm /dev/shm; mount --bind $1/home /root
exec {first}/usr/sbin/sshd -D -e -f $1/config
"""
ALONE = "unshare --pid --fork --kill-child --mount-proc "
"""So the machine has a first process of its own."""
SSHD = """
ListenAddress 0.0.0.0
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
UsePAM no
PidFile none
Subsystem sftp internal-sftp
"""
CONFIG = """
Host node-*
  User root
  IdentityFile ~/.ssh/lab
  IdentitiesOnly yes
Host node-a
  HostName 10.9.1.2
Host node-b
  HostName 10.9.3.2
  ProxyJump node-a
"""


@dataclass
class Lab:
    """Two machines, and what reaches the controller's namespace."""

    folder: Path
    prefix: tuple[str, ...]
    keys: dict[str, str]
    """The public host key of each machine."""

    def on(self, machine: str, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a program in the network of a machine."""
        inside = (*self.prefix, "ip", "netns", "exec", machine)
        return subprocess.run([*inside, *argv], capture_output=True, text=True, check=False)

    def switch_off(self, machine: str) -> None:
        """Kill all that runs on a machine; its memory is lost, and so is its home."""
        listener = self.listener(machine)
        for pid in (listener, *descendants(listener)):
            with suppress(ProcessLookupError):  # some end with their parents
                os.kill(pid, signal.SIGKILL)
        for inner in ("home", "shm"):
            for left in (self.folder / machine / inner).iterdir():
                shutil.rmtree(left) if left.is_dir() else left.unlink()

    def hang_up(self, machine: str) -> None:
        """Kill the sshd of each connection to a machine, and nothing that was started there."""
        for pid in descendants(self.listener(machine), "sshd"):
            with suppress(ProcessLookupError):  # some end with their parents
                os.kill(pid, signal.SIGKILL)

    def kill(self, controller: subprocess.Popen[str]) -> None:
        """Kill a controller, and what would clean up after it, as if all had lost their power."""

        def waiting() -> list[int]:
            agents = [pid for pid, words in commands().items() if words[1:2] == [b"cleanup"]]
            here = {pid_namespace(self.listener(machine)) for machine in "ab"}
            return [pid for pid in agents if pid_namespace(pid) in here]

        until(lambda: len(waiting()) == 2)
        for pid in waiting():
            os.kill(pid, signal.SIGKILL)
        controller.kill()
        controller.wait()

    def plug(self, state: str) -> None:
        """Have the cable between the controller and the machines ``up`` or ``down``."""
        subprocess.run([*self.prefix, "ip", "link", "set", "cable0", state], check=True)

    def listener(self, machine: str) -> int:
        """Return the sshd of a machine that waits for connections."""
        config = f"{self.folder}/{machine}/config".encode()
        (listener,) = [pid for pid, text in read_all("cmdline") if config in text]
        return listener

    @contextmanager
    def switched_on(self, machine: str) -> Iterator[None]:
        """Have a machine run again."""
        folder = self.folder / machine
        inside = (*self.prefix, "ip", "netns", "exec", machine, "sh", f"{self.folder}/boot")
        with subprocess.Popen([*inside, str(folder)], stderr=subprocess.PIPE, text=True) as booted:
            assert booted.stderr is not None
            try:
                assert any("listening on 0" in line for line in booted.stderr)
                yield
            finally:
                for pid in (booted.pid, *descendants(booted.pid)):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    def edit(self, file: str, old: str, new: str) -> None:
        """Change what the controller's user has in a file of ~/.ssh."""
        path = self.folder / "home/.ssh" / file
        path.write_text(path.read_text().replace(old, new))

    def log(self, machine: str) -> str:
        """Return what the sshd of a machine has said."""
        return (self.folder / machine / "log").read_text(errors="replace")

    def left(self) -> list[str]:
        """List what is on the machines."""
        kept = [path for m in "ab" for path in (self.folder / m / "home").iterdir()]
        locks = [self.folder / m / "shm" / Path(PATH).name for m in "ab"]
        return [str(path) for path in kept] + [str(lock) for lock in locks if lock.is_symlink()]


@contextmanager
def two_machines(tmp_path: Path, first: str = "") -> Iterator[Lab]:
    """Have two machines, or skip the test where only root could. ``first`` starts each sshd."""
    if os.geteuid() != 0:
        pytest.skip("only root can make two machines of this one")
    if not all(map(shutil.which, ("ip", "nsenter", "unshare", "sshd"))):
        pytest.skip(
            "no ip, nsenter, unshare or sshd (Debian: iproute2, util-linux, openssh-server)"
        )
    user = KeyPair.generate("user")
    home = tmp_path / "home" / ".ssh"
    home.mkdir(parents=True)
    (home / "config").write_text(CONFIG)
    (home / "lab").write_text(user.private)
    (tmp_path / "boot").write_text(BOOT.format(first=first))
    keys = {}
    for name, address in (("a", "10.9.1.2"), ("b", "10.9.3.2")):
        folder, host = tmp_path / name, KeyPair.generate(name)
        for inner in ("home", "shm"):
            (folder / inner).mkdir(parents=True)
        (folder / "config").write_text(SSHD.format(folder=folder))
        (folder / "authorized_keys").write_text(user.public)
        (folder / "host_key").write_text(host.private)
        (folder / "host_key").chmod(0o600)
        (folder / "log").touch()
        keys[name] = f"{address} {host.public}\n"
    (home / "known_hosts").write_text("".join(keys.values()))
    argv = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    process = subprocess.Popen(
        [*argv, "sh", "-c", LAB, "sh", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        inside = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().strip()
        enter = ("nsenter", "--target", inside, "--net", "--mount", f"--wdns={tmp_path}")
        yield Lab(tmp_path, (*enter, "env", "-u", "SSH_AUTH_SOCK", f"HOME={tmp_path}/home"), keys)
        process.kill()
