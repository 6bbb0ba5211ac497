"""The marks by which things in a project are known to be ours, from the moment they are made.

Networks, firewalls and policies have no labels, and labels no upper case: what tells of a mark is
the description, which all of them have. Labels repeat it for lists and bills.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from osmef.providers import marks

_TEXT = re.compile(r"osmef run=([A-Za-z0-9-]+) made=(\S+) deadline=(\S+)")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")
_NAME_LENGTH = 63
_LABEL_LENGTH = 63


@dataclass(frozen=True)
class Mark(marks.Mark):
    """The mark, also as a description, as labels, and in names."""

    @property
    def text(self) -> str:
        """The mark as a description."""
        return f"osmef run={self.run} made={self.made} deadline={self.deadline}"

    @property
    def labels(self) -> dict[str, str]:
        """The mark as labels: lower case, of at most 63 characters."""
        return {key: _lower(value)[-_LABEL_LENGTH:] for key, value in self.tags.items()}

    def name(self, what: str) -> str:
        """Return the name of a thing of the run; RFC 1035 leaves 63 characters.

        The end of the run's name is what tells it from others.
        """
        own = self.at_site(what)
        room = _NAME_LENGTH - len(marks.PREFIX) - len(f"-{own}")
        return f"{marks.PREFIX}{_lower(self.run)[-room:].strip('-')}-{own}"


def _lower(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text.lower())


def of_text(description: object) -> Mark | None:
    """Read the mark of a description; None if it is not one of ours."""
    found = _TEXT.fullmatch(description) if isinstance(description, str) else None
    return Mark.read(*found.groups()) if found else None
