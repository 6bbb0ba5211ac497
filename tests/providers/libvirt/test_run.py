"""Whole runs on real guests: QEMU emulates them, libvirtd is real."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from osmef.errors import ProviderError
from osmef.images.guest_image import GuestImage
from osmef.providers.libvirt.provider import LibvirtProvider
from osmef.providers.libvirt.storage import find_iso_tool
from tests.cli.conftest import Osmef
from tests.libvirt.lab import LAN, Hypervisor, Lab

ONE_HOST = """
name: one-host
placement: same-host
workload: {{kind: btc, duration: {duration}, interval: 500ms, congestion_control: {control}}}
repeat: 1
provider:
  kind: libvirt
  uri: "{alpha.uri}"
  image: {image}
  flavors: {{tiny: {{vcpus: 1, ram: 256MiB}}}}
"""
HOST_ITSELF = """
  hosts:
    metal:
      ssh: "root@{alpha.address}"
      identity: "{alpha.directory}/user_key"
      known_hosts: "{alpha.directory}/known_hosts"
      location: {{host: hypervisor}}
endpoints: {{sender: {{}}, receiver: {{kind: host}}}}
"""
# For 16 bits, at 0x7c00: write each character of the text behind it to the first serial port.
BOOT_SECTOR = (
    bytes.fromhex("31c0 8ed8 be157c ac 08c0 7406 baf803 ee ebf5 f4 ebfd")
    + b"hello from the disk\r\n\0"
)
TWO_HOSTS = """
name: two-hosts
provider:
  kind: libvirt
  uris: {{alpha: "{alpha.uri}", beta: "{beta.ssh_uri}"}}
  image: {image}
  networks: [{{bridge: br-lan, addresses: {lan}.100-{lan}.109/24}}]
  flavors: {{tiny: {{vcpus: 1, ram: 256MiB}}}}
workload: {{kind: btc, duration: 1s, interval: 500ms}}
sweep: {{placement: [same-host, different-host]}}
repeat: 1
"""


def left(hypervisor: Hypervisor) -> list[str]:
    """List what is on a hypervisor: of runs by their mark, guests, networks, pools, and files."""
    marked = [one.name for one in LibvirtProvider.owned({"uri": hypervisor.uri})]
    everything = [
        hypervisor.run("virsh", *command).split()
        for command in (
            ("list", "--all", "--name"),
            ("net-list", "--all", "--name"),
            ("pool-list", "--all", "--name"),
        )
    ]
    filters = hypervisor.run("virsh", "nwfilter-list")
    kept = hypervisor.run("sh", "-c", "ls /var/lib/libvirt/images 2>/dev/null || true").split()
    names = [name for some in everything for name in some] + kept
    return marked + names + [word for word in filters.split() if word.startswith("osmef")]


@pytest.fixture
def hypervisors(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """The hypervisors, on which there is nothing before and after; ssh gets to beta."""
    monkeypatch.setenv("PATH", lab["beta"].path)
    yield lab
    assert [left(one) for one in lab.hypervisors] == [[], []]


def values(hypervisors: Lab, image: GuestImage) -> dict[str, Any]:
    alpha, beta = hypervisors.hypervisors
    return {
        "alpha": alpha,
        "beta": beta,
        "image": image.directory,
        "lan": LAN,
        "duration": "1s",
        "control": "reno",
    }


def test_two_tenants_of_one_host_with_what_only_the_kernel_of_the_guests_has(
    osmef: Osmef, hypervisors: Lab, guest_image: GuestImage
) -> None:
    text = ONE_HOST + "sweep: {{tenancy: [same-tenant, different-tenant]}}\n"
    text = text.format(**(values(hypervisors, guest_image) | {"control": "cubic"}))
    ended = osmef("run", osmef.write(text), prefix=hypervisors["alpha"].network)
    assert ended.code == 0, ended.err
    summary = osmef.summary
    assert [cell["n_ok"] for cell in summary["cells"]] == [1, 1]
    assert [cell["distance"] for cell in summary["cells"]] == [0, 4]
    notes = " ".join(ended.out.split())
    assert "QEMU emulates the CPUs (TCG)" in notes
    assert "it turns on net.ipv4.ip_forward on the host" in notes
    trials = osmef.trials
    assert {flow["congestion_control"] for t in trials for flow in _flows(t)} == {"cubic"}
    subnets = {one["data_address"].rpartition(".")[0] for one in summary["endpoints"]}
    assert len(subnets) == 2


def _flows(trial: Any) -> list[Any]:
    found = []
    if isinstance(trial, dict):
        if "congestion_control" in trial:
            found.append(trial)
        for value in trial.values():
            found += _flows(value)
    elif isinstance(trial, list):
        for value in trial:
            found += _flows(value)
    return found


def test_two_hosts_one_of_them_by_ssh(
    osmef: Osmef, hypervisors: Lab, guest_image: GuestImage
) -> None:
    scenario = osmef.write(TWO_HOSTS.format(**values(hypervisors, guest_image)))
    ended = osmef("run", scenario, prefix=hypervisors["alpha"].network)
    assert ended.code == 0, ended.err
    summary = osmef.summary
    assert [cell["n_ok"] for cell in summary["cells"]] == [1, 1]
    hosts = {one["name"]: one["achieved"]["host"] for one in summary["endpoints"]}
    assert sorted(hosts.values()) == ["alpha", "alpha", "beta"]


@pytest.mark.parametrize("moment", ["sending the image", "starting 2 guests", "measuring"])
def test_after_kill_9_reap_cleans_the_host(
    osmef: Osmef, hypervisors: Lab, guest_image: GuestImage, moment: str
) -> None:
    alpha = hypervisors["alpha"]
    text = ONE_HOST.format(**(values(hypervisors, guest_image) | {"duration": "60s"}))
    process = osmef.start("run", osmef.write(text), prefix=alpha.network)
    osmef.until(process, moment)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert left(alpha)
    ended = osmef("reap", "--yes", prefix=alpha.network)
    assert ended.code == 0, ended.err
    assert left(alpha) == []


def test_after_kill_9_reap_cleans_every_host(
    osmef: Osmef, hypervisors: Lab, guest_image: GuestImage
) -> None:
    alpha, beta = hypervisors.hypervisors
    text = TWO_HOSTS.replace("{{placement: [same-host, different-host]}}", "{{connections: [1]}}")
    scenario = osmef.write(text.format(**values(hypervisors, guest_image)))
    process = osmef.start("run", scenario, prefix=alpha.network)
    osmef.until(process, "starting 2 guests")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert left(alpha)
    assert left(beta)
    ended = osmef("reap", "--yes", prefix=alpha.network)
    assert ended.code == 0, ended.err
    assert (left(alpha), left(beta)) == ([], [])


def test_the_network_of_a_remote_host_is_reached_through_it(
    osmef: Osmef, hypervisors: Lab, guest_image: GuestImage, tmp_path: Path
) -> None:
    alpha, beta = hypervisors.hypervisors
    forwarding = "/proc/sys/net/ipv4/ip_forward"
    beta.run("sh", "-c", f"echo 0 >{forwarding}")
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/config").write_text((beta.directory / "ssh_config").read_text())
    text = ONE_HOST.replace("{alpha.uri}", "{beta.ssh_uri}")
    scenario = osmef.write(text.format(**values(hypervisors, guest_image)))
    ended = osmef("run", scenario, prefix=(*alpha.network, "env", f"HOME={home}"))
    assert ended.code == 0, ended.err
    assert osmef.summary["cells"][0]["n_ok"] == 1
    assert beta.run("cat", forwarding) == "0\n", "one tenant needs no router"


def test_ctrl_c_while_guests_start_leaves_nothing(
    osmef: Osmef, hypervisors: Lab, guest_image: GuestImage
) -> None:
    alpha = hypervisors["alpha"]
    text = ONE_HOST.format(**values(hypervisors, guest_image))
    process = osmef.start("run", osmef.write(text), prefix=alpha.network)
    osmef.until(process, "starting 2 guests")
    osmef.interrupt(process, signal.SIGINT)
    assert osmef.finish(process).code == 4
    assert left(alpha) == []


def test_a_disk_image_boots_and_a_guest_that_stays_silent_is_reported(
    osmef: Osmef, hypervisors: Lab, guest_image: GuestImage, tmp_path: Path
) -> None:
    try:
        find_iso_tool()
    except ProviderError as error:
        pytest.skip(str(error))
    disk = tmp_path / "disk.img"
    disk.write_bytes(BOOT_SECTOR.ljust(510, b"\0") + b"\x55\xaa" + bytes(1 << 20))
    text = ONE_HOST + "  boot_timeout: 6s\n"
    text = text.format(**(values(hypervisors, guest_image) | {"image": disk}))
    ended = osmef("run", osmef.write(text), prefix=hypervisors["alpha"].network)
    assert ended.code == 3
    assert "  | hello from the disk" in ended.err
    assert "boot_timeout" in ended.err


def test_a_daemon_that_is_killed_in_the_middle_and_comes_back(
    osmef: Osmef, hypervisors: Lab, guest_image: GuestImage
) -> None:
    alpha = hypervisors["alpha"]
    text = ONE_HOST.format(**values(hypervisors, guest_image))
    process = osmef.start("run", osmef.write(text), prefix=alpha.network)
    osmef.until(process, "starting 2 guests")
    alpha.kill_libvirtd()
    alpha.start_libvirtd()
    ended = osmef.finish(process)
    assert ended.code == 0, ended.err


def test_a_guest_measures_with_the_host_that_it_stands_on(
    osmef: Osmef, hypervisors: Lab, guest_image: GuestImage
) -> None:
    alpha = hypervisors["alpha"]
    text = ONE_HOST + HOST_ITSELF
    scenario = osmef.write(text.format(**values(hypervisors, guest_image)))
    ended = osmef("run", scenario, prefix=alpha.network)
    assert ended.code == 0, ended.err
    summary = osmef.summary
    assert [cell["n_ok"] for cell in summary["cells"]] == [1]
    assert [cell["distance"] for cell in summary["cells"]] == [0]


def test_a_guest_that_never_boots_leaves_its_console(
    osmef: Osmef, hypervisors: Lab, guest_image: GuestImage, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in guest_image.directory.iterdir():
        if file != guest_image.initrd:
            shutil.copyfile(file, broken / file.name)
    (broken / guest_image.initrd.name).write_bytes(bytes(guest_image.initrd.stat().st_size))
    text = ONE_HOST.format(**(values(hypervisors, guest_image) | {"image": broken}))
    ended = osmef("run", osmef.write(text), prefix=hypervisors["alpha"].network)
    assert ended.code == 3
    assert "the guest does not run any more. The end of its console" in ended.err
    assert "Kernel panic" in ended.err
    (console, *_) = (osmef.run / "logs").iterdir()
    assert "Kernel panic" in console.read_text()
