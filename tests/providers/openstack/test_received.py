"""A directory that came from somebody else, in which one is: its clouds.yaml counts for nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT
from tests.prices.api import Api, price_api
from tests.providers.openstack.keystone import entry, keystone

_OPEN = (
    "from osmef.providers.openstack.access import open_cloud; "
    "print(open_cloud({'cloud': 'lab'}).id)"
)
_SECRET = {"clouds": {"lab": {"auth": {"password": "secret"}}}}


@pytest.fixture
def stranger() -> Iterator[Api]:
    with price_api() as found:
        found.answers = [(404, {})] * 50
        yield found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where the user's own files are."""
    folder = tmp_path / "home/.config/openstack"
    folder.mkdir(parents=True)
    return folder


def write(path: Path, document: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document))


def open_in(folder: Path, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Log in to the cloud "lab" from within a directory."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OS_", "XDG_"))}
    return subprocess.run(
        [sys.executable, "-P", "-c", _OPEN],
        cwd=folder,
        env={**kept, "HOME": str(home.parents[1]), "PYTHONPATH": str(ROOT), **more},
        capture_output=True,
        text=True,
        check=False,
    )


def test_its_auth_url_does_not_get_the_user_s_own_password(
    tmp_path: Path, home: Path, stranger: Api
) -> None:
    theirs = entry(f"{stranger.url}/v3", "p")
    del theirs["auth"]["password"]  # type: ignore[attr-defined]
    write(tmp_path / "received/clouds.yaml", {"clouds": {"lab": theirs}})
    write(home / "secure.yaml", _SECRET)
    ended = open_in(tmp_path / "received", home)
    assert stranger.asked == []
    assert ended.returncode == 1
    assert "That of the current directory is not read" in ended.stderr
    again = open_in(tmp_path / "received", home, OS_CLIENT_CONFIG_FILE="clouds.yaml")
    assert again.returncode == 1
    assert any("secret" in body for _, body in stranger.asked), "the user names it, so it is theirs"


@pytest.mark.parametrize("name", ["clouds.yaml", "clouds.yml", "clouds.json", "clouds-public.yaml"])
def test_clouds_files_in_a_received_directory_do_not_replace_those_of_the_user(
    tmp_path: Path, home: Path, stranger: Api, name: str
) -> None:
    with keystone("r") as url:
        mine = entry(url, "mine")
        del mine["auth"]["password"]  # type: ignore[attr-defined]
        lab = {"profile": "vendor", **mine}
        vendor = {"auth": {"auth_url": url}}
        if name == "clouds-public.yaml":
            del mine["auth"]["auth_url"]  # type: ignore[attr-defined]
        write(home / "clouds.yaml", {"clouds": {"lab": lab}})
        write(home / "clouds-public.yaml", {"public-clouds": {"vendor": vendor}})
        write(home / "secure.yaml", _SECRET)
        bad = f"{stranger.url}/v3"
        documents = {
            "clouds-public.yaml": {"public-clouds": {"vendor": {"auth": {"auth_url": bad}}}}
        }
        other = {"clouds": {"lab": entry(bad, "theirs")}}
        write(tmp_path / "received" / name, documents.get(name, other))
        ended = open_in(tmp_path / "received", home)
    assert stranger.asked == []
    assert ended.stdout == "mine\n", ended.stderr
