"""The marks by which things in a cloud are known to be ours, from the moment they are made."""

from __future__ import annotations

import re
from dataclasses import dataclass

from osmef.providers import marks

_RUN = r"[A-Za-z0-9-]+"
_TEXT = re.compile(rf"osmef run=({_RUN}) made=(\S+) deadline=(\S+)(?: name=(\S+))?")
_NAME = re.compile(rf"osmef-({_RUN})-(?:key|group)-[0-9]+(?:s[0-9]+)?-([0-9]+)-([0-9]+)")


@dataclass(frozen=True)
class Mark(marks.Mark):
    """The mark, also as a description and as the name of what has nothing else to carry it."""

    @property
    def text(self) -> str:
        """The mark as a description, for things that have one."""
        return f"osmef run={self.run} made={self.made} deadline={self.deadline}"

    def text_with(self, name: str) -> str:
        """Return the mark as a description that also gives a name, for things that have none."""
        return f"{self.text} name={name}"

    def whole_name(self, what: str) -> str:
        """Return the name of a key pair ("key-1") or server group ("group-1"): it is their mark.

        Key pairs are a user's, whose two sites may be two projects.
        """
        at = "" if self.site is None else f"s{self.site}"
        return f"{marks.PREFIX}{self.run}-{what}{at}-{self.made}-{self.deadline}"


def of_text(description: object) -> Mark | None:
    """Read the mark of a description; None if it is not one of ours."""
    found = _fits(_TEXT, description)
    return Mark.read(found[1], found[2], found[3]) if found else None


def name_in_text(description: object) -> str:
    """Read the name that a description gives a thing that has none of its own."""
    found = _fits(_TEXT, description)
    return (found[4] if found else None) or ""


def of_name(name: object) -> Mark | None:
    """Read the mark of the name of a key pair or server group; None if it is not one of ours."""
    found = _fits(_NAME, name)
    return Mark.read(*found.groups()) if found else None


def _fits(pattern: re.Pattern[str], text: object) -> re.Match[str] | None:
    return pattern.fullmatch(text) if isinstance(text, str) else None
