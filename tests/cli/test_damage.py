"""What is said of run directories that a disk, a copy or a hand has damaged.

``OSMEF_MUTATIONS=20000 pytest tests/cli/test_damage.py`` damages them in more ways than usual, and
``OSMEF_MUTATIONS_FROM`` in other ones.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.main import get_command

from osmef.cli.main import make_app
from osmef.engine.journal import Journal
from osmef.errors import CapacityError, OsmefError
from osmef.kinds import PROVIDERS
from osmef.providers.base import Endpoint, Resource, RunContext
from osmef.providers.local.provider import LocalProvider
from osmef.results.frame import load
from tests.cli.conftest import Osmef
from tests.journals import read_notes

SCENARIO = """
name: pair
workload: {kind: btc, duration: 200ms, interval: 100ms}
sweep: {connections: [1, 2]}
repeat: 3
"""
FILES = ("journal.jsonl", "trials.jsonl", "scenario.yaml", "summary.json")
COUNT = int(os.environ.get("OSMEF_MUTATIONS", "200"))
FIRST = int(os.environ.get("OSMEF_MUTATIONS_FROM", "0"))


class FullCloud(LocalProvider):
    """Has no room for anything more; what was made in it is in memory."""

    gone: ClassVar[list[str]] = []

    def check(self, *_asked: object) -> None: ...

    def create(self, _order: RunContext) -> list[Endpoint]:
        raise CapacityError("the cloud is full", where="provider", cure="wait")

    @classmethod
    def owned(cls, *_asked: object, **_more: object) -> list[Resource]:
        return []

    @classmethod
    def destroy(cls, resources: Sequence[Resource], gone: Callable[[Resource], None]) -> None:
        for resource in resources:
            cls.gone.append(resource.name)
            gone(resource)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run that has ended, and one whose controller was killed, as they really are."""
    found = {}
    for how in ("ended", "killed"):
        osmef = Osmef(tmp_path_factory.mktemp(how))
        process = osmef.start("run", osmef.write(SCENARIO))
        if how == "killed":
            osmef.until(process, "[3/6]")
            process.kill()
        osmef.finish(process)
        osmef("reap") if how == "ended" else None
        found[how] = osmef.run
    return found


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(PROVIDERS.classes, "local", FullCloud)
    yield
    FullCloud.gone.clear()


# --- damage

HOSTILE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**31, 2**53, 2**63, 10**30, 1e400, -1e400, float("nan"), 0.5),
    *("", "²", "٣", "\0", "\x1b[2J", "\ud800", "x" * 5000, "../..", "nan", "2026-13-45T00:00:00Z"),
    *("9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "2026-01-01T00:00:00", "1e999"),
    *([], {}, [[]], [None], {"": None}, {"a": {"b": []}}, [1, "2"]),
)


def flip(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def overwrite(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    other = bytes(
        chance.choice((0, 10, 32, 34, 44, 91, 123, 255)) for _ in range(chance.choice((1, 1, 512)))
    )
    return data[:at] + other + data[at + len(other) :]


def cut_off(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def cut_out(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + data[at + chance.choice((1, 2, 60, 4096)) :]


def without_line(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    del lines[chance.randrange(len(lines))]
    return b"".join(lines)


def moved_line(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    line = lines[chance.randrange(len(lines))]
    if chance.random() < 0.5:
        lines.remove(line)
    lines.insert(chance.randrange(len(lines) + 1), line)
    return b"".join(lines)


def strange_line(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    allow_foreign = [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"{}",
        b"null",
        b"\xff\xfe",
        b"9" * 5000,
        b"",
        b'""',
    ]
    lines.insert(chance.randrange(len(lines) + 1), chance.choice(allow_foreign) + b"\n")
    return b"".join(lines)


def nothing(_data: bytes, _chance: random.Random) -> bytes:
    return b""


def hostile_value(data: bytes, chance: random.Random) -> bytes:
    """Put another value in the place of one, in a file that is JSON by itself or line by line."""
    lines = [data] if data.startswith(b"{\n") else data.splitlines(keepends=True)
    at = chance.randrange(len(lines))
    try:
        document = json.loads(lines[at])
    except ValueError:
        return flip(data, chance)
    places = list(places_in(document))
    inside, key = chance.choice(places)
    if chance.random() < 0.2:
        del inside[key]
    else:
        inside[key] = chance.choice(HOSTILE)
    lines[at] = json.dumps(document).replace("Infinity", "1e400").encode() + b"\n"
    return b"".join(lines)


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in list(inner):
        yield value, key
        if isinstance(one, dict | list):
            yield from places_in(one)


DAMAGES = (
    *(flip, flip, flip, overwrite, cut_off, cut_out, without_line, moved_line, strange_line),
    *(nothing, hostile_value, hostile_value, hostile_value, hostile_value),
)


@dataclass(frozen=True)
class Damaged:
    """A copy of a run directory, and what was done to it."""

    path: Path
    what: str

    @property
    def trials(self) -> int:
        """How many trials there are, readable or not."""
        file = self.path / "trials.jsonl"
        return file.read_bytes().count(b"\n") if file.exists() else 0


def damage(run: Path, into: Path, number: int) -> Damaged:
    """Copy a run, and damage the copy in the way of this number."""
    chance = random.Random(number)  # noqa: S311 - the same damage each time
    path = into / str(number) / run.name
    shutil.copytree(run, path)
    done = []
    for _ in range(chance.choice((1, 1, 1, 2))):
        file = path / chance.choice([name for name in FILES if (path / name).exists()])
        data = file.read_bytes()
        if chance.random() < 0.04:
            file.unlink()
            done.append(f"without {file.name}")
        elif data:
            how = chance.choice(DAMAGES)
            file.write_bytes(how(data, chance))
            done.append(f"{how.__name__} of {file.name}")
    return Damaged(path, ", ".join(done))


# --- what is said of it


@dataclass(frozen=True)
class Told:
    """How a command has ended, and what it has said."""

    code: int
    text: str


COMMAND = get_command(make_app())  # which takes longer to make than to run


def osmef(*words: str | Path) -> Told:
    """Run a command in this process, so that a defect is an exception."""
    text = StringIO()
    with redirect_stdout(text), redirect_stderr(text), pytest.raises(SystemExit) as ended:
        COMMAND.main([str(word) for word in words], "osmef")
    code = ended.value.code
    assert code in range(5)
    assert "error:" not in text.getvalue() or "cure:" in text.getvalue(), text.getvalue()
    return Told(int(code or 0), " ".join(text.getvalue().split()))


def check_words(damaged: Damaged, before: Journal, done: Told) -> None:
    """See that what `osmef resume` says is so, and that it goes on with the same order only."""
    assert "was imported" not in done.text
    if "nothing was measured" in done.text:
        assert damaged.trials == 0
        assert not (damaged.path / "summary.json").exists()
    if "the cloud is full" in done.text or done.code == 0:
        after = Journal(damaged.path / "journal.jsonl")
        plans = [
            [note["seed"], note["digest"]]
            for one in (before, after)
            for note in read_notes(one, "plan")
        ]
        assert all(plan == plans[0] for plan in plans)


@pytest.mark.usefixtures("full")
def test_damage_is_reported_correctly_with_a_cure(runs: dict[str, Path], tmp_path: Path) -> None:
    """Of what can't be shown, reaped, loaded or resumed any more, and never a traceback."""
    for number in range(FIRST, FIRST + COUNT):
        how = "ended" if number % 2 else "killed"
        damaged = damage(runs[how], tmp_path, number)
        try:
            use(damaged, runs[how])
        except BaseException as error:
            error.add_note(f"mutation {number}, {how}: {damaged.what}: {damaged.path}")
            raise
        shutil.rmtree(damaged.path.parent)


def use(damaged: Damaged, whole: Path) -> None:
    """Do with a run all that its user may."""
    osmef("show", damaged.path)
    osmef("show", damaged.path, "--json")
    with suppress(OsmefError):
        load(damaged.path)
    osmef("reap", "--out", damaged.path.parent, "--yes")
    done = osmef("resume", damaged.path, "--no-figures")
    check_words(damaged, Journal(whole / "journal.jsonl"), done)


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("how", ["ended", "killed"])
def test_a_report_of_damage_is_an_error_with_a_cure(
    runs: dict[str, Path], tmp_path: Path, how: str
) -> None:
    """Fewer of them: a page takes a second."""
    for number in range(FIRST, FIRST + max(COUNT // 60, 1)):
        damaged = damage(runs[how], tmp_path, number)
        try:
            osmef("report", damaged.path, "-o", tmp_path / "report.html")
        except BaseException as error:
            error.add_note(f"mutation {number}, {how}: {damaged.what}: {damaged.path}")
            raise
