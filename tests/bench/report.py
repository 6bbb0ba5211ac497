"""What was measured, as sections of docs/benchmarks.md and on the terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from tests.bench import tools
from tests.bench.room import Room

HEAD = """# Benchmarks

`make bench` measures the agent beside its peers and writes this page. All programs of a line run in
turns on the same machine, in namespaces of their own. A figure is the median of the repetitions,
with the least and the greatest of them. A verdict compares medians: the agent's and that of the
best of the others in the line, which is named beside the ratio.
"""
NOTES = Path(__file__).with_name("notes.md")
"""The page's last section, kept by hand: what the figures can't say themselves."""


@dataclass(frozen=True)
class Bench:
    """What every group of measurements gets."""

    console: Console
    room: Room
    agent: Path
    repeat: int
    duration_s: float


@dataclass(frozen=True)
class Table:
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        lines = [self.header, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.header))]
        texts = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            + " |"
            for line in lines
        ]  # fmt: skip
        texts.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        return f"**{self.title}**\n\n" + "\n".join(texts) + "\n"


@dataclass(frozen=True)
class Section:
    """The page's part about one group; the title is its name on the page."""

    title: str
    about: str
    tables: Sequence[Table]
    tools: Sequence[str] = ()
    problems: Sequence[str] = ()
    repeated: bool = True
    """As often and as long as the command was told."""

    def text(self, bench: Bench | None = None) -> str:
        """Return it as the page has it; there is a bench where ``make bench`` measures it."""
        facts = [f"Measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC on {tools.machine()}"]
        if bench is not None and self.repeated:
            facts.append(f"n = {bench.repeat}, {bench.duration_s:g} s each")
        if self.tools:
            facts.append(", ".join(f"{name} {tools.version_of(name)}" for name in self.tools))
        measured = "; ".join(facts) + "."
        problems = "".join(f"- {' '.join(problem.split())}\n" for problem in self.problems)
        parts = [self.about + "\n", *map(str, self.tables), measured + "\n"]
        return "\n".join([f"## {self.title}\n", *parts, *([problems] if problems else [])])


def write(page: Path, texts: Sequence[str]) -> None:
    """Put sections into the page in place of those with the same title; the others stay.

    That of NOTES comes last, as it is there now.
    """
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    sections = {_title(text): text for text in re.split(r"(?m)^(?=## )", old)[1:]}
    sections |= {_title(text): text for text in texts}
    notes = NOTES.read_text(encoding="utf-8")
    sections.pop(_title(notes), None)
    sections[_title(notes)] = notes
    body = "\n".join(text.rstrip("\n") + "\n" for text in sections.values())
    page.write_text(f"{HEAD}\n{body}", encoding="utf-8")


def _title(section: str) -> str:
    return section.split("\n", 1)[0]
