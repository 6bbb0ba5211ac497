"""Bonds between guests with Debian's kernel, which has the module."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from osmef.images.guest_image import GuestImage
from osmef.providers.base import Endpoint, EndpointRequest, Resource, RunContext
from osmef.providers.libvirt.provider import LibvirtProvider
from osmef.remote.login import KeyPair
from osmef.remote.session import SshSession
from osmef.scenario.clouds.libvirt import LibvirtSettings
from osmef.scenario.fields import EndpointKind
from tests.cli.conftest import Osmef
from tests.libvirt.lab import Hypervisor, Lab
from tests.waiting import until

ON_LIBVIRT = """
name: bonds
placement: same-host
endpoints: {{sender: {{nics: 2}}, receiver: {{nics: 2}}}}
workload: {{kind: btc, duration: 500ms, interval: 500ms}}
sweep:
  layer:
    - {{kind: bond, rate: 50Mbit/s}}
    - {{kind: bond, mode: active-backup}}
    - [vxlan, {{kind: bond, mode: balance-xor, hash: layer3+4}}]
repeat: 1
provider:
  kind: libvirt
  uri: "{uri}"
  image: {image}
  flavors: {{tiny: {{vcpus: 1, ram: 256MiB}}}}
"""
ON_HOSTS = """
name: bonds
endpoints: {sender: {kind: host, nics: 2}, receiver: {kind: host, nics: 2}}
workload: {kind: btc, duration: 60s}
layer: bond
repeat: 1
provider: {kind: static, inventory: hosts.yaml}
"""
STATE = (
    ("ip", "-j", "link"),
    ("ip", "-j", "address"),
    ("ip", "-j", "route", "show", "table", "all"),
    ("ip", "netns", "list"),
)


def test_bonds_between_guests(lab: Lab, guest_image: GuestImage, osmef: Osmef) -> None:
    osmef.end_s = 600.0
    alpha = lab["alpha"]
    text = ON_LIBVIRT.format(uri=alpha.uri, image=guest_image.directory)
    ended = osmef("run", osmef.write(text), prefix=alpha.network)
    assert ended.code == 0, ended.err
    trials = {trial["values"]["layer"]: trial for trial in osmef.trials}
    sent = {
        layer: [one["tx_packets"] for one in trial["interfaces"] if one["name"].startswith("eth")]
        for layer, trial in trials.items()
    }
    assert {len(packets) for packets in sent.values()} == {4}, "two cards at two endpoints"
    even = trials["bond(rate=50Mbit/s)"]["metrics"]
    assert 50 <= even["bond_busiest_nic_percent"] < 60
    assert even["aggregate_btc_bps"] < 110e6
    backup = trials["bond(mode=active-backup)"]["metrics"]
    assert backup["bond_busiest_nic_percent"] > 99
    assert backup["bond_out_of_order_percent"] == 0
    facts = next((osmef.run / "facts" / "00000").iterdir())
    layers = json.loads(facts.read_text())["layers"]
    stack = layers["vxlan+bond(mode=balance-xor hash=layer3+4)"]
    assert stack["vxlan"]["mtu_bytes"] == 1450
    cards = layers["bond(mode=active-backup)"]["bond(mode=active-backup)"]["nics"]
    assert {name: card["mii_status"] for name, card in cards.items()} == {
        "eth1": "UP",
        "eth2": "UP",
    }


def test_the_kernel_s_own_balancing_between_guests(
    lab: Lab, guest_image: GuestImage, osmef: Osmef
) -> None:
    osmef.end_s = 600.0
    alpha = lab["alpha"]
    text = ON_LIBVIRT.format(uri=alpha.uri, image=guest_image.directory)
    top, _, rest = text.partition("sweep:")
    layers = "sweep:\n  layer: [{kind: bond, mode: balance-tlb}, {kind: bond, mode: balance-alb}]\n"
    text = f"{top}{layers}repeat{rest.partition('repeat')[2]}  nic_networks: one\n"
    ended = osmef("run", osmef.write(text), prefix=alpha.network)
    assert ended.code == 0, ended.err
    assert [trial["status"] for trial in osmef.trials] == ["ok", "ok"]


def pairs_of_ports(alpha: Hypervisor) -> list[list[str]]:
    """Return the ports of each bridge between two further network cards."""
    pairs = []
    for bridge in json.loads(alpha.run("ip", "-j", "link", "show", "type", "bridge")):
        addresses = json.loads(alpha.run("ip", "-j", "-4", "address", "show", bridge["ifname"]))
        ports = json.loads(alpha.run("ip", "-j", "link", "show", "master", bridge["ifname"]))
        if not any(addresses) and len(ports) == 2:
            pairs.append([port["ifname"] for port in ports])
    return pairs


def test_lacp_works_between_guests_whose_nics_report_no_duplex(
    lab: Lab, guest_image: GuestImage, osmef: Osmef
) -> None:
    """A Linux bridge keeps packets of LACP back; past it they find the other guest."""
    osmef.end_s = 600.0
    alpha = lab["alpha"]
    text = ON_LIBVIRT.format(uri=alpha.uri, image=guest_image.directory)
    top, _, rest = text.partition("sweep:")
    layer = "layer: {kind: bond, mode: 802.3ad, hash: layer3+4}\n"
    path = osmef.write(f"{top}{layer}repeat{rest.partition('repeat')[2]}")
    process = osmef.start("run", path, prefix=alpha.network)
    osmef.until(process, "starting 2 guests")
    until(lambda: len(pairs_of_ports(alpha)) == 2)  # long before they have booted
    for first, second in pairs_of_ports(alpha):
        for port, other in ((first, second), (second, first)):
            hook = f"{{ type filter hook ingress device {port} priority 0; }}"
            alpha.run("nft", "add", "table", "netdev", "cables")
            alpha.run("nft", "add", "chain", "netdev", "cables", f"of-{port}", hook)
            alpha.run("nft", "add", "rule", "netdev", "cables", f"of-{port}", "fwd", "to", other)
    ended = osmef.finish(process)
    assert ended.code == 0, ended.err
    assert [trial["status"] for trial in osmef.trials] == ["ok"]
    facts = json.loads(next((osmef.run / "facts" / "00000").iterdir()).read_text())["layers"]
    (told,) = facts["bond(mode=802.3ad hash=layer3+4)"].values()
    assert {card["mii_status"] for card in told["nics"].values()} == {"UP"}


class Forgetful:
    def intend(self, _resource: Resource) -> None: ...
    def created(self, _resource: Resource) -> None: ...
    def destroyed(self, _resource: Resource) -> None: ...


@contextmanager
def two_guests(alpha: Hypervisor, image: GuestImage, key: KeyPair) -> Iterator[list[Endpoint]]:
    """Have two guests with two free network cards each, on which nobody else is."""
    settings = LibvirtSettings.model_validate_json(
        json.dumps(
            {
                "kind": "libvirt",
                "uri": alpha.uri,
                "image": str(image.directory),
                "flavors": {"tiny": {"vcpus": 1, "ram": "256MiB"}},
            }
        )
    )
    requests = [
        EndpointRequest(name, "sender", EndpointKind.VM, None, "host-1", "tenant-1", nics=2)
        for name in ("left", "right")
    ]
    provider = LibvirtProvider(settings)
    with alpha.inside():
        try:
            context = RunContext("test-bonds", requests, key, Forgetful(), time.time() + 3600)
            yield provider.create(context)
        finally:
            provider.close()


def state(sessions: list[SshSession]) -> list[str]:
    """Return what the kernels know of their networks, once no address is being tried out."""
    while True:
        told = [session.run(argv).stdout.decode() for session in sessions for argv in STATE]
        if not any("tentative" in one for one in told):
            return sorted(line for one in told for line in one.replace("},{", "\n").split())


def test_after_kill_9_reap_leaves_the_cards_as_they_were(
    lab: Lab, guest_image: GuestImage, osmef: Osmef
) -> None:
    osmef.end_s = 300.0
    alpha, key = lab["alpha"], KeyPair.generate("test")
    with two_guests(alpha, guest_image, key) as guests:
        inventory = {}
        identity, known = osmef.directory / "key", osmef.directory / "known"
        identity.write_text(key.private)
        identity.chmod(0o600)
        known.write_text(
            "".join(f"{one.data_address} {one.login.host_keys.accepted[0]}\n" for one in guests)
        )
        for one in guests:
            inventory[one.name] = {
                "ssh": f"root@{one.data_address}",
                "identity": str(identity),
                "known_hosts": str(known),
                "nics": ["eth1", "eth2"],
            }
        osmef.write(json.dumps(inventory), "hosts.yaml")
        path = osmef.write(ON_HOSTS)
        sessions = [SshSession.open(one.login) for one in guests]
        for line in ("link set eth1 mtu 1400", "link set eth1 up", "addr add 10.9.7.1/24 dev eth1"):
            assert sessions[0].run(["ip", *line.split()]).status == 0
        # The kernel makes an interface of its own when it loads the module.
        for session in sessions:
            assert session.run(["modprobe", "bonding"]).status == 0
        before = state(sessions)
        process = osmef.start("run", path, prefix=alpha.network)
        osmef.until(process, "measuring")
        while "eth1" in sessions[0].run(["ip", "link"]).stdout.decode():
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert state(sessions) != before
        ended = osmef("reap", "--yes", prefix=alpha.network)
        assert ended.code == 0, ended.err
        assert state(sessions) == before
        for session in sessions:
            session.close()
