"""What is logged, by a handler of our own.

pytest's plugin walks through all loggers in each phase of each test, while a thread of a test
before may be making one: the walk fails then, so it is switched off.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def logged(level: int) -> Iterator[io.StringIO]:
    """Yield what the root logger gets meanwhile, messages and tracebacks."""
    text = io.StringIO()
    handler, root = logging.StreamHandler(text), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(level)
    try:
        yield text
    finally:
        root.setLevel(before)
        root.removeHandler(handler)
