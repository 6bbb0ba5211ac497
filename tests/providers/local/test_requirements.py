"""Machines that can't hold a local cloud, made by taking away from this one what it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from osmef.programs import find_program
from osmef.providers.local.sandbox import check_machine, has_module

ROOT = Path(__file__).parents[3]
CHECK = """
from osmef.errors import ProviderError
from osmef.providers.local.sandbox import check_machine
try:
    check_machine()
except ProviderError as error:
    print(error)
"""
HIDE = """
import sys
from osmef.providers.local import kernel
for path in sys.argv[1:]:
    kernel.mount("/dev/null", path, None, kernel.MS_BIND)
"""
BECOME_USER = """
from osmef.providers.local import daemon
daemon._become_user(1000, 1000)
"""
CHANGE_ROOT = """
import os, sys
from pathlib import Path
from osmef.providers.local import kernel, sandbox  # before some of Python can't be loaded
MS_REC = 0x4000
for path in Path("/").iterdir():
    at = Path(sys.argv[1], path.name)
    if path.is_symlink():
        at.symlink_to(path.readlink())
    elif path.is_dir():
        at.mkdir()
        kernel.mount(str(path), str(at), None, kernel.MS_BIND | MS_REC)
os.chroot(sys.argv[1])
"""
FORBID = """
from pathlib import Path
Path("/proc/sys/user/max_user_namespaces").write_text("0")
"""


def say_why(code: str, *arguments: str, unshare: tuple[str, ...] = ()) -> str:
    """Run code, then the check, in namespaces of its own; return what the user would read."""
    command = [*unshare, sys.executable, "-c", code + CHECK, *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return done.stdout.strip()


def test_this_machine_holds_a_local_cloud(machine: None) -> None:
    check_machine()
    assert say_why("") == ""


def test_a_missing_sshd_is_reported_with_its_package(machine: None) -> None:
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    sshd = str(Path(find_program("sshd", "openssh-server", "test")).resolve())
    text = say_why(HIDE, sshd, unshare=("unshare", *user, "--mount"))
    assert "no sshd on this machine" in text
    assert "apt install openssh-server" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can forbid namespaces")
def test_forbidden_user_namespaces_are_reported_with_the_sysctl(machine: None) -> None:
    text = say_why(BECOME_USER + FORBID)
    assert "does not allow new namespaces" in text
    assert "sysctl -w user.max_user_namespaces" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its root directory")
def test_a_chroot_is_recognized(machine: None, tmp_path: Path) -> None:
    text = say_why(CHANGE_ROOT, str(tmp_path), unshare=("unshare", "--mount"))
    assert "does not allow new namespaces" in text
    assert "mount --bind" in text


def test_root_in_a_user_namespace_is_recognized(machine: None) -> None:
    text = say_why("", unshare=("unshare", "--user", "--map-root-user"))
    assert "may not change groups" in text
    assert "as the ordinary user" in text


def test_a_module_is_there_where_it_is_loaded_or_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert has_module("")
    assert has_module(next(path.name for path in Path("/sys/module").iterdir()))
    assert not has_module("no_such_module")
    place = tmp_path / "lib" / "modules" / os.uname().release
    place.mkdir(parents=True)
    (place / "modules.dep").write_text("kernel/drivers/net/bonding/bonding.ko.xz: kernel/x.ko\n")
    real = Path

    def moved(first: str, *others: str) -> Path:
        return real(f"{tmp_path}{first}" if first == "/lib/modules" else first, *others)

    monkeypatch.setattr("osmef.providers.local.sandbox.Path", moved)
    assert has_module("bonding")
    assert not has_module("bond")
