"""Requirements of the local provider: sshd, unshare, and the right to create namespaces."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from osmef.errors import ProviderError
from osmef.programs import find_program
from osmef.providers.local.sandbox import is_rootless, isolated

WHERE = "provider: local"
_TRIAL_S = 20.0
_NO_NAMESPACES = {
    "/proc/sys/user/max_user_namespaces": ("0", "sysctl -w user.max_user_namespaces=15000"),
    "/proc/sys/kernel/unprivileged_userns_clone": (
        "0",
        "sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
}


def check_machine() -> None:
    """Check all requirements by trying them. Raises ProviderError with a cure."""
    if sys.platform != "linux":
        raise ProviderError(
            f"the local cloud is made of Linux namespaces, and this is {sys.platform}",
            where=WHERE,
            cure="run osmef on a Linux machine",
        )
    if find_spec("pyroute2") is None:
        raise ProviderError(
            "the local cloud needs the Python package pyroute2, which is not installed",
            where=WHERE,
            cure="pip install 'osmef[local]'",
        )
    find_program("sshd", "openssh-server", WHERE)
    unshare = find_program("unshare", "util-linux", WHERE)
    true = find_program("true", "coreutils", WHERE)
    try:
        trial = subprocess.run(
            isolated(unshare, [true]), capture_output=True, text=True, timeout=_TRIAL_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProviderError(f"unshare does not work: {error}", where=WHERE) from error
    if trial.returncode != 0:
        raise ProviderError(
            f"this machine does not allow new namespaces: {trial.stderr.strip()}",
            where=WHERE,
            cure=_namespace_cure(),
        )
    _check_root_is_whole()


def has_module(name: str) -> bool:
    """Return whether the kernel has a module: loaded, built in, or loadable.

    Only of those that show themselves in /sys/module once they are there; "" is one that all have.
    """
    if not name or Path("/sys/module", name).exists():
        return True
    place = Path("/lib/modules", os.uname().release)
    lists = [place / f"modules.{kind}" for kind in ("dep", "builtin")]
    found = re.compile(rf"/{re.escape(name)}\.ko\b")
    return any(found.search(file.read_text()) for file in lists if file.exists())


def _namespace_cure() -> str:
    if not is_rootless():
        return "in a container, give it CAP_SYS_ADMIN (docker run --privileged)"
    for path, (forbidding, command) in _NO_NAMESPACES.items():
        switch = Path(path)
        if switch.exists() and switch.read_text().strip() == forbidding:
            return f"as root: {command}; or run osmef as root"
    return "run osmef as root; in a container, start it with docker run --privileged"


def _check_root_is_whole() -> None:
    """Refuse root without all ids: its sshd could not change to another user."""
    switch = Path("/proc/self/setgroups")
    if not is_rootless() and switch.exists() and switch.read_text().strip() == "deny":
        raise ProviderError(
            "root of this user namespace may not change groups, so its sshd can't start",
            where=WHERE,
            cure="run osmef as the ordinary user; it makes the namespaces that it needs itself",
        )
