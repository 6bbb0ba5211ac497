"""Reader of the output of the ray tracer Tachyon.

Source: trace.c and ui.c of Tachyon 0.99. Times are seconds of the clock. It exits with 0 also where
it could not read its scene.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from osmef.formats import failed, shows_tail
from osmef.formats.reading import amount, first, of_one_run, positive, whole

_FAILED = re.compile(r"^(Parser failed .*|Unrecognized parameter.*|Missing model.*)", re.MULTILINE)
_VERSION = re.compile(r"^Tachyon Parallel/Multiprocessor Ray Tracer +Version (\S+)", re.MULTILINE)
_OBJECTS = re.compile(r"^Scene contains (\S+) objects?\.", re.MULTILINE)
_TIME = r"^ *{}: +(\S+) seconds"
_TRACED = re.compile(_TIME.format("Ray Tracing Time"), re.MULTILINE)
_PARSED = re.compile(_TIME.format("Scene Parsing Time"), re.MULTILINE)
_PREPARED = re.compile(_TIME.format("Preprocessing Time"), re.MULTILINE)
_WRITTEN = re.compile(_TIME.format("Image I/O Time"), re.MULTILINE)


@dataclass(frozen=True)
class Tachyon:
    """A run: the time of tracing, and that of preparation and output."""

    version: str
    objects: int
    parsing_s: float
    preparing_s: float
    tracing_s: float
    writing_s: float


@shows_tail
def read(text: str) -> Tachyon:
    """Read the output of one run. Raises OutputError, also for a failure."""
    refused = _FAILED.search(text)
    if refused:
        raise failed("Tachyon", refused[1].strip())
    traced = of_one_run(_TRACED, text, "Tachyon")
    return Tachyon(
        version=first(_VERSION, text, "version of Tachyon")[1],
        objects=whole(first(_OBJECTS, text, "number of objects")[1], "the objects"),
        parsing_s=amount(first(_PARSED, text, "time of parsing")[1], "the time of parsing"),
        preparing_s=amount(first(_PREPARED, text, "time before")[1], "the time before"),
        tracing_s=positive(traced[1], "the time of tracing"),
        writing_s=amount(first(_WRITTEN, text, "time of writing")[1], "the time of writing"),
    )
