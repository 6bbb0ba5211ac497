"""The programs that the agent is compared with: which of them are here, and in which version."""

from __future__ import annotations

import platform
import shutil
import subprocess
from functools import cache

PACKAGES = {
    "iperf3": "iperf3",
    "iperf": "iperf",
    "nuttcp": "nuttcp",
    "NPtcp": "netpipe-tcp",
    "sockperf": "sockperf",
    "wrk": "wrk",
    "ab": "apache2-utils",
    "nginx": "nginx-light",
}
"""The Debian package of each command."""

SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


def path_of(command: str) -> str | None:
    return shutil.which(command) or shutil.which(command, path=SBIN)


@cache
def version_of(command: str) -> str:
    """Return the version of the command, or that of its package: not every program knows its own.

    iperf3 does, and may be a newer one than the package's.
    """
    if path_of(command) is None:
        return "not installed"
    if command == "iperf3":
        said = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
        return said.stdout.split()[1]
    query = ["dpkg-query", "-W", "-f", "${Version}", PACKAGES[command]]
    try:
        said = subprocess.run(query, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # not a Debian
        return "version unknown"
    return said.stdout or "version unknown"


@cache
def knows_option(command: str, option: str) -> bool:
    said = subprocess.run([command, "--help"], capture_output=True, text=True, check=False)
    return option in said.stdout + said.stderr


def machine() -> str:
    """Say what the figures were measured on."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    model = models[0] if models else platform.machine()
    return f"Linux {platform.release()}, {len(models) or '?'} CPUs: {model}"
