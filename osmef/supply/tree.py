"""Unpacked packages, each in a folder of its own, seen as the one file system that they make.

Nothing outside of these folders is ever looked at, whatever links in them say.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_MOST_LINKS = 40
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64")
"""Of /usr, and links to there in the root: they are in no package (usrmerge)."""


@dataclass(frozen=True)
class Found:
    """A file: where it lies, and which package brought it."""

    path: Path
    package: str


class Tree:
    """The files of several packages. A path that two of them bring is that of the first."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        """Look through the folder of each package, by its name."""
        self._files: dict[str, Found] = {}
        self._links: dict[str, str] = {}
        for package, folder in folders.items():
            self._add(package, folder)

    def find(self, path: str) -> Found | None:
        """Return the file at an absolute path of the file system, None where there is none."""
        for start in (path, f"/usr{path}"):
            if start == path or path.split("/")[1] in _MERGED:
                found = self._files.get(self._resolved(start))
                if found is not None:
                    return found
        return None

    def names(self, folder: str, package: str) -> list[str]:
        """Return the names of the files and links that a package brings in a folder."""
        paths = [path for path, found in self._files.items() if found.package == package]
        return sorted(posixpath.basename(p) for p in paths if posixpath.dirname(p) == folder)

    def _add(self, package: str, folder: Path) -> None:
        for parent, folders, files in os.walk(folder):
            for name in (*folders, *files):
                path = Path(parent, name)
                place = f"/{path.relative_to(folder).as_posix()}"
                if path.is_symlink():
                    self._links.setdefault(place, str(path.readlink()))
                elif path.is_file():
                    self._files.setdefault(place, Found(path, package))

    def _resolved(self, path: str) -> str:
        """Return a path without links in it; an empty one where they go round in a circle."""
        left = [part for part in path.split("/") if part not in {"", "."}]
        done: list[str] = []
        links = 0
        while left:
            part = left.pop(0)
            if part == "..":
                del done[-1:]
                continue
            target = self._links.get("/" + "/".join([*done, part]))
            if target is None:
                done.append(part)
                continue
            links += 1
            if links > _MOST_LINKS:
                return ""
            if target.startswith("/"):
                done = []
            left = [one for one in target.split("/") if one not in {"", "."}] + left
        return "/" + "/".join(done)
