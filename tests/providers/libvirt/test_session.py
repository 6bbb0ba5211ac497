"""A plain user's own libvirt, `qemu:///session`: what it can do, and what it is told it can't."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from osmef.images.guest_image import GuestImage
from tests.cli.conftest import Osmef
from tests.libvirt import lab as laboratory
from tests.libvirt.lab import LAN, Lab

USER = Path(laboratory.__file__).with_name("user.sh")
HELPER = Path("/usr/lib/qemu/qemu-bridge-helper")
SCENARIO = """
name: session
placement: same-host
workload: {{kind: btc, duration: 1s, interval: 500ms}}
repeat: 1
provider:
  kind: libvirt
  uri: "qemu:///session"
  image: {image}
  flavors: {{tiny: {{vcpus: 1, ram: 256MiB}}}}
  networks: [{{bridge: br-lan, addresses: {lan}.140-{lan}.149/24}}]
"""
LEFT = """
code=0; "$@" || code=$?
ls -A /mnt/home/.local/share/libvirt/images >&2
virsh -q -c qemu:///session list --all --name >&2
virsh -q -c qemu:///session pool-list --all --name >&2
exit $code
"""


def as_user(lab: Lab, osmef: Osmef, bridges: str) -> tuple[str, ...]:
    """Return what runs a program as a plain user of a hypervisor, with all that it starts."""
    if not HELPER.exists():
        pytest.skip("no qemu-bridge-helper (Debian: apt install qemu-system-common)")
    spaces = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    user = ("sh", str(USER), str(osmef.directory), bridges)
    return (*lab["alpha"].network, *spaces, *user, "sh", "-c", LEFT, "sh")


def test_a_plain_user_measures_on_a_bridge_and_leaves_nothing(
    osmef: Osmef, lab: Lab, guest_image: GuestImage
) -> None:
    text = SCENARIO.format(image=guest_image.directory, lan=LAN)
    ended = osmef("run", osmef.write(text), prefix=as_user(lab, osmef, "br-lan"))
    assert ended.code == 0, ended.err
    assert ended.err.strip().endswith("tearing down"), "nothing is listed after it"
    summary = osmef.summary
    assert (osmef.run / "summary.json").stat().st_uid not in {0, os.getuid()}
    assert [cell["n_ok"] for cell in summary["cells"]] == [1]
    assert "libvirt can't filter packets" in " ".join(ended.out.split())


def test_a_bridge_that_the_user_may_not_use_is_reported_with_a_cure(
    osmef: Osmef, lab: Lab, guest_image: GuestImage
) -> None:
    text = SCENARIO.format(image=guest_image.directory, lan=LAN)
    ended = osmef("run", osmef.write(text), prefix=as_user(lab, osmef, "br-other"))
    assert ended.code == 3
    assert "bridge helper" in ended.err
    assert "`allow BRIDGE` in /etc/qemu/bridge.conf" in ended.err
