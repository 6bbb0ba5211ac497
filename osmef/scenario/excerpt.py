"""Excerpt of the line with a problem, except for lines that may have a secret."""

from __future__ import annotations

import re
from unicodedata import combining, east_asian_width

_SECRET = re.compile(
    r"pass(?:word|wd|phrase)|secret|token|credential|webhook|notify|key[\"']?\s*:|://[^/\s]*@",
    re.IGNORECASE,
)
_MOST, _BEFORE = 100, 60
"""How many characters of a line are shown, and how many of them before the place."""


def excerpt(line: str, column: int) -> str:
    """Return a line with a mark under its column; nothing for an empty one."""
    at = column - 1
    begin = max(0, at - _BEFORE) if len(line) > _MOST else 0
    # Only a part of it is looked at: a file of a megabyte may be one line.
    cut = "".join(one if one.isprintable() else " " for one in line[begin : begin + _MOST])
    if not cut or cut.isspace():
        return ""
    before = "…" * bool(begin)
    after = "…" * (begin + _MOST < len(line))
    indent = len(before) + sum(map(_width, cut[: at - begin]))
    return f"{before}{cut}{after}\n{' ' * indent}^"


def secret_lines(text: str) -> frozenset[int]:
    """Return the numbers of lines at or below a key whose name suggests a secret.

    Under a key is what is indented more, the items of a list below it, and the next line.
    """
    found = set()
    around: list[tuple[int, bool]] = []  # of each key around a line, where it stands, and if secret
    follows = False
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.strip()
        if not words:
            continue
        # An item of a list may stand as far left as the key of the list, and is inside it.
        place = 2 * (len(line) - len(line.lstrip())) + words.startswith("-")
        while around and around[-1][0] >= place:
            around.pop()
        named = _SECRET.search(line) is not None
        inside = named or (bool(around) and around[-1][1])
        if inside or follows:
            found.add(number)
        around.append((place, inside))
        follows = named
    return frozenset(found)


def _width(character: str) -> int:
    """Return the display width of a character."""
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in {"W", "F"} else 1
