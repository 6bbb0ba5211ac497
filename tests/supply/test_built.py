"""Programs that are built from source: for this machine and for another one, and what fails."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from osmef.errors import InputError, SupplyError
from osmef.supply.build import bundle_of_source, without_network
from osmef.supply.bundle import ProgramBundle, unpack
from osmef.supply.closure import parse
from osmef.supply.compiler import find_compiler
from osmef.supply.program import Program, SourceCode, find_architecture, this_architecture

STREAM = Path(__file__).parents[3] / "shared" / "sources" / "STREAM.tar.gz"
ZIG_S = 1200
HELLO = b"""
#include <stdio.h>
#ifdef _OPENMP
#include <omp.h>
#define THREADS omp_get_max_threads()
#else
#define THREADS 0
#endif
int main(int count, char **words) { printf("%s %d\\n", count > 1 ? words[1] : "", THREADS); }
"""
CC = ("cc", "-O2", "hello.c", "-o", "hello")

needs_zig = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="no ziglang here: pip install ziglang"
)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "hello.c").write_bytes(HELLO)
    return folder


def build(code: Path, *steps: tuple[str, ...], machine: str = "", **more: object) -> ProgramBundle:
    source = SourceCode(steps, ("hello",), path=code, **more)  # type: ignore[arg-type]
    program = Program("hello", source=source)
    target = find_architecture(machine or platform.machine())
    return unpack(bundle_of_source(program, target, lambda _line: None, lambda: None))


def run(bundle: ProgramBundle, folder: Path, *arguments: str, **environment: str) -> str:
    path = folder / bundle.manifest.program
    path.write_bytes(bundle.contents[bundle.manifest.program])
    path.chmod(0o700)
    done = subprocess.run(
        [path, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


# zig compiles its C library the first time, for minutes; where OpenMP is wanted, gcc is taken.
@pytest.mark.real("programs")
@pytest.mark.timeout(ZIG_S)
def test_a_program_of_this_machine(code: Path, tmp_path: Path) -> None:
    bundle = build(code, CC)
    assert run(bundle, tmp_path, "word") == "word 0\n"
    manifest = bundle.manifest
    assert (manifest.how, manifest.libc, manifest.argv) == ("build", "static", ("{dir}/hello",))
    assert manifest.build is not None
    assert manifest.build.openmp is None
    assert manifest.build.network == (without_network() == ())
    assert sorted(path.name for path in code.iterdir()) == ["hello.c"], "it is built elsewhere"


@pytest.mark.real("programs")
@pytest.mark.timeout(ZIG_S)
def test_the_same_source_gives_the_same_bytes(code: Path) -> None:
    assert build(code, CC).sha256 == build(code, CC).sha256


@needs_zig
@pytest.mark.real("programs")
@pytest.mark.timeout(ZIG_S)
@pytest.mark.parametrize("machine", ["aarch64", "armv7l"])
def test_a_program_for_another_machine(code: Path, machine: str) -> None:
    step = ("sh", "-c", '$CC -O2 hello.c -o hello && echo "{target}" >target')
    bundle = build(code, step, machine=machine)
    assert parse(bundle.contents["hello"]).machine == find_architecture(machine).elf


def test_openmp_where_the_compiler_has_it(code: Path, tmp_path: Path) -> None:
    bundle = build(code, CC, openmp=True)
    build_facts = bundle.manifest.build
    assert build_facts is not None
    expected = "word 3\n" if build_facts.openmp else "word 0\n"
    assert run(bundle, tmp_path, "word", OMP_NUM_THREADS="3") == expected
    assert bool(bundle.manifest.notes) != build_facts.openmp


needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here: apt install gcc")
SHARED_HERE = ("gcc", "-O2", "hello.c", "-o", "hello", "-Wl,--no-as-needed", "-lm")


@needs_gcc
def test_a_program_with_shared_libraries_takes_them_along(code: Path, tmp_path: Path) -> None:
    bundle = build(code, SHARED_HERE, shared=("gcc",))
    manifest = bundle.manifest
    kinds = {name: file.kind for name, file in manifest.files.items()}
    loader = parse(bundle.contents["hello"]).interpreter
    assert loader is not None
    assert kinds["hello"] == "program"
    assert kinds[Path(loader).name] == "loader"
    assert {name for name, kind in kinds.items() if kind == "library"} == {"libm.so.6", "libc.so.6"}
    assert manifest.libc.startswith("glibc")
    assert manifest.build is not None
    assert any("libc" in library for library in manifest.build.libraries)
    for name, data in bundle.contents.items():
        (tmp_path / name).write_bytes(data)
        (tmp_path / name).chmod(0o700)
    argv = [word.replace("{dir}", str(tmp_path)) for word in manifest.argv]
    done = subprocess.run([*argv, "word"], capture_output=True, text=True, check=True, env={})
    assert done.stdout == "word 0\n"


@needs_gcc
def test_shared_libraries_are_those_of_this_machine_s_kind(code: Path) -> None:
    other = "aarch64" if platform.machine() != "aarch64" else "x86_64"
    with pytest.raises(SupplyError, match=f"no {other}") as caught:
        build(code, SHARED_HERE, machine=other, shared=("gcc",))
    assert caught.value.cure is not None
    assert "bundles" in caught.value.cure


@needs_gcc
def test_the_build_packages_needed_for_shared_libraries_are_reported(code: Path) -> None:
    with pytest.raises(SupplyError, match="no-such-compiler") as caught:
        build(code, ("no-such-compiler",), shared=("gcc", "some-library-dev"))
    assert caught.value.cure is not None
    assert "gcc, some-library-dev" in caught.value.cure


@needs_gcc
def test_the_tools_that_the_steps_need_are_reported(code: Path) -> None:
    with pytest.raises(SupplyError) as found:
        build(code, ("no-such-tool",), tools=("autoconf", "make"))
    assert "no-such-tool" in found.value.message
    assert found.value.cure == "read what it said; this machine needs: autoconf, make"


def test_files_of_ours_are_built_with_it(code: Path, tmp_path: Path) -> None:
    ours = ("ours.h", "#define THREADS 7\n")
    step = ("gcc", "-static", "-O2", "-include", "ours.h", "hello.c", "-o", "hello")
    source_is_as_it_was = sorted(path.name for path in code.iterdir())
    (code / "hello.c").write_bytes(HELLO.replace(b"#define THREADS 0", b""))
    bundle = build(code, step, shared=("gcc",), adds=(ours,))
    assert run(bundle, tmp_path, "word") == "word 7\n"
    assert bundle.manifest.libc == "static"
    assert sorted(path.name for path in code.iterdir()) == source_is_as_it_was


@pytest.mark.parametrize("name", ["../ours.h", "/ours.h", ""])
def test_files_of_ours_stay_in_the_folder(name: str) -> None:
    with pytest.raises(InputError):
        SourceCode((("cc",),), ("hello",), adds=((name, ""),))


def test_one_source_makes_several_programs(code: Path) -> None:
    (code / "data").mkdir()
    (code / "data" / "words.txt").write_bytes(b"some\n")
    steps = (CC, ("cc", "-O2", "-DTWO", "hello.c", "-o", "second"))
    source = SourceCode(steps, ("hello", "second", "data/words.txt"), path=code, openmp=True)
    program = Program("first", source=source)
    bundle = unpack(
        bundle_of_source(program, this_architecture(), lambda _line: None, lambda: None)
    )
    kinds = {name: file.kind for name, file in bundle.manifest.files.items()}
    assert kinds == {"first": "program", "second": "program", "words.txt": "data"}
    assert bundle.manifest.data == {"second": "second", "data/words.txt": "words.txt"}


def test_all_of_its_programs_are_static(code: Path) -> None:
    source = SourceCode(
        (CC, ("cp", "/bin/sh", "second")), ("hello", "second"), path=code, openmp=True
    )
    with pytest.raises(SupplyError, match="no static program"):
        bundle_of_source(Program("hello", source=source), this_architecture(), print, lambda: None)


@needs_zig
def test_a_compiler_without_openmp_is_noted() -> None:
    compiler = find_compiler(find_architecture("s390x"), openmp=True, where="here")
    assert compiler.openmp is False
    assert "on one thread: zig" in compiler.notes[0]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (("cc", "nowhere.c", "-o", "hello"), "nowhere.c"),
        (("true",), "made no hello"),
        (("no-such-tool",), "no-such-tool"),
        (("cp", "/bin/sh", "hello"), "no static program|is no program"),
        (("cp", "hello.c", "hello"), "no program or library of Linux"),
        (("ln", "-s", "/bin/sh", "hello"), "made no hello"),
    ],
)
def test_a_failed_build_is_reported(code: Path, step: tuple[str, ...], message: str) -> None:
    with pytest.raises(SupplyError, match=message):
        build(code, step, openmp=True)


def test_build_steps_have_no_access_to_credentials(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "osmef-secret")
    step = ("sh", "-c", "env; echo HOME is $HOME; false")
    with pytest.raises(SupplyError) as caught:
        build(code, step)
    assert "osmef-secret" not in caught.value.message
    assert f"HOME is {os.environ['HOME']}\n" not in caught.value.message


def test_steps_reach_no_network(code: Path) -> None:
    if not without_network():
        pytest.skip("this user may not make namespaces")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        bash = shutil.which("bash")
        if bash is None:
            pytest.skip("no bash here")
        step = (bash, "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}")
        with pytest.raises(SupplyError, match=r"unreachable|refused|Network"):
            build(code, step)


def test_a_step_that_hangs_is_stopped(code: Path) -> None:
    stopped = threading.Event()

    def check() -> None:
        if stopped.is_set():
            raise SupplyError("stopped")

    def tell(line: str) -> None:
        if line.startswith("building"):
            stopped.set()

    program = Program("hello", source=SourceCode((("sleep", "600"),), ("hello",), path=code))
    with pytest.raises(SupplyError, match="stopped"):
        bundle_of_source(program, this_architecture(), tell, check)


def test_stream() -> None:
    if not STREAM.exists():
        pytest.skip("the source of STREAM is not on this machine")
    steps = (("cc", "-O2", "-DSTREAM_ARRAY_SIZE=100000", "stream.c", "-o", "stream"),)
    source = SourceCode(steps, ("stream",), path=STREAM, openmp=True)
    target = this_architecture()
    packed = bundle_of_source(Program("stream", source=source), target, print, lambda: None)
    bundle = unpack(packed)
    assert bundle.manifest.build is not None


@needs_zig
@pytest.mark.real("programs")
@pytest.mark.timeout(ZIG_S)
def test_stream_for_another_machine(tmp_path: Path) -> None:
    if not STREAM.exists():
        pytest.skip("the source of STREAM is not on this machine")
    steps = (("cc", "-O2", "-DSTREAM_ARRAY_SIZE=100000", "stream.c", "-o", "stream"),)
    program = Program("stream", source=SourceCode(steps, ("stream",), path=STREAM, openmp=True))
    machine = find_architecture("aarch64" if platform.machine() != "aarch64" else "x86_64")
    bundle = unpack(bundle_of_source(program, machine, lambda _line: None, lambda: None))
    assert bundle.manifest.build is not None
    assert bundle.manifest.build.openmp is False
    assert "one thread" in bundle.manifest.notes[0]
