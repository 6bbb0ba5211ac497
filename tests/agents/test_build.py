"""The build of the agents: what it makes, and what it says when it can't."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from agents import build

# The ELF header's word size in bits, byte order and machine (elf.h).
ELF_MACHINE = {
    "x86_64": (64, "<", 62),
    "aarch64": (64, "<", 183),
    "armv7l": (32, "<", 40),
    "ppc64le": (64, "<", 21),
    "riscv64": (64, "<", 243),
    "s390x": (64, ">", 22),
}
PROGRAM_HEADERS = {64: ("Q", 32, 54), 32: ("I", 28, 42)}
"""Where the ELF header has their offset, and their size and number; and the offset's type."""
PT_DYNAMIC = 2
PT_INTERP = 3
MOST_BYTES = 250_000
HERE = platform.machine()


def copy_sources(to: Path) -> Path:
    """Make a source tree in which nothing has been built."""
    shutil.copytree(build.ROOT / "agents", to / "agents")
    shutil.copy(build.ROOT / "pyproject.toml", to)
    return to


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return copy_sources(tmp_path)


def run_build(
    tree: Path, *python: str, cache: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Build this machine's agent, with compiled objects kept in ``cache`` only."""
    argv = [sys.executable, *python, "agents/build.py", "--target", HERE]
    env = os.environ | ({"ZIG_LOCAL_CACHE_DIR": str(cache)} if cache else {})
    return subprocess.run(argv, cwd=tree, env=env, capture_output=True, text=True, check=False)


def test_no_source_calls_what_libm_c_takes_the_tables_of() -> None:
    call = re.compile(r"\b(pow|exp|exp2|exp10|expm1|sinh|cosh|tanh|erf|erfc|[lt]gamma)[fl]?\(")
    code = re.compile(r"/\*.*?\*/", re.DOTALL)
    texts = {path.name: code.sub("", path.read_text(encoding="utf-8")) for path in build.sources()}
    assert [name for name, text in texts.items() if call.search(text)] == []


@pytest.mark.parametrize("target", build.TARGETS)
def test_each_agent_is_a_static_program_of_its_architecture(target: str) -> None:
    (path,) = build.build(targets=[target])
    elf = path.read_bytes()
    bits, order, machine = ELF_MACHINE[target]
    word, at, sizes_at = PROGRAM_HEADERS[bits]
    assert path.name == f"osmef-agent-{target}"
    assert elf[:6] == b"\x7fELF" + bytes([bits // 32, 1 if order == "<" else 2])
    assert struct.unpack_from(f"{order}H", elf, 18) == (machine,)
    (headers_at,) = struct.unpack_from(f"{order}{word}", elf, at)
    size, count = struct.unpack_from(f"{order}HH", elf, sizes_at)
    kinds = [struct.unpack_from(f"{order}I", elf, headers_at + i * size)[0] for i in range(count)]
    assert kinds
    assert PT_INTERP not in kinds, "it needs a dynamic loader"
    assert PT_DYNAMIC not in kinds, "it needs a dynamic loader"
    assert len(elf) < MOST_BYTES


def test_two_builds_give_the_same_bytes(tmp_path: Path) -> None:
    """Other directories, other times, nothing shared but the compiler's own libc."""
    built = []
    for name, when in (("one", 1_000_000_000), ("another/place", 1_700_000_000)):
        tree = copy_sources(tmp_path / name)
        for source in tree.rglob("*.[ch]"):
            os.utime(source, (when, when))
        done = run_build(tree, cache=tree / "cache")
        assert done.returncode == 0, done.stderr
        digest, path = done.stdout.split()
        built.append(Path(path).read_bytes())
        assert Path(path).is_relative_to(tree)
        assert hashlib.sha256(built[-1]).hexdigest() == digest
        assert os.fsencode(tmp_path) not in built[-1]
    assert built[0] == built[1]


def test_an_up_to_date_binary_is_not_rebuilt(binary: Path) -> None:
    before = binary.stat().st_mtime_ns
    build.build(targets=[binary.name.removeprefix("osmef-agent-")])
    assert binary.stat().st_mtime_ns == before


def test_a_build_without_a_compiler_names_the_package_to_install(copy: Path) -> None:
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
