"""What a guest of our images takes from OpenStack's metadata service."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import osmef.images
from osmef.providers.cloud_init import cloud_config
from osmef.remote.login import KeyPair

READER = Path(osmef.images.__file__).parent / "guest/openstack"
# The service, and the guest that asks it, in namespaces of their own.
SCENE = """
ip link set lo up
ip address add 169.254.169.254/32 dev lo
"$1" -m http.server 80 --bind 169.254.169.254 --directory "$2" 2>/dev/null >&2 &
cd "$3" && sh "$4" && hostname
"""
USER, HOST = KeyPair.generate("user"), KeyPair.generate("host")


def as_yaml(user: KeyPair, host: KeyPair) -> str:
    """Return a cloud-config as people write them."""
    private = "".join(f"    {line}\n" for line in host.private.splitlines())
    return (
        f"#cloud-config\nssh_authorized_keys:\n  - {user.public}\n"
        f"ssh_keys:\n  ed25519_private: |\n{private}  ed25519_public: {host.public}\n"
    )


@pytest.fixture
def service(tmp_path: Path) -> Path:
    """The folder that the metadata service shows."""
    if shutil.which("busybox") is None:
        pytest.skip("no busybox, which guests have (Debian: apt install busybox-static)")
    if subprocess.run(["unshare", "--map-root-user", "--net", "true"], check=False).returncode:
        pytest.skip("this machine does not let this user make namespaces")
    (tmp_path / "service/latest/meta-data").mkdir(parents=True)
    (tmp_path / "service/openstack/latest").mkdir(parents=True)
    (tmp_path / "service/latest/meta-data/hostname").write_text("vm-1.novalocal")
    (tmp_path / "guest").mkdir()
    return tmp_path / "service"


def boot(service: Path) -> Path:
    """Let a guest ask, and return what it keeps."""
    guest = service.with_name("guest")
    alone = ["unshare", "--map-root-user", "--net", "--uts", "--pid", "--fork", "--kill-child"]
    arguments = [sys.executable, str(service), str(guest), str(READER)]
    done = subprocess.run(
        [*alone, "sh", "-c", SCENE, "scene", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    if "Permission denied" not in done.stderr:  # only root may name a machine
        assert done.stdout.strip() == "vm-1"
    return guest


@pytest.mark.parametrize("text", [cloud_config("root", USER, HOST), as_yaml(USER, HOST)])
def test_userdata_brings_the_keys_of_user_and_host(service: Path, text: str) -> None:
    (service / "openstack/latest/user_data").write_text(text)
    guest = boot(service)
    assert (guest / "authorized_keys").read_text() == USER.public + "\n"
    assert (guest / "ssh_host_ed25519_key").read_text().split() == HOST.private.split()
    assert {path.name for path in guest.iterdir()} == {"authorized_keys", "ssh_host_ed25519_key"}
    assert guest.joinpath("ssh_host_ed25519_key").stat().st_mode & 0o777 == 0o600


def test_without_userdata_the_key_pair_is_authorized_and_no_host_key_is_preset(
    service: Path,
) -> None:
    key = service / "latest/meta-data/public-keys/0/openssh-key"
    key.parent.mkdir(parents=True)
    key.write_text(USER.public + "\n")
    guest = boot(service)
    assert (guest / "authorized_keys").read_text() == USER.public + "\n"
    assert (guest / "ssh_host_ed25519_key").read_text() == ""
