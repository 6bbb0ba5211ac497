from __future__ import annotations

import signal
from pathlib import Path

import pytest

from osmef.images.guest_image import GuestImage
from tests.cli.conftest import Osmef
from tests.images.written import write_image


def test_images_are_listed(osmef: Osmef) -> None:
    images = osmef.directory / "images"
    images.mkdir()
    for name in ("good", "bad"):
        write_image(images, name)
    (images / "bad/initrd").unlink()
    ended = osmef("image", "list", "--output", "images")
    assert ended.code == 0
    good, bad = ended.out.splitlines()
    assert good.startswith("good  bookworm x86_64  kernel 6.1.0-56-cloud-amd64")
    assert bad == "bad: this image is damaged: initrd is missing, or cut off"
    printed = osmef("image", "list", "--output", "images", "--json").json()
    assert [image["path"] for image in printed["images"]] == ["images/good"]
    assert [image["path"] for image in printed["damaged"]] == ["images/bad"]


def test_without_images_the_command_to_build_one_is_named(osmef: Osmef) -> None:
    ended = osmef("image", "list", "--output", "nowhere")
    assert (ended.code, ended.out) == (0, "")
    assert "osmef image build" in ended.err
    assert osmef("image", "list", "--output", "nowhere", "--json").json() == {
        "images": [],
        "damaged": [],
    }


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (("--size", "2"), "--size"),
        (("--size", "1MB"), "--size"),
        (("--name", "A b"), "--name"),
        (("--packages", "ok,not;ok"), "--packages"),
        (("--suite", "../x"), "--suite"),
    ],
)
def test_options_that_make_no_sense(osmef: Osmef, options: tuple[str, str], where: str) -> None:
    ended = osmef("image", "build", "--output", "images", *options)
    assert ended.code == 2
    assert ended.err.startswith(f"error: {where}: ")
    assert "cure:" in ended.err
    told = osmef("image", "build", "--output", "images", *options, "--json").json()
    assert told["error"]["where"] == where
    assert not Path(osmef.directory, "images").exists()


@pytest.mark.real("images")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_build_leaves_nothing(
    osmef: Osmef, number: signal.Signals, guest_image: GuestImage
) -> None:
    process = osmef.start("image", "build", "--output", "images")
    osmef.until(process, "installing Debian")
    osmef.interrupt(process, number)
    ended = osmef.finish(process)
    assert ended.code == 4
    assert f"stopped by {number.name}" in ended.err
    assert list((osmef.directory / "images").iterdir()) == []
