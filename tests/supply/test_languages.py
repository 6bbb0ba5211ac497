"""Programs of other languages than C: what is made of them, and what runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from osmef.errors import SupplyError
from osmef.supply.build import bundle_of_source
from osmef.supply.bundle import BundleStore, ProgramBundle, unpack
from osmef.supply.closure import parse
from osmef.supply.program import Language, Program, SourceCode, find_architecture, this_architecture
from osmef.supply.supply import Supplier, check, plan

JAVA = """\
public class Hello {
    public static void main(String[] words) { System.out.println("hello " + words[0]); }
}
"""
needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="no Go here: golang-go")
needs_jdk = pytest.mark.skipif(
    shutil.which("javac") is None or shutil.which("java") is None,
    reason="no JDK here: default-jdk-headless",
)


def build(
    code: Path, language: Language, product: str, *steps: tuple[str, ...], machine: str = ""
) -> ProgramBundle:
    source = SourceCode(steps, (product,), path=code, language=language)
    kind = find_architecture(machine) if machine else this_architecture()
    program = Program("hello", source=source, how=("build",))
    return unpack(bundle_of_source(program, kind, lambda _line: None, lambda: None))


def lay(bundle: ProgramBundle, folder: Path) -> list[str]:
    """Put a bundle's files into a folder, and return what its manifest says starts it."""
    for name, data in bundle.contents.items():
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o700)
    return [word.replace("{dir}", str(folder)) for word in bundle.manifest.argv]


def test_a_script_is_packed_without_a_compiler(tmp_path: Path) -> None:
    (tmp_path / "hello.js").write_text("console.log('hello')\n")
    source = SourceCode((), ("hello.js",), path=tmp_path, language="script")
    program, lines = Program("hello", source=source, how=("build",)), list[str]()
    bundle_of_source(program, this_architecture(), lines.append, lambda: None)
    assert lines == [f"building hello for {this_architecture().name}"]


@needs_go
@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "armv7l"])
def test_go_makes_static_programs_for_other_machines(
    tmp_path_factory: pytest.TempPathFactory, machine: str
) -> None:
    code, folder = tmp_path_factory.mktemp("code"), tmp_path_factory.mktemp("made")
    # without an import: a library need not be compiled for each machine
    (code / "hello.go").write_text('package main\n\nfunc main() { println("hello") }\n')
    step = ("go", "build", "-trimpath", "-o", "made", "hello.go")
    bundle = build(code, "go", "made", step, machine=machine)
    assert parse(bundle.contents["hello"]).machine == find_architecture(machine).elf
    assert bundle.manifest.libc == "static"
    assert bundle.manifest.build is not None
    assert bundle.manifest.build.compiler.startswith("go1.")
    if machine == this_architecture().name:
        done = subprocess.run(lay(bundle, folder), capture_output=True, text=True, check=True)
        assert done.stderr == "hello\n"


@needs_go
def test_errors_of_the_go_compiler_are_shown(tmp_path: Path) -> None:
    (tmp_path / "hello.go").write_text("package main\n\nfunc main() { nothing() }\n")
    with pytest.raises(SupplyError, match="undefined: nothing"):
        build(tmp_path, "go", "made", ("go", "build", "-o", "made", "hello.go"))


@needs_jdk
def test_java_is_compiled_here_and_run_by_another_program(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    code, folder = tmp_path_factory.mktemp("code"), tmp_path_factory.mktemp("made")
    (code / "Hello.java").write_text(JAVA)
    bundle = build(
        *(code, "java", "hello.jar"),
        ("javac", "--release", "11", "-d", "made", "Hello.java"),
        ("jar", "--create", "--file", "hello.jar", "-C", "made", "."),
    )
    manifest = bundle.manifest
    assert (manifest.data, manifest.libc) == ({"hello.jar": "hello.jar"}, "none")
    (jar,) = lay(bundle, folder)
    argv = ["java", "-cp", jar, "Hello", "there"]
    assert subprocess.run(argv, capture_output=True, check=True).stdout == b"hello there\n"


def test_a_script_is_bundled_unchanged(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text("print('hello')\n")
    bundle = build(tmp_path, "script", "hello.py")
    manifest = bundle.manifest
    assert bundle.contents == {"hello.py": b"print('hello')\n"}
    assert manifest.argv == ("{dir}/hello.py",)
    assert manifest.data == {"hello.py": "hello.py"}
    assert manifest.build is not None
    assert (manifest.build.compiler, manifest.libc) == ("none", "none")


def test_a_c_build_without_a_binary_is_still_rejected(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text("print('hello')\n")
    with pytest.raises(SupplyError, match="no program or library of Linux"):
        build(tmp_path, "c", "hello.py", ("true",))


@pytest.mark.parametrize(
    ("language", "lacks", "cure"),
    [("go", "no Go", "golang-go"), ("java", "no javac", "default-jdk-headless")],
)
def test_a_missing_compiler_on_the_controller_is_reported_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: Language, lacks: str, cure: str
) -> None:
    (tmp_path / "code").mkdir()
    source = SourceCode((), ("made",), path=tmp_path / "code", language=language)
    program = Program("hello", source=source, how=("build",))
    monkeypatch.setattr("osmef.supply.compiler.search_path", lambda: str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    supplier = Supplier(BundleStore(tmp_path / "store"))
    with pytest.raises(SupplyError, match=lacks) as caught:
        check(program, supplier)
    assert cure in str(caught.value.cure)
    assert lacks in plan(program, this_architecture().name, supplier)


@needs_go
def test_go_is_found_beside_the_python_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package of PyPI puts it there, which is in nobody's PATH unless the venv is activated."""
    there = tmp_path / "venv"
    there.mkdir()
    (there / "go").symlink_to(str(shutil.which("go")))
    monkeypatch.setattr("osmef.supply.compiler.search_path", lambda: os.defpath + "-not")
    monkeypatch.setattr("sys.executable", str(there / "python"))
    (tmp_path / "code").mkdir()
    source = SourceCode((), ("made",), path=tmp_path / "code", language="go")
    check(
        Program("hello", source=source, how=("build",)), Supplier(BundleStore(tmp_path / "store"))
    )


def test_go_architecture_names_are_translated() -> None:
    names = ["x86_64", "aarch64", "armv7l", "ppc64le", "s390x", "riscv64"]
    told = [find_architecture(name).go for name in names]
    assert told == ["amd64", "arm64", "arm", "ppc64le", "s390x", "riscv64"]
