from __future__ import annotations

import logging
import re

import pytest

from osmef.engine.observer import Observer


def test_what_an_observer_raises_is_logged_and_goes_no_further(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Observer):
        def step(self, text: str) -> None:
            raise BrokenPipeError(text)

    class Below(Broken):
        def warning(self, text: str) -> None:
            self.step(text)
            raise ValueError(text)

    with caplog.at_level(logging.WARNING):
        Below().step("one")
        Below().warning("two")
    assert re.findall(r"\w+Error: \w+", caplog.text) == [
        "BrokenPipeError: one",
        "BrokenPipeError: two",
        "ValueError: two",
    ]
