"""The build of the agents: what it makes, and what it says when it can't."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from agents import build

ELF_MACHINE = {"x86_64": 62, "aarch64": 183}
PT_INTERP = 3


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A source tree in which nothing has been built."""
    shutil.copytree(build.ROOT / "agents", tmp_path / "agents")
    shutil.copy(build.ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def run_build(tree: Path, *python: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, *python, "agents/build.py", "--target", "x86_64"]
    return subprocess.run(argv, cwd=tree, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("target", build.TARGETS)
def test_each_agent_is_a_static_program_of_its_architecture(target: str) -> None:
    (path,) = build.build(targets=[target])
    elf = path.read_bytes()
    assert path.name == f"osmef-agent-{target}"
    assert elf[:5] == b"\x7fELF\x02"
    assert struct.unpack_from("<H", elf, 18) == (ELF_MACHINE[target],)
    (headers_at,) = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    kinds = [struct.unpack_from("<I", elf, headers_at + i * size)[0] for i in range(count)]
    assert kinds
    assert PT_INTERP not in kinds, "it needs a dynamic loader"


def test_what_is_current_is_kept(binary: Path) -> None:
    before = binary.stat().st_mtime_ns
    build.build(targets=[binary.name.removeprefix("osmef-agent-")])
    assert binary.stat().st_mtime_ns == before


def test_without_a_compiler_it_says_what_to_install(copy: Path) -> None:
    done = run_build(copy, "-I", "-S")  # no site-packages: no ziglang
    assert done.returncode == 1
    assert "pip install ziglang" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_source_that_does_not_compile_is_shown(copy: Path) -> None:
    for source in (copy / "agents" / "osmef-agent").glob("*.c"):
        source.unlink()  # one is quicker to compile than all
    (copy / "agents" / "osmef-agent" / "main.c").write_text("int main(void) { return x; }\n")
    done = run_build(copy)
    assert done.returncode == 1
    assert "main.c:1" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((copy / "osmef" / "agent" / "bin").iterdir()) == []
