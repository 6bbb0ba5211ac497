"""What a plan says of a program, and what is made before there is an endpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmef.errors import SupplyError
from osmef.supply.bundle import described, pack
from osmef.supply.program import Program, Source
from osmef.supply.store import Store
from osmef.supply.supply import Supplier, plan, prepare
from tests.supply.made import manifest

SOURCE = Source((("make",),), ("bench",), url="https://example.org/b.tar.gz", sha256="0" * 64)
BENCH = Program("bench", package="bench-tools", source=SOURCE)


@pytest.fixture
def supplier(tmp_path: Path) -> Supplier:
    return Supplier(Store(tmp_path / "programs"), suite="bookworm")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A bundle that was made elsewhere, for aarch64."""
    path = tmp_path / "bench.tar.gz"
    files = {"bench": described(b"program", "program")}
    about = manifest("bench", files, None, architecture="aarch64")
    path.write_bytes(pack(about, {"bench": b"program"}))
    return path


def test_ways_in_their_order(supplier: Supplier) -> None:
    assert plan(BENCH, None, supplier) == (
        "bench: the endpoint's own, else a bundle of Debian bookworm's package bench-tools,"
        " else built from https://example.org/b.tar.gz"
    )
    only = Supplier(supplier.store, ("install", "present"))
    assert plan(BENCH, "x86_64", only) == (
        "bench: installed there by its package manager (bench-tools), else the endpoint's own"
    )
    assert plan(Program("bench"), None, Supplier(supplier.store, ("build",))) == (
        "bench: no way to have it"
    )


def test_what_will_fail_is_said(supplier: Supplier, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "(which fails: programs are supplied for" in plan(Program("bench"), "vax", supplier)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("osmef.programs.SYSTEM_DIRECTORIES", ())
    told = plan(Program("bench"), "x86_64", supplier)
    assert "(which fails: no apt-get on this machine" in told


def test_a_bundle_that_was_made_elsewhere(supplier: Supplier, elsewhere: Path) -> None:
    program = Program("bench", bundle=elsewhere, how=("bundle",))
    assert plan(program, "aarch64", supplier).startswith(f"bench: the bundle {elsewhere} (")
    made = prepare(program, "aarch64", supplier)
    assert made is not None
    assert made.contents == {"bench": b"program"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bench", "it is for aarch64, and this is needed for x86_64"),
        ("other", "it holds bench, not other"),
    ],
)
def test_another_one_is_not_taken(
    supplier: Supplier, elsewhere: Path, name: str, message: str
) -> None:
    wrong = Program(name, bundle=elsewhere)
    assert message in plan(wrong, "x86_64", supplier)
    with pytest.raises(SupplyError, match=message) as caught:
        prepare(wrong, "x86_64", supplier)
    assert caught.value.where == "x86_64"


def test_a_bundle_without_the_data_that_is_needed(supplier: Supplier, elsewhere: Path) -> None:
    program = Program("bench", bundle=elsewhere, files=("/usr/share/bench/load",))
    with pytest.raises(SupplyError, match="it holds no /usr/share/bench/load") as caught:
        prepare(program, "aarch64", supplier)
    assert "--file /usr/share/bench/load" in str(caught.value.cure)


def test_nothing_is_made_of_what_is_only_found(supplier: Supplier) -> None:
    assert prepare(Program("bench", how=("present",)), "vax", supplier) is None
