"""Whole runs on real guests: QEMU emulates them, libvirtd is real."""

from __future__ import annotations

import json

from osmef.images.bundle import Bundle
from tests.cli.conftest import Osmef
from tests.libvirt.lab import Lab

SCENARIO = """
name: guests
provider: {{kind: libvirt, uri: "{uri}", image: {image}}}
placement: same-host
workload: {{kind: btc, duration: 1s, interval: 500ms}}
repeat: 1
"""


def test_two_guests_of_a_host_measure_and_leave_nothing(
    osmef: Osmef, lab: Lab, guest_image: Bundle
) -> None:
    alpha = lab["alpha"]
    text = SCENARIO.format(uri=alpha.uri, image=guest_image.directory)
    ended = osmef("run", osmef.write(text), prefix=alpha.network)
    print(ended.out, ended.err)
    assert ended.code == 0, ended.err
    summary = json.loads((osmef.run / "summary.json").read_text())
    print(json.dumps(summary["endpoints"], indent=1)[:3000])
    assert [cell["n_ok"] for cell in summary["cells"]] == [1]
