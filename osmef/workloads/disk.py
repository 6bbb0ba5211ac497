"""Settings that all disk benchmarks have in common: directory, and size of files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from osmef.scenario.fields import RUN_DIRECTORY, Directory, Duration, Size
from osmef.scenario.workload import Role
from osmef.units import format_size
from osmef.workloads.programs import ProgramRun, ProgramsSettings, Where

_IN_MEMORY = {"tmpfs", "ramfs"}
_SLOWEST_BYTES_S = 10e6
_LONGEST_S = 7 * 86400.0
_OF_METADATA = 50
"""File systems take less than so large a part for what they know of large files."""


class DiskSettings(ProgramsSettings):
    """Settings of a program with files on the sender."""

    directory: Directory = Field(
        default=RUN_DIRECTORY,
        description="where on the sender the files are: a path, or `{dir}` for the directory of the"
        " run, in the login's home; in it each trial has one of its own, of which nothing stays",
    )

    deadline: Duration | None = Field(
        default=None,
        ge=0.1,
        le=_LONGEST_S,
        description="how long it may run at most; the trial fails then; by default the duration, a"
        " minute, and the time that the files take at 10 MB/s",
    )

    @property
    def file_bytes(self) -> int:
        """The upper bound of the files' total size."""
        return 0

    @property
    def moved_bytes(self) -> int:
        """The payload without time limit: by default that of creating the files."""
        return self.file_bytes

    @property
    def longest_s(self) -> float:
        """The upper bound of its duration, in seconds."""
        usual = super().longest_s + self.moved_bytes / _SLOWEST_BYTES_S
        return self.deadline or min(usual, _LONGEST_S)

    @property
    def is_cached(self) -> bool:
        """Whether the page cache alone may serve reads and writes."""
        return True

    def run_of(self, argv: list[str], **keys: Any) -> ProgramRun:
        """Return a program in the directory of the trial, on the sender.

        ``{dir}`` in its arguments is that directory; other ``keys`` are those of a run.
        """
        room = self.file_bytes + self.file_bytes // _OF_METADATA
        return ProgramRun(
            on=Where.SENDER, argv=argv, directory=self.directory, room=f"{room}B", **keys
        )

    def warnings_at(self, end: Role, facts: Mapping[str, Any]) -> Iterator[str]:
        """Warn where memory is measured instead of the disk."""
        if end != "sender":
            return
        kind = _inside(facts, "file_systems", self.directory, "type")
        memory = _inside(facts, "memory", "total_bytes")
        if kind in _IN_MEMORY:
            place = "the directory of the run" if self.directory == "{dir}" else self.directory
            yield f"{place} is in memory there ({kind}): no disk is measured"
        elif self.is_cached and isinstance(memory, int) and self.file_bytes <= memory:
            sizes = f"{format_size(self.file_bytes)} of files fit into {format_size(memory)}"
            yield f"{sizes} of memory: the page cache is measured, and the disk only in part"


class DirectSettings(DiskSettings):
    """Settings of a program that supports direct I/O."""

    size: Size = Field(
        default=2**30, ge=2**20, le=2**50, description="of each file; also how much must be free"
    )
    direct: bool = Field(
        default=True,
        description="direct I/O (O_DIRECT), past the page cache; without it the memory is measured,"
        " as long as the files fit into it",
    )

    @property
    def file_bytes(self) -> int:
        """The upper bound of the files' total size: by default one file."""
        return self.size

    @property
    def is_cached(self) -> bool:
        """Whether the page cache alone may serve reads and writes."""
        return not self.direct


def _inside(value: Any, *keys: str) -> Any:
    """Return the element at a path of keys; None without it, as in unknown facts."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
