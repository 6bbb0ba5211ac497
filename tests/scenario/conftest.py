"""What the tests of scenario files share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from osmef.errors import InputError
from osmef.scenario.load import load_text
from osmef.scenario.study import Study

Reader = Callable[..., Study]


@pytest.fixture
def read() -> Reader:
    """Read the text of a YAML file, and optionally overrides."""

    def read_text(text: str, overrides: Mapping[str, str] | None = None) -> Study:
        return load_text(text, Path("file.yaml"), overrides)

    return read_text


@pytest.fixture
def problems(read: Reader) -> Callable[..., list[str]]:
    """List the problems of a text as ``line:column: message``."""

    def list_problems(text: str, overrides: Mapping[str, str] | None = None) -> list[str]:
        with pytest.raises(InputError) as caught:
            read(text, overrides)
        return [f"{p.place}: {p.message}" for p in caught.value.problems]

    return list_problems
