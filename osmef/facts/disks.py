"""The file systems of directories: their types, and how large and how full they are."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from osmef.facts.parsers import integer, word
from osmef.remote.session import Session

_FORMAT = "%T %S %b %a"
"""Of stat(1), as coreutils and busybox have it: type, size of a block, blocks, those available."""


def file_systems(session: Session, directories: Sequence[str]) -> dict[str, JsonValue]:
    """Return what is known of the file system of each directory. Raises ReachError.

    None where the endpoint does not tell, such as of a directory that is not there.
    """
    told = {
        one: session.run(["stat", "-f", "-c", _FORMAT, "--", one]).stdout for one in directories
    }
    return {one: read(text.decode(errors="replace")) for one, text in told.items()}


def read(text: str) -> JsonValue:
    """Return a file system as stat(1) tells it. Whatever the text is, this does not raise."""
    try:
        kind, *numbers = text.split()
        size, blocks, available = (int(str(integer(number))) for number in numbers)
        return {
            "type": word(kind),
            "total_bytes": size * blocks,
            "available_bytes": size * available,
        }
    except ValueError:
        return None
