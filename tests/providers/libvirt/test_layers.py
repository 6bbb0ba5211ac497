"""Layers between guests with Debian's kernel, which has the modules of all of them."""

from __future__ import annotations

import json

from osmef.images.guest_image import GuestImage
from tests.cli.conftest import Osmef
from tests.libvirt.lab import Lab

# What needs no program that would have to be fetched: the tests have no internet.
KINDS = ["bare", "vxlan", "geneve", "gre", "ipip", "ipsec", "macvlan", "bridge"]
SCENARIO = """
name: layers
placement: same-host
workload: {{kind: btc, duration: 500ms, interval: 500ms}}
sweep: {{layer: [{layers}, [geneve, gre]]}}
repeat: 1
provider:
  kind: libvirt
  uri: "{uri}"
  image: {image}
  flavors: {{tiny: {{vcpus: 1, ram: 256MiB}}}}
"""


def test_layers_between_guests(lab: Lab, guest_image: GuestImage, osmef: Osmef) -> None:
    osmef.end_s = 600.0
    alpha = lab["alpha"]
    text = SCENARIO.format(layers=", ".join(KINDS), uri=alpha.uri, image=guest_image.directory)
    ended = osmef("run", osmef.write(text), prefix=alpha.network)
    assert ended.code == 0, ended.err
    summary = osmef.summary
    cells = {cell["values"]["layer"]: cell["n_ok"] for cell in summary["cells"]}
    assert cells == dict.fromkeys([*KINDS, "geneve+gre"], 1)
    (facts, *_) = (osmef.run / "facts" / "00000").iterdir()
    layers = json.loads(facts.read_text())["layers"]
    assert layers["ipsec"]["ipsec"]["cipher"] == "AES-128-GCM"
    mtus = {name: layers[name][name]["mtu_bytes"] for name in KINDS[1:]}
    assert mtus == {
        "vxlan": 1450, "geneve": 1450, "gre": 1472, "ipip": 1480, "ipsec": 1440,
        "macvlan": 1500, "bridge": 1500,
    }  # fmt: skip
    assert layers["geneve+gre"]["geneve"]["mtu_bytes"] == 1472 - 50
