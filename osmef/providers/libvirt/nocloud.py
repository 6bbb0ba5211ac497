"""cloud-init's "NoCloud" data source for a guest, on a small disk.

Source: cloud-init's manual, "NoCloud" and "Network config version 1". JSON is YAML.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from osmef.drafts import scratch
from osmef.errors import ProviderError
from osmef.images.seed import Seed
from osmef.programs import find_program, search_path

_WHERE = "a disk image with cloud-init"
_TOOLS = ("genisoimage", "mkisofs", "xorrisofs")
_LABEL = "cidata"
_PATIENCE_S = 60.0


def find_iso_tool() -> str:
    """Return the program that makes the disk. Raises ProviderError."""
    found = (shutil.which(tool, path=search_path()) for tool in _TOOLS)
    return next(filter(None, found), None) or find_program(_TOOLS[0], _TOOLS[0], _WHERE)


def nocloud_disk(seed: Seed) -> bytes:
    """Return the content of the disk, an ISO 9660 image, which is partly secret.

    Root gets in with the key, at the addresses that the seed tells. Raises ProviderError.
    """
    tool = find_iso_tool()
    with scratch("seed") as folder:
        for name, content in _files(seed).items():
            (folder / name).write_text(content, encoding="utf-8")
        argv = [tool, "-quiet", "-volid", _LABEL, "-joliet", "-rock", str(folder)]
        done = subprocess.run(argv, capture_output=True, check=False, timeout=_PATIENCE_S)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[-300:]
        raise ProviderError(f"{Path(tool).name} failed: {said}", where=_WHERE, cure="is /tmp full?")
    return done.stdout


def _files(seed: Seed) -> dict[str, str]:
    user = {
        "disable_root": False,
        "ssh_authorized_keys": [seed.authorized_key],
        "ssh_deletekeys": True,
        "ssh_keys": {
            "ed25519_private": seed.host_key.private,
            "ed25519_public": seed.host_key.public,
        },
        "locale": False,  # to make one takes half a minute where the guest is emulated
    }
    cards = []
    for number, card in enumerate(seed.cards):
        subnet = {"type": "dhcp4"}
        if card.address is not None:
            subnet = {"type": "static", "address": card.address.with_prefixlen}
            if card.gateway is not None:
                subnet["gateway"] = card.gateway
        name = f"eth{number}"
        cards.append(
            {"type": "physical", "name": name, "mac_address": card.mac, "subnets": [subnet]}
        )
    return {
        "meta-data": json.dumps({"instance-id": seed.hostname, "local-hostname": seed.hostname}),
        "user-data": "#cloud-config\n" + json.dumps(user),
        "network-config": json.dumps({"version": 1, "config": cards}),
    }
