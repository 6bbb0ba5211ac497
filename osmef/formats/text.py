"""What the readers of text for people have in common."""

from __future__ import annotations

import re

from osmef.errors import OutputError


def first(pattern: re.Pattern[str], text: str, what: str) -> re.Match[str]:
    """Return where a text first has what is looked for. Raises OutputError."""
    found = pattern.search(text)
    if found is None:
        raise OutputError(f"there is no {what}: did it come to its end?")
    return found


def of_one_run(pattern: re.Pattern[str], text: str, program: str) -> re.Match[str]:
    """Return what every run prints once. Raises OutputError for an output of none, or of several.

    Where a program says itself that it failed, that should be looked for before.
    """
    found = list(pattern.finditer(text))
    if len(found) > 1:
        raise OutputError(f"there are {len(found)} results of {program}, and not one")
    return found[0] if found else first(pattern, text, f"result of {program}")
