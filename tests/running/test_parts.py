"""Which part of the tests a change asks for, and what CONTRIBUTING says of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.running import parts, real, tiers
from tests.running.parts import PARTS, ROOT, changed_files, parts_of


def test_contributing_has_every_part() -> None:
    rows = [
        f"| `{one.name}` | {one.what} | {', '.join(f'`{path}`' for path in one.covers)} |"
        for one in PARTS.values()
    ]
    assert "\n".join(rows) in (ROOT / "CONTRIBUTING.md").read_text()


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_the_files_that_a_part_covers_exist(part: parts.Part) -> None:
    for path in part.covers:
        assert (ROOT / path).exists(), f"{part.name} covers {path}, which is gone"


def test_the_files_that_the_tiers_name_exist() -> None:
    assert set(tiers._FILES.values()) <= set(PARTS)
    for path in (*tiers._FILES, *tiers.CHECK):
        assert (ROOT / path).exists(), path


def test_a_changed_file_selects_the_test_parts_that_cover_it() -> None:
    asked = {one.name for one in parts_of(["osmef/providers/openstack/names.py", "README.md"])}
    assert {"clouds", "openstack", "openstack-guests", "openstack-volumes"} == asked
    assert parts_of(["README.md"]) == []
    assert parts_of(None) == list(PARTS.values())


def test_files_changed_since_the_last_release_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "ROOT", tmp_path)
    assert changed_files() is None, "no repository"

    def git(*command: str) -> None:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        subprocess.run(["git", *who, *command], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    git("commit", "--allow-empty", "-m", "first")
    assert changed_files() is None, "no release yet"
    git("tag", "v1.0")
    assert changed_files() == []
    (tmp_path / "a.py").touch()
    git("add", ".")
    git("commit", "-m", "second")
    assert changed_files() == ["a.py"]


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """The exit codes of the parts that run."""
    codes: dict[str, list[int]] = {}
    monkeypatch.setattr(real, "run", lambda part, _options: codes[part.name].pop(0))
    return codes


@pytest.mark.parametrize(
    "case",
    [
        ("", [0], 0, "passed in"),
        ("", [5], 0, "passed in"),
        ("", [1], 1, "failed in"),
        ("--within 100", [0], 0, "passed in"),
        ("--within 1", [], 0, "left out for time: make test-real PART=agents"),
    ],
)
def test_a_part_that_fails_is_a_failure_and_one_for_which_there_is_no_time_is_named(
    ends: dict[str, list[int]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    case: tuple[str, list[int], int, str],
) -> None:
    options, ends["agents"], code, told = case
    monkeypatch.setattr("sys.argv", ["real", "agents", *options.split()])
    assert real.main() == code
    (line,) = [one for one in capsys.readouterr().out.splitlines() if one.startswith("agents ")]
    assert told in line
    assert ends["agents"] == []
