"""Builds that fail or are stopped; the one that succeeds is what the other tests boot."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from osmef.errors import InputError, Interrupted, OsmefError, ProviderError, StorageError
from osmef.images.build import BuildRequest, build_image, open_fakeroot
from osmef.images.guest_image import GuestImage, load_image
from tests.images.written import write_image


@pytest.fixture
def build_request(tmp_path: Path) -> BuildRequest:
    return BuildRequest(
        name="plain",
        directory=tmp_path / "images",
        suite=None,
        packages=(),
        disk_bytes=1 << 30,
        force=False,
        progress=lambda _line: None,
        check=lambda: None,
    )


def refused(build_request: BuildRequest, kind: type[OsmefError]) -> str:
    """Return why there is no such image, and see that nothing was left."""
    before = sorted(build_request.directory.iterdir()) if build_request.directory.exists() else []
    with pytest.raises(kind) as caught:
        build_image(build_request)
    assert caught.value.cure or isinstance(caught.value, Interrupted)
    after = sorted(build_request.directory.iterdir()) if build_request.directory.exists() else []
    assert after == before
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "../x"}, "can't be the name"),
        ({"packages": ("a b",)}, "'a b' is not the name of a package"),
        ({"packages": ("a,b",)}, "not the name of a package"),
        ({"suite": "no/such"}, "not the name of a release"),
        ({"disk_bytes": 1 << 20}, "a disk of 537 MB or more"),
    ],
)
def test_an_invalid_image_order_is_rejected(
    build_request: BuildRequest, change: dict[str, object], message: str
) -> None:
    assert message in refused(replace(build_request, **change), InputError)  # type: ignore[arg-type]


def test_an_image_is_replaced_only_by_force(build_request: BuildRequest) -> None:
    build_request.directory.mkdir()
    write_image(build_request.directory, build_request.name)
    assert "--force" in refused(build_request, InputError)


@pytest.mark.real("images")
def test_a_disk_that_is_full(build_request: BuildRequest) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    build_request.directory.mkdir()
    code = (
        "import sys; from osmef.__main__ import main;"
        f"sys.argv = ['osmef', 'image', 'build', '--output', {str(build_request.directory)!r}];"
        "main()"
    )
    mount = f'mount -t tmpfs -o size=50m tmpfs {build_request.directory} && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount, "sh", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == StorageError.exit_code, done.stderr
    assert "are free, and a build needs" in done.stderr


@pytest.mark.real("images")
@pytest.mark.usefixtures("guest_image")  # it skips where nothing can be built
class TestWithTools:
    """Builds that begin for real."""

    def test_stopped_in_the_middle_nothing_is_left(
        self, build_request: BuildRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        temporary = tmp_path / "temporary"
        temporary.mkdir()
        monkeypatch.setenv("TMPDIR", str(temporary))
        began = False

        def progress(line: str) -> None:
            nonlocal began
            began = began or "extracting" in line

        def check() -> None:
            if began:
                raise Interrupted("stopped by SIGINT")

        stopped = replace(build_request, progress=progress, check=check)
        assert "stopped by SIGINT" in refused(stopped, Interrupted)
        assert build_request.directory.name not in Path("/proc/mounts").read_text()
        assert list(temporary.iterdir()) == []

    def test_a_release_that_is_not_there(self, build_request: BuildRequest) -> None:
        message = refused(replace(build_request, suite="osmef-no-such"), ProviderError)
        assert "mmdebstrap failed: E: The repository" in message
        assert "look at --suite" in message

    def test_only_one_builds_an_image_at_a_time(self, build_request: BuildRequest) -> None:
        def build_it_too(_line: str) -> None:
            raise Interrupted(refused(build_request, InputError))

        first = replace(build_request, progress=build_it_too)
        assert "being built by another process" in refused(first, Interrupted)

    @pytest.mark.parametrize("name", ["", "another-"])
    def test_the_remains_of_a_killed_build_are_deleted_by_the_next_one(
        self, build_request: BuildRequest, name: str
    ) -> None:
        of = f"{name}{build_request.name}"
        draft = build_request.directory / f".osmef-image-{of}-0123456789abcdef.draft"
        (draft / "tree/etc").mkdir(parents=True)
        seen: list[bool] = []

        def look(_line: str) -> None:
            seen.append((draft / "tree/etc").exists())
            raise Interrupted("seen enough")

        with pytest.raises(Interrupted):
            build_image(replace(build_request, progress=look))
        assert seen == [False]
        assert list(build_request.directory.iterdir()) == []

    def test_no_link_leads_a_build_to_another_directory(
        self, build_request: BuildRequest, tmp_path: Path
    ) -> None:
        build_request.directory.mkdir()
        victim = tmp_path / "etc"
        (victim / "ssh").mkdir(parents=True)
        (build_request.directory / f".{build_request.name}.draft").symlink_to(victim)

        def look(_line: str) -> None:
            raise Interrupted("seen enough")

        refused(replace(build_request, progress=look), Interrupted)
        assert (victim / "ssh").is_dir()

    def test_the_output_of_a_failed_tool_is_shown(self) -> None:
        with pytest.raises(ProviderError, match=r"mke2fs failed: .*No such file"):
            open_fakeroot(lambda: None).run(["mke2fs", "/nowhere/disk", "1M"])


@pytest.mark.real("images")
def test_an_image_lists_its_packages_and_files(guest_image: GuestImage) -> None:
    manifest = guest_image.manifest
    assert {"openssh-server", "iproute2", "ethtool"} < set(manifest.packages)
    assert manifest.kernel.split("-cloud")[0] in str(manifest.packages)
    guest_image.verify()
    assert sorted(path.name for path in guest_image.directory.iterdir()) == [
        "image.json",
        "initrd",
        "root.qcow2",
        "vmlinuz",
    ]
    assert load_image(guest_image.directory) == guest_image
