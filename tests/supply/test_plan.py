"""What a plan says of a program, and what is made before there is an endpoint."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from platform import machine

import pytest

from osmef.errors import SupplyError
from osmef.supply.bundle import BundleStore, described, pack
from osmef.supply.program import Program, SourceCode, find_architecture
from osmef.supply.supply import Supplier, build_from_source, check, make, plan
from tests.supply.made import manifest

SOURCE = SourceCode((("make",),), ("bench",), url="https://example.org/b.tar.gz", sha256="0" * 64)
BROUGHT = SourceCode((("cc", "bench.c", "-o", "bench"),), ("bench",))
BENCH = Program("bench", package="bench-tools", source=SOURCE)


@pytest.fixture
def supplier(tmp_path: Path) -> Supplier:
    return Supplier(BundleStore(tmp_path / "programs"), suite="bookworm")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A bundle that was made elsewhere, for aarch64."""
    path = tmp_path / "bench.tar.gz"
    files = {"bench": described(b"program", "program")}
    about = manifest("bench", files, None, architecture="aarch64")
    path.write_bytes(pack(about, {"bench": b"program"}))
    return path


def test_ways_to_provide_a_program_are_planned_in_order(supplier: Supplier) -> None:
    assert plan(BENCH, None, supplier) == (
        "bench: the endpoint's own, else a bundle of Debian bookworm's package bench-tools,"
        " else built from https://example.org/b.tar.gz"
    )
    only = replace(BENCH, how=("install", "present"))
    assert plan(only, "x86_64", supplier) == (
        "bench: installed there by its package manager (bench-tools), else the endpoint's own"
    )
    assert plan(Program("bench", how=("build",)), None, supplier) == "bench: no way to have it"


def test_a_plan_shows_what_will_fail(supplier: Supplier, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "(which fails: programs are supplied for" in plan(Program("bench"), "vax", supplier)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("osmef.programs.SYSTEM_DIRECTORIES", ())
    told = plan(Program("bench"), "x86_64", supplier)
    assert "(which fails: no apt-get on this machine" in told


def test_a_bundle_that_was_made_elsewhere(supplier: Supplier, elsewhere: Path) -> None:
    program = Program("bench", bundle=elsewhere, how=("bundle",))
    assert plan(program, "aarch64", supplier).startswith(f"bench: the bundle {elsewhere} (")
    made = make("bundle", program, find_architecture("aarch64"), supplier)
    assert made.contents == {"bench": b"program"}
    check(program, supplier)


@pytest.mark.parametrize(
    ("name", "message", "cure"),
    [
        (
            "bench",
            "it is for aarch64, and this is needed for x86_64",
            "osmef program bundle bench --arch x86_64 -o FILE",
        ),
        ("other", "it holds bench, not other", "name the file of other under bundles"),
    ],
)
def test_a_bundle_of_another_program_or_architecture_is_rejected(
    supplier: Supplier, elsewhere: Path, name: str, message: str, cure: str
) -> None:
    wrong = Program(name, bundle=elsewhere)
    assert message in plan(wrong, "x86_64", supplier)
    with pytest.raises(SupplyError, match=message) as caught:
        make("bundle", wrong, find_architecture("x86_64"), supplier)
    assert caught.value.cure == cure


def test_a_bundle_without_the_data_that_is_needed(supplier: Supplier, elsewhere: Path) -> None:
    program = Program("bench", bundle=elsewhere, files=("/usr/share/bench/load",))
    with pytest.raises(SupplyError, match="it holds no /usr/share/bench/load") as caught:
        make("bundle", program, find_architecture("aarch64"), supplier)
    assert "--file /usr/share/bench/load" in str(caught.value.cure)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (Program("bench", bundle=Path("/nowhere"), how=("bundle",)), "bundle: .*"),
        (Program("bench", how=("build",)), "no allowed way applies to it"),
        (Program("bench", source=BROUGHT, how=("build",)), "its source is not on this controller"),
        (Program("bench", how=("bundle",)), "no apt-get on this machine"),
    ],
)
def test_programs_no_endpoint_can_get_are_rejected_before_creation(
    supplier: Supplier, monkeypatch: pytest.MonkeyPatch, program: Program, message: str
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("osmef.programs.SYSTEM_DIRECTORIES", ())
    with pytest.raises(SupplyError, match=message):
        check(program, supplier)
    check(replace(program, how=("present", *program.how)), supplier)


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put an apt into PATH that knows parts of a release of Debian."""

    def known(*parts: str, suite: str = "bookworm") -> None:
        lines = [f"Debian|http://deb.example.org/debian/|{suite}|{part}" for part in parts]
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        for name in ("apt-get", "dpkg-deb"):
            told = " ".join(map(repr, lines))
            (folder / name).write_text(f"#!/bin/sh\nprintf '%s\\n' {told}\n")
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    return known


@pytest.mark.parametrize(
    ("parts", "suite"), [(["main"], "bookworm"), (["main", "non-free"], "trixie")]
)
def test_non_free_programs_are_not_bundled_without_a_non_free_source(
    supplier: Supplier, apt: Callable[..., None], parts: list[str], suite: str
) -> None:
    program = Program("bench", component="non-free", source=BROUGHT)
    apt(*parts, suite=suite)
    failing = (
        "bench: the endpoint's own, else a bundle of Debian bookworm's package bench (which fails:"
        " its package bench is in Debian's non-free, and this machine's apt has no source of that)"
    )
    assert plan(program, None, supplier).startswith(failing)
    assert plan(program, "aarch64", supplier).startswith(failing)
    with pytest.raises(SupplyError, match="no source of that") as caught:
        check(replace(program, how=("bundle",)), supplier)
    assert caught.value.cure == "add non-free to the sources of apt, and run apt-get update"


def test_non_free_programs_are_bundled_with_a_non_free_source(
    supplier: Supplier, apt: Callable[..., None]
) -> None:
    program = Program("bench", component="non-free", source=BROUGHT)
    apt("main", "non-free")
    told = plan(program, None, supplier)
    assert "a bundle of Debian bookworm's package bench, else built" in told
    assert "package bench for aarch64" in plan(program, "aarch64", supplier)
    check(replace(program, how=("bundle",)), supplier)


@pytest.mark.parametrize(
    ("machine", "named"), [("x86_64", "x86_64"), ("aarch64", "aarch64"), ("vax", "x86_64")]
)
def test_the_build_command_names_an_architecture_that_exists(
    supplier: Supplier, monkeypatch: pytest.MonkeyPatch, machine: str, named: str
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    program = Program("bench", source=BROUGHT, how=("build",))
    with pytest.raises(SupplyError) as caught:
        check(program, supplier)
    assert caught.value.cure == f"osmef program build bench --source PATH --arch {named}"
    other = find_architecture("s390x")
    with pytest.raises(SupplyError) as caught:
        make("build", program, other, supplier)
    assert caught.value.cure == "osmef program build bench --source PATH --arch s390x"


def test_a_source_that_a_user_brings_is_named_by_where_to_get_it(supplier: Supplier) -> None:
    source = replace(BROUGHT, origin="https://example.org/bench")
    program = Program("bench", source=source, how=("build",))
    with pytest.raises(SupplyError) as caught:
        make("build", program, find_architecture("s390x"), supplier)
    assert caught.value.cure == (
        "get its source from https://example.org/bench, then:"
        " osmef program build bench --source PATH --arch s390x"
    )


@pytest.mark.real("programs")
def test_a_source_that_a_user_brings(supplier: Supplier, tmp_path: Path) -> None:
    """It is built once, and is what the program is built from in runs."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "bench.c").write_text("int main(void) { return 0; }\n")
    program, here = Program("bench", source=BROUGHT, how=("build",)), find_architecture(machine())
    with pytest.raises(SupplyError, match="its source is not on this controller") as caught:
        make("build", program, here, supplier)
    assert f"osmef program build bench --source PATH --arch {here.name}" in str(caught.value.cure)
    assert "built from source that you bring" in plan(program, None, supplier)
    made = build_from_source(program, replace(BROUGHT, path=code), here, supplier)
    assert made.manifest.build is not None
    assert made.manifest.build.source == str(code)
    assert make("build", program, here, supplier).sha256 == made.sha256
    assert f"for {here.name} (made already)" in plan(program, here.name, supplier)
    check(program, supplier)
