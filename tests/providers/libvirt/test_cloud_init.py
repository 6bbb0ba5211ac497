"""Guests of a disk as clouds have them: Debian with systemd and cloud-init, told by NoCloud."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from osmef.providers.libvirt.storage import find_iso_tool
from tests.cli.conftest import Osmef
from tests.libvirt import lab as laboratory
from tests.libvirt.lab import Lab

pytestmark = [pytest.mark.timeout(3000)]
SCRIPT = Path(laboratory.__file__).with_name("debian.sh")
SCENARIO = """
name: cloud-init
placement: same-host
workload: {{kind: btc, duration: 1s, interval: 500ms}}
repeat: 1
provider:
  kind: libvirt
  uri: "{uri}"
  image: {disk}
  boot_timeout: 1200s
  flavors: {{tiny: {{vcpus: 1, ram: 512MiB}}}}
"""


def test_debian_with_cloud_init_gets_keys_hostname_and_address(
    osmef: Osmef, lab: Lab, tmp_path: Path
) -> None:
    for program in ("mmdebstrap", "grub-mkimage", "mke2fs", "qemu-img"):
        assert shutil.which(program), f"no {program}: make test-real PART=cloud-init installs it"
    find_iso_tool()
    disk = tmp_path / "debian.qcow2"
    subprocess.run(["sh", SCRIPT, tmp_path, disk], check=True)
    text = SCENARIO.format(uri=lab["alpha"].uri, disk=disk)
    osmef.end_s = 1800.0
    ended = osmef("run", osmef.write(text), prefix=lab["alpha"].network)
    assert ended.code == 0, ended.err
    summary = osmef.summary
    assert [cell["n_ok"] for cell in summary["cells"]] == [1]
    facts = [one["facts"]["before"] for one in summary["endpoints"]]
    assert {one["distribution"]["id"] for one in facts} == {"debian"}
    assert {one["hostname"] for one in facts} == {one["name"] for one in summary["endpoints"]}
