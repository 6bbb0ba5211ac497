from __future__ import annotations

import logging
import re

from osmef.engine.events import Observer
from tests.logged import logged


def test_an_exception_of_an_observer_is_logged_and_not_propagated() -> None:
    class Broken(Observer):
        def activity(self, text: str) -> None:
            raise BrokenPipeError(text)

    class Below(Broken):
        def warning(self, text: str) -> None:
            self.activity(text)
            raise ValueError(text)

    with logged(logging.WARNING) as text:
        Below().activity("one")
        Below().warning("two")
    assert re.findall(r"\w+Error: \w+", text.getvalue()) == [
        "BrokenPipeError: one",
        "BrokenPipeError: two",
        "ValueError: two",
    ]
