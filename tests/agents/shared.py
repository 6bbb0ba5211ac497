"""Builds parts of the agent as a shared library, for tests that call their functions directly."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

from agents import build


def load(folder: Path, *names: str, flags: tuple[str, ...] = ()) -> ctypes.CDLL:
    """Compile the named C files, with traps for undefined behaviour, and load them."""
    library = folder / "agent.so"
    argv = [sys.executable, "-m", "ziglang", "cc", "-shared", "-fPIC", "-std=c11", "-D_GNU_SOURCE"]
    argv += ["-O1", "-fsanitize=undefined", "-fsanitize-trap=undefined", "-o", str(library)]
    argv += flags
    argv += [str(build.SOURCES / name) for name in names]
    subprocess.run([*argv, "-lm"], check=True, capture_output=True, text=True)
    return ctypes.CDLL(str(library))
