"""What the cloud is made of: MariaDB and RabbitMQ of Debian, OpenStack of PyPI in a venv."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cache import alone, cache
from tests.openstack.errors import CloudError

HERE = Path(__file__).parent
BOOTSTRAP = str(HERE.parent.parent / "tools/bootstrap")
LOCK = HERE / "requirements.lock"
UV = "uv==0.13.8"
PYTHON = "3.11"
DEBIAN = (
    *("mariadb-server-core", "mariadb-client-core", "rabbitmq-server"),
    *("gcc", "libc6-dev", "python3-dev", "nftables", "iproute2", "openssh-client"),
)
# What a cloud with real hypervisors needs as well.
REAL = (
    *("libvirt-daemon-system", "libvirt-dev", "pkg-config", "qemu-system-x86", "qemu-utils"),
    *("mmdebstrap", "dnsmasq-base", "iptables", "ipset", "ebtables", "conntrack", "haproxy"),
    "iputils-arping",
)
LIBVIRT = "libvirt-python==10.10.0"
# What a cloud with volumes needs as well; the rest of what cinder wants, others do, too.
VOLUMES = ("cinder==25.0.0", "tabulate==0.9.0")


def install() -> Path:
    """Install what is missing, and return the venv of the services. Raises CloudError."""
    python = _python()
    with ThreadPoolExecutor(1) as lane:
        debian = lane.submit(_run, [BOOTSTRAP, *DEBIAN], python)
        try:
            if not _can_build(python):
                debian.result()
            return _venv(python)
        finally:
            debian.result()


def install_real() -> None:
    """Install what a cloud with real hypervisors needs as well. Raises CloudError."""
    python = _python()
    _run([BOOTSTRAP, *DEBIAN, *REAL], python)
    _install_at(libvirt(_venv(python)), python, LIBVIRT)


def libvirt(venv: Path) -> Path:
    """Return the folder with libvirt's module, which is compiled against Debian's libvirt."""
    return venv / "libvirt"


def install_volumes() -> None:
    """Install what a cloud with volumes needs as well. Raises CloudError."""
    python = _python()
    _install_at(volumes(_venv(python)), python, *VOLUMES)


def volumes(venv: Path) -> Path:
    """Return the folder with cinder."""
    return venv / "volumes"


def _install_at(folder: Path, python: str, *wanted: str) -> None:
    """Install packages into a folder of a venv, unless it is there."""
    venv = folder.parent
    with alone(venv):
        if not folder.exists():
            new = folder.with_name(f"{folder.name}.new")
            shutil.rmtree(new, ignore_errors=True)
            options = ["--quiet", "--no-deps", "--link-mode=copy", "--python", f"{venv}/bin/python"]
            _run([f"{venv}/bin/uv", "pip", "install", *options, f"--target={new}", *wanted], python)
            new.rename(folder)


def _can_build(python: str) -> bool:
    """Tell whether there is what makes a venv, and compiles the one package that has no wheel."""
    tried = (
        "import ensurepip, pathlib, sysconfig;"
        "pathlib.Path(sysconfig.get_path('include'), 'Python.h').stat()"
    )
    found = subprocess.run([python, "-c", tried], capture_output=True, check=False)
    return shutil.which("gcc") is not None and found.returncode == 0


def _python() -> str:
    """Find the Python that the pinned wheels are for: best that of the distribution.

    Real clouds run on it, and it is built for speed: one that was compiled by hand without
    optimization took 1.5 to 1.8 times as long.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    base: str = getattr(sys, "_base_executable", sys.executable)
    found = shutil.which(f"python{PYTHON}", path="/usr/bin")
    found = found or (base if version == PYTHON else shutil.which(f"python{PYTHON}"))
    if found is None:
        msg = f"the pinned OpenStack needs Python {PYTHON} (this is {version}): put it on PATH"
        raise CloudError(msg)
    return found


def _venv(python: str) -> Path:
    """Make the venv once for each lock file and Python."""
    key = hashlib.sha256(LOCK.read_bytes() + python.encode()).hexdigest()[:12]
    venv = cache() / f"openstack-{key}"
    with alone(venv):
        if not (venv / "complete").exists():
            _run([python, "-m", "venv", "--clear", str(venv)], python)
            _run([str(venv / "bin/pip"), "install", "--quiet", UV], python)
            options = ["--quiet", "--no-deps", "--link-mode=copy", "--python", f"{venv}/bin/python"]
            _run([f"{venv}/bin/uv", "pip", "install", *options, "-r", str(LOCK)], python)
            (venv / "complete").touch()
    return venv


def _run(argv: list[str], python: str) -> None:
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHON": python},
        check=False,
    )
    if done.returncode != 0:
        raise CloudError(f"{argv[0]} failed: {done.stdout.strip()[-1000:]}")
