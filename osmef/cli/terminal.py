"""What others have written, shown so that no terminal obeys it: endpoints, processes, files.

It is done here, where text leaves for the terminal, and not where it is quoted.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text
from typing_extensions import override

# Newlines and tabs are the program's own. Beside control characters (C0, DEL, C1) it is what turns
# the direction of text (Unicode UAX #9), ends lines, can't be seen, or is half a character.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def plain(text: str) -> str:
    r"""Return a text with each character that a terminal would obey written out, as ``\x1b``."""
    return _OBEYED.sub(_written, text)


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else ascii(found[0])[1:-1]


class PlainConsole(Console):
    """A console on which only its own control characters are control characters."""

    @override
    def render_str(self, text: str, **settings: Any) -> Text:
        return super().render_str(plain(text), **settings)  # so that tables know how wide it is

    @override
    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            shown = segment.text if segment.control else plain(segment.text)
            yield segment if shown == segment.text else segment._replace(text=shown)


class PlainFormatter(logging.Formatter):
    """Formats what libraries log, which quotes what servers say."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record))
