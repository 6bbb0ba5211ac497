"""A guest of the image, as it is after its start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from osmef.agent.client import deploy
from osmef.facts.collect import collect
from osmef.images.guest_image import GuestImage
from osmef.providers.cloud_init import Seed
from osmef.remote.login import KeyPair
from osmef.remote.session import SshSession
from tests.images.machine import MEMORY_MIB, booted


@dataclass(frozen=True)
class Guest:
    session: SshSession
    console: str

    def sh(self, line: str) -> str:
        done = self.session.run(["sh", "-c", line])
        assert done.status == 0, done.stderr.decode()
        return done.stdout.decode()


@pytest.fixture(scope="module")
def guest(guest_image: GuestImage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    user, host = KeyPair.generate("user"), KeyPair.generate("host")
    seed = Seed("vm-1.example", user.public, host)
    with booted(guest_image, tmp_path_factory.mktemp("guest"), seed) as machine:
        session = machine.session(user, host)
        yield Guest(session, machine.console)
        session.close()


def test_the_guest_has_the_hostname_of_the_seed(guest: Guest) -> None:
    assert guest.sh("hostname").strip() == "vm-1.example"
    assert "nobody can log in" not in guest.console


def test_it_has_an_address_by_dhcp(guest: Guest) -> None:
    assert "10.0.2.15/24" in guest.sh("ip -o -4 address show dev eth0")


def test_the_guest_provides_all_facts(guest: Guest) -> None:
    facts = collect(guest.session)
    assert facts["hostname"] == "vm-1.example"
    missing = [key for key, value in facts.items() if value is None]
    assert missing == []
    interfaces = facts["interfaces"]
    assert isinstance(interfaces, dict)
    card = interfaces["eth0"]
    assert isinstance(card, dict)
    assert card["driver"] == "virtio_net"
    assert card["offloads"]


def test_the_agent_measures_in_it(guest: Guest) -> None:
    agent = deploy(guest.session, "test")
    receiver = guest.session.start([agent.path, "recv", "--json"])
    assert json.loads(receiver.read_line() or "{}")["event"] == "listening"
    sent = guest.session.run([agent.path, "send", "127.0.0.1", "--duration", "0.5", "--json"])
    assert sent.status == 0, sent.stderr
    assert json.loads(sent.stdout.splitlines()[-1])["sending"]["flows"][0]["bytes"] > 0
    receiver.close()


@pytest.mark.parametrize(
    "line",
    [
        "tc qdisc add dev eth0 root netem delay 1ms && tc qdisc del dev eth0 root",
        "tc qdisc add dev eth0 root fq && tc qdisc del dev eth0 root",
        "tc qdisc add dev eth0 root htb && tc qdisc del dev eth0 root",
        "ip link add bond7 type bond mode balance-rr && ip link del bond7",
        "ip link add v7 type vxlan id 7 dstport 4789 && ip link del v7",
        "unshare --mount sh -c 'mount -t tmpfs none /sys/fs/cgroup'",
        "echo bbr >/proc/sys/net/ipv4/tcp_congestion_control",
    ],
)
def test_its_kernel_has_what_a_trial_may_need(guest: Guest, line: str) -> None:
    guest.sh(line)


def test_nothing_else_runs_in_it(guest: Guest) -> None:
    names = set(guest.sh("ps -e -o ppid=,comm= | sed -n '/^ *2 /!s/.* //p'").split())
    assert names <= {"init", "kthreadd", "busybox", "sshd", "sshd-session", "sh", "ps", "sed"}


def test_no_two_guests_share_a_secret(guest: Guest) -> None:
    assert guest.sh("ls /etc/ssh | grep -c host_ || true").strip() == "0"
    assert guest.sh("cut -d: -f2 /etc/shadow | sort -u").split() in (["*"], ["!", "*"])
    assert guest.sh("stat -c %a /run/osmef /run/osmef/authorized_keys").split() == ["700", "600"]


def test_its_memory_is_its_own(guest: Guest) -> None:
    total, used = map(int, guest.sh("free -m | sed -n 2p").split()[1:3])
    assert total > MEMORY_MIB * 0.75
    assert used < 64


@contextmanager
def said(image: GuestImage, directory: Path, words: str, *, disk: bool = True) -> Iterator[str]:
    with booted(image, directory, None, disk=disk) as machine:
        machine.wait_for(words)
        yield machine.console
        if not disk:
            assert machine.process.wait(30) == 0


def test_without_a_seed_the_console_shows_the_host_key_and_that_login_is_impossible(
    guest_image: GuestImage, tmp_path: Path
) -> None:
    with said(guest_image, tmp_path, "host key ssh-ed25519 AAAA") as console:
        assert "no seed disk brought a key: nobody can log in" in console


def test_without_a_disk_the_guest_reports_it_and_powers_off(
    guest_image: GuestImage, tmp_path: Path
) -> None:
    with said(guest_image, tmp_path, "no root file system on any virtio disk", disk=False):
        pass
