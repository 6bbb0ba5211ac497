"""Find the programs of the system that OSMeF starts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from osmef.errors import ProviderError

SYSTEM_DIRECTORIES = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin")


def search_path() -> str:
    """Return PATH with the directories behind it where system programs are."""
    directories = [*os.environ.get("PATH", "").split(os.pathsep), *SYSTEM_DIRECTORIES]
    return os.pathsep.join(filter(None, directories))


def find_program(name: str, package: str, where: str) -> str:
    """Return the path of a system program, in PATH or where such programs are.

    ``where`` is what needs it. Raises ProviderError that names the Debian package.
    """
    path = shutil.which(name, path=search_path())
    if path is None:
        raise ProviderError(
            f"no {name} on this machine, and it can't be done without",
            where=where,
            cure=f"apt install {package}, or your system's package of it",
        )
    return str(Path(path).absolute())
