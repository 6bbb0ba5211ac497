from __future__ import annotations

import os
from pathlib import Path

import pytest

from osmef.errors import ProviderError
from osmef.programs import find_program


def test_system_programs_are_found_without_their_directories_in_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    assert os.access(find_program("sh", "dash", "test"), os.X_OK)


def test_one_s_own_path_goes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = tmp_path / "sh"
    own.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("sh", "dash", "test") == str(own)


def test_a_missing_program_names_its_package() -> None:
    with pytest.raises(ProviderError) as caught:
        find_program("no-such-program", "nothing", "the test")
    assert caught.value.where == "the test"
    assert "apt install nothing" in str(caught.value)
