from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from osmef.errors import InputError
from osmef.images.guest_image import check_name, default_directory, image_directories, load_image
from tests.images.written import write_image


def edited(change: Callable[[Any], object]) -> Callable[[Path], object]:
    def damage(directory: Path) -> None:
        path = directory / "image.json"
        manifest = json.loads(path.read_text())
        change(manifest)
        path.write_text(json.dumps(manifest))

    return damage


def named(manifest: Any, name: str) -> None:
    """Have a manifest name another file as the kernel."""
    manifest["files"]["kernel"]["name"] = name


def link(directory: Path) -> None:
    """Have the kernel be a link to a file of the same content elsewhere."""
    elsewhere = directory.parent / "vmlinuz"
    (directory / "vmlinuz").rename(elsewhere)
    (directory / "vmlinuz").symlink_to(elsewhere)


def test_an_image_lists_its_files(tmp_path: Path) -> None:
    image = load_image(write_image(tmp_path, "plain"))
    assert image.manifest.packages == {"iproute2": "6.1.0-3"}
    assert [p.read_text() for p in (image.root, image.kernel, image.initrd)] == [
        "root.qcow2 of plain",
        "vmlinuz of plain",
        "initrd of plain",
    ]
    image.verify()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "no image here"),
        (lambda path: (path / "image.json").write_text("{"), "image.json"),
        (lambda path: (path / "image.json").write_text("[]"), "image.json"),
        (edited(lambda manifest: manifest.update(schema_version=2)), "schema_version"),
        (edited(lambda manifest: manifest.pop("boot")), "boot"),
        (edited(lambda manifest: named(manifest, "/etc/shadow")), "files.kernel.name"),
        (edited(lambda manifest: named(manifest, "../plain/vmlinuz")), "files.kernel.name"),
        (edited(lambda manifest: named(manifest, "..")), "files.kernel.name"),
        (edited(lambda manifest: named(manifest, "vmlinuz\n")), "files.kernel.name"),
        (lambda path: (path / "image.json").write_text("{"), "image.json: Invalid JSON"),
        (link, "vmlinuz is a link"),
        (lambda path: (path / "vmlinuz").unlink(), "vmlinuz is missing"),
        (lambda path: (path / "root.qcow2").write_text("ro"), "root.qcow2 is missing, or cut off"),
    ],
)
def test_a_damaged_image_is_not_loaded(
    tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    directory = write_image(tmp_path, "plain")
    damage(directory)
    with pytest.raises(InputError) as caught:
        load_image(directory)
    assert message in caught.value.message
    assert "osmef image build" in str(caught.value.cure)


def test_a_changed_file_is_found_by_its_hash(tmp_path: Path) -> None:
    image = load_image(write_image(tmp_path, "plain"))
    image.initrd.write_text("initrd of pLain")
    load_image(image.directory)
    with pytest.raises(InputError, match="initrd is not the file that was built"):
        image.verify()


def test_images_are_listed_by_name_and_drafts_are_not(tmp_path: Path) -> None:
    for name in ("b", "a", ".c.draft"):
        write_image(tmp_path, name)
    (tmp_path / "else").mkdir()
    assert [path.name for path in image_directories(tmp_path)] == ["a", "b"]
    assert image_directories(tmp_path / "nowhere") == []


@pytest.mark.parametrize("name", ["", ".x", "A", "a/b", "../a", "a b", "a\n", "x" * 64])
def test_a_name_is_a_plain_word(name: str) -> None:
    with pytest.raises(InputError, match="can't be the name"):
        check_name(name)


def test_images_are_kept_where_caches_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_directory() == tmp_path / "osmef/images"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_directory() == tmp_path / ".cache/osmef/images"
