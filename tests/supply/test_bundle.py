"""Bundles as files: the same bytes each time, and whatever is wrong with one is told."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import SupplyError
from osmef.supply.bundle import DamageError, described, pack, read_bundle, unpack
from tests.supply.made import manifest

CONTENTS = {"bench": b"program", "ld.so": b"loader", "load.txt": b"data", "licence-x": b"GPL"}
FILES = {
    "bench": described(b"program", "program", "x"),
    "ld.so": described(b"loader", "loader", "libc6"),
    "load.txt": described(b"data", "data", "x"),
    "licence-x": described(b"GPL", "licence", "x"),
}
GOOD = pack(manifest("bench", FILES, "ld.so"), CONTENTS)


def test_the_same_files_give_the_same_bytes() -> None:
    assert pack(manifest("bench", FILES, "ld.so"), dict(reversed(CONTENTS.items()))) == GOOD


def test_a_bundle_is_read_as_it_was_made(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(GOOD)
    bundle = read_bundle(path)
    assert bundle.contents == CONTENTS
    assert bundle.manifest == manifest("bench", FILES, "ld.so")
    assert set(bundle.pushed) == {"bench", "ld.so", "load.txt"}
    assert pack(bundle.manifest, bundle.contents) == GOOD
    assert bundle.packed_bytes == len(GOOD)


def test_the_bundle_can_be_listed_with_tar() -> None:
    with tarfile.open(fileobj=io.BytesIO(GOOD)) as archive:
        modes = {member.name: (member.mode, member.mtime, member.uid) for member in archive}
    assert modes == {
        "manifest.json": (0o644, 0, 0),
        "bench": (0o755, 0, 0),
        "ld.so": (0o755, 0, 0),
        "licence-x": (0o644, 0, 0),
        "load.txt": (0o644, 0, 0),
    }


def remade(change: Callable[[dict[str, Any]], object], **contents: bytes) -> bytes:
    """A bundle with another manifest, or other files."""
    text = json.loads(manifest("bench", FILES, "ld.so").model_dump_json())
    change(text)
    return tarred({"manifest.json": json.dumps(text).encode(), **CONTENTS, **contents})


def tarred(contents: dict[str, bytes], kind: bytes = tarfile.REGTYPE) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, data in contents.items():
            info = tarfile.TarInfo(name)
            info.size, info.type = len(data), kind
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def nothing(_manifest: dict[str, Any]) -> None:
    """Leave the manifest as it is."""


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"", "empty file"),
        (b"PK\x03\x04", r"no \.tar\.gz"),
        (GOOD[:-1], "cut off"),
        (GOOD[: len(GOOD) // 2], "cut off"),
        (GOOD[:-8] + bytes(8), r"no \.tar\.gz \(CRC check failed"),
        (gzip.compress(b"x" * 5000), "manifest.json|header"),
        (tarred(CONTENTS), "manifest.json"),
        (tarred({"../x": b""}), "no plain file"),
        (tarred({"/etc/x": b""}), "no plain file"),
        (tarred({"a/b": b""}), "no plain file"),
        (tarred({"x": b""}, tarfile.SYMTYPE), "no plain file"),
        (tarred({"x": b""}, tarfile.CHRTYPE), "no plain file"),
        (remade(nothing, bench=b"virus"), "bench is not the file that was bundled"),
        (remade(nothing, more=b""), "more is not in both"),
        (remade(lambda m: m["files"].pop("bench")), "bench is not in both"),
        (remade(lambda m: m.pop("argv")), "argv: Field required"),
        (remade(lambda m: m.update(argv=["rm", "-r"])), "argv does not start one of its files"),
        (remade(lambda m: m.update(argv=["{dir}/load.txt"])), "argv does not start one"),
        (remade(lambda m: m.update(data={"x": "y"})), "there is no y"),
        (remade(lambda m: m.update(schema_version=2)), "schema_version"),
        (remade(lambda m: m.update(program="a/b")), "program"),
    ],
    ids=lambda value: value if isinstance(value, str) else "packed",
)
def test_a_damaged_bundle_is_not_read(tmp_path: Path, packed: bytes, message: str) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(packed)
    with pytest.raises(SupplyError, match=message) as caught:
        read_bundle(path)
    assert caught.value.where == str(path)
    assert caught.value.cure


def test_a_bundle_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SupplyError, match="No such file"):
        read_bundle(tmp_path / "nowhere")


@given(st.data())
def test_a_changed_byte_changes_nothing_or_is_found(data: st.DataObject) -> None:
    changed = bytearray(GOOD)
    place = data.draw(st.integers(10, len(GOOD) - 1))  # before that is gzip's own head
    changed[place] ^= data.draw(st.integers(1, 255))
    try:
        found = unpack(bytes(changed))
    except DamageError:
        return
    assert found.contents == CONTENTS  # the last bits of what is compressed say nothing
    assert found.manifest == manifest("bench", FILES, "ld.so")
