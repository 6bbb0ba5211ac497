"""What programs have left in directories of this machine, where their endpoint was killed."""

from __future__ import annotations

import shutil
from pathlib import Path

from osmef.errors import ProviderError
from osmef.providers.base import Resource
from osmef.remote.workdir import scratch_prefix

KIND = "scratch"


def name_of(run: str, directory: str) -> str:
    """Return the name of the resource that programs of a run may leave in a directory."""
    return f"{directory}/{scratch_prefix(run)}*"


def directory_of(resource: Resource) -> str | None:
    """Return the directory of such a resource; None if it is none of ours."""
    directory = resource.name.rpartition("/")[0]
    is_ours = directory.startswith("/") and resource.name == name_of(resource.run, directory)
    return directory if is_ours else None


def clear(resource: Resource) -> None:
    """Remove what is there, through no link. Raises ProviderError."""
    directory, prefix = Path(f"{directory_of(resource)}/"), scratch_prefix(resource.run)
    try:
        for path in directory.iterdir():
            if path.name.startswith(prefix) and path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
    except FileNotFoundError:  # the directory is gone
        return
    except OSError as error:
        raise ProviderError(
            f"what programs have left can't be removed: {error.strerror}",
            where=str(error.filename or directory),
            cure="run this command as the user of the run, or as root",
        ) from error
