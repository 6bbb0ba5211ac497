from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from osmef.errors import ProviderError
from osmef.programs import find_program


def test_system_programs_are_found_without_their_directories_in_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    assert os.access(find_program("sh", "dash", "test"), os.X_OK)


def test_the_users_path_is_searched_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = tmp_path / "sh"
    own.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("sh", "dash", "test") == str(own)


def test_a_missing_program_names_its_package() -> None:
    with pytest.raises(ProviderError) as caught:
        find_program("no-such-program", "nothing", "the test")
    assert caught.value.where == "the test"
    assert "apt install nothing" in str(caught.value)


STORM = """
import os, signal, threading
from osmef.programs import start_in_new_session
os.setpgid(0, 0)
signal.signal(signal.SIGINT, lambda *_: None)
signal.signal(signal.SIGHUP, lambda *_: None)
ended = threading.Event()
def storm():
    while not ended.is_set():
        os.killpg(0, signal.SIGINT)
        os.killpg(0, signal.SIGHUP)
thread = threading.Thread(target=storm)
thread.start()
print({start_in_new_session(["true"]).wait() for _ in range(100)})
ended.set()
thread.join()
"""


def test_ctrl_c_reaches_no_program_of_another_session_at_any_moment() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STORM], capture_output=True, text=True, check=False
    )
    assert done.stdout == "{0}\n", done.stderr
