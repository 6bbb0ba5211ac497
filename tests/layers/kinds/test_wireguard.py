from __future__ import annotations

from base64 import b64decode, b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from osmef.layers.host import LayerHost
from osmef.layers.kinds.tunnels import Wireguard, WireguardSettings
from osmef.scenario.fields import Family
from tests.layers.machines import Machines, check_whole_life, recorded

PEER = ("PublicKey", "AllowedIPs", "Endpoint")


@pytest.mark.parametrize("family", Family)
def test_the_layer_is_set_up_carries_traffic_and_is_removed(
    machines: Machines, family: Family
) -> None:
    attached = check_whole_life(machines, lambda: Wireguard(WireguardSettings()), family)
    assert attached["a"].mtu == 1500 - {Family.IPV4: 60, Family.IPV6: 80}[family]


def test_each_end_has_the_public_keys_of_its_peers_and_no_key_is_in_a_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    underlay, roots = recorded(3)
    monkeypatch.setattr(LayerHost, "busy_ports", lambda _host, _space: set())
    layer = Wireguard(WireguardSettings())
    numbers = layer.numbers(underlay)
    keys, peers = {}, {}
    for name, end in underlay.ends.items():
        layer.configure(end, "its-space", "om1", underlay, numbers)
        (text,) = (one for one in roots[name].inputs if one)
        lines = [line.partition(" = ")[::2] for line in text.splitlines()]
        private = X25519PrivateKey.from_private_bytes(b64decode(dict(lines)["PrivateKey"]))
        keys[name] = b64encode(private.public_key().public_bytes_raw()).decode()
        found = [[value for key, value in lines if key == wanted] for wanted in PEER]
        peers[name] = set(zip(*found, strict=True))
        assert dict(lines)["ListenPort"] == "20999"
        told = " ".join(word for argv in roots[name].argvs for word in argv)
        assert not any(value in told for key, value in lines if key.endswith("Key"))
    for name, known in peers.items():
        assert known == {
            (
                keys[other],
                f"{underlay.inner[other]}/32",
                f"{underlay.ends[name].peers[other]}:20999",
            )
            for other in underlay.ends
            if other != name
        }
