"""The database server of a cloud, and its tables from the user's cache."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.openstack import schemas


def template(venv: Path) -> Path:
    """Return where the databases are kept that have the tables of these packages."""
    server = subprocess.run(["mariadbd", "--version"], capture_output=True, check=True).stdout
    made = Path(schemas.__file__).read_bytes()
    return venv / f"databases-{hashlib.sha256(server + made).hexdigest()[:12]}"


def keep(databases: Path, at: Path) -> None:
    """Copy the databases of a stopped server to where the next clouds find them."""
    own = at.with_name(f"{at.name}-{databases.parent.name}")
    shutil.rmtree(own, ignore_errors=True)
    shutil.copytree(databases, own)
    if at.exists():  # another cloud was faster
        shutil.rmtree(own)
    else:
        own.rename(at)
