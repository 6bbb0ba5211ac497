"""The database: its version, its plans, and what a look at it costs."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import event

from osmef.campaigns.executors.session import SessionJob, SessionResult
from osmef.campaigns.state.database import VERSION
from osmef.campaigns.state.rows import LEASE, Gap, SessionState
from osmef.campaigns.state.store import Store
from osmef.errors import InputError, StorageError
from tests.campaigns.test_conductor import FILE, START, Stage, done

OLD = """
CREATE TABLE campaigns (id INTEGER PRIMARY KEY, name VARCHAR(100) NOT NULL UNIQUE,
  file TEXT NOT NULL, text TEXT NOT NULL, out TEXT NOT NULL, phase VARCHAR(20) NOT NULL,
  created_at DATETIME NOT NULL, holder TEXT);
CREATE TABLE sessions (id INTEGER PRIMARY KEY, campaign INTEGER NOT NULL, slot VARCHAR(200)
  NOT NULL, window VARCHAR(100) NOT NULL, opens DATETIME NOT NULL, closes DATETIME NOT NULL,
  due DATETIME NOT NULL, place INTEGER NOT NULL, scenario TEXT NOT NULL, provider VARCHAR(100)
  NOT NULL, instance_class VARCHAR(100) NOT NULL, cloud TEXT NOT NULL, state VARCHAR(20) NOT NULL,
  attempts INTEGER NOT NULL, directory TEXT UNIQUE, holder TEXT, started_at DATETIME,
  ended_at DATETIME, trials_ok INTEGER NOT NULL, trials_failed INTEGER NOT NULL, cost FLOAT,
  currency VARCHAR(3), why TEXT);
INSERT INTO campaigns VALUES (1, 'test', '/gone/test.yaml', '', '/gone/out', 'active',
  '2026-03-01 00:00:00', NULL);
INSERT INTO sessions VALUES (7, 1, '2026-03-23 day', 'day', '2026-03-23 09:00:00',
  '2026-03-23 17:00:00', '2026-03-23 09:00:00', 0, 'pair.yaml', '', '', 'local on here', 'done', 1,
  '/tmp/one', NULL, NULL, '2026-03-23 09:10:00', 3, 0, NULL, NULL, NULL);
"""


def test_a_database_without_a_version_is_migrated_and_continued(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "state.sqlite")) as connection:
        connection.executescript(OLD)
    stage = Stage(tmp_path)
    first, *rest = stage.sessions
    assert (first.id, first.state, first.trials_ok, first.token) == (7, SessionState.DONE, 3, 0)
    assert [one.state for one in rest] == [SessionState.PLANNED] * 6
    stage.conduct(done)
    assert stage.states == [SessionState.DONE] * 7


def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    Store(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE schema_version SET version = ?", [VERSION + 1])
        connection.commit()
    with pytest.raises(InputError, match="a newer OSMeF has made this database"):
        Store(f"sqlite:///{path}")


@pytest.mark.parametrize("url", ["nonsense", "postgresql+psycopg://h:abc/x", "x://y"])
def test_a_url_of_no_database(url: str) -> None:
    with pytest.raises(InputError, match="no database"):
        Store(url)


def test_each_error_of_the_database_has_its_own_cure(tmp_path: Path) -> None:
    another = "name another database with --state or OSMEF_STATE"
    path = tmp_path / "state.sqlite"
    path.write_bytes(b"no database at all" * 99)
    with pytest.raises(StorageError, match=f"file is not a database\n  cure: {another}"):
        Store(f"sqlite:///{path}")
    with pytest.raises(StorageError, match=f"unable to open database file\n  cure: {another}"):
        Store(f"sqlite:///{tmp_path}")
    path.unlink()
    store = Store(f"sqlite:///{path}")
    with store._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 0")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="is locked\n  cure: another process is writing"):
            store.append_log(1, START, "note", "text")
    store.close()
    read_only = Store(f"sqlite:///file:{path}?mode=ro&uri=true")
    with pytest.raises(StorageError, match="readonly database\n  cure: make the file and its dir"):
        read_only.append_log(1, START, "note", "text")
    read_only.close()


def test_the_name_of_another_file_is_refused(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    other = tmp_path / "other.yaml"
    other.write_text(FILE)
    about = {"file": str(other), "text": FILE, "out": str(tmp_path)}
    with pytest.raises(InputError, match="there is another campaign 'test'"):
        stage.store.register("test", about, stage.campaign_plan.rows(), START)
    (tmp_path / "campaign.yaml").unlink()  # it was moved
    stage.store.register("test", about, stage.campaign_plan.rows(), START)
    assert stage.store.campaign("test").file == str(other)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_database_that_is_deleted_in_use_is_an_error(tmp_path: Path, replaced: bool) -> None:
    """SQLite would go on in the deleted file, and a second conductor begin in a new one."""
    path = tmp_path / "state.sqlite"
    with closing(Store(f"sqlite:///{path}")) as store:
        assert store.campaigns() == []
        path.rename(tmp_path / "moved.sqlite")
        if replaced:
            Store(f"sqlite:///{path}").close()
        with pytest.raises(StorageError, match="deleted or replaced") as caught:
            store.campaigns()
        assert caught.value.where == str(path)
        assert caught.value.cure
        if not replaced:
            (tmp_path / "moved.sqlite").rename(path)
            assert store.campaigns() == []


def test_a_database_with_a_relative_path_may_be_used_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(Store("sqlite:///state.sqlite")) as store:
        (tmp_path / "below").mkdir()
        monkeypatch.chdir(tmp_path / "below")
        assert store.campaigns() == []


def test_another_programs_database_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "browser.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE bookmarks (url TEXT);")
    path.chmod(0o644)
    before = path.read_bytes()
    for create in (False, True):
        with pytest.raises(InputError, match=r"another program's database: .* bookmarks"):
            Store(f"sqlite:///{path}", create=create)
    assert path.stat().st_mode & 0o777 == 0o644
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_the_runs_of_a_campaign_stay_in_one_directory(tmp_path: Path) -> None:
    """Somebody runs it from another directory; reports and archives look into one place."""
    stage = Stage(tmp_path)
    before = tmp_path / "out"
    about = {"file": str(tmp_path / "campaign.yaml"), "text": FILE, "out": str(tmp_path / "new")}
    before.mkdir()
    with pytest.raises(InputError, match=f"(?s)are in {before},.*--out {tmp_path}, or move"):
        stage.store.register("test", about, stage.campaign_plan.rows(), START)
    before.rename(tmp_path / "new")  # moved
    stage.store.register("test", about, stage.campaign_plan.rows(), START)
    assert stage.store.campaign("test").out == str(tmp_path / "new")


def test_a_larger_budget_brings_sessions_back(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "budget: 1 USD\n")

    def measure(_work: SessionJob) -> SessionResult:
        return SessionResult(SessionState.DONE, trials_ok=1, cost=0.4, currency="USD")

    stage.conduct(measure)
    assert stage.states == [SessionState.DONE] * 2 + [SessionState.CANCELLED] * 5
    again = Stage(tmp_path, "budget: 10 USD\n", stage.clock)
    again.conduct(measure)
    # The window of the third day, in which the budget was spent, is still open.
    assert again.states == [SessionState.DONE] * 7


def test_failed_sessions_are_planned_again_with_a_changed_scenario(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    def broken(work: SessionJob) -> SessionResult:
        Path(work.directory).mkdir(parents=True)
        if work.slot > "2026-03-24":
            stage.stop.request("stopped by SIGINT")
        return SessionResult(
            SessionState.FAILED, trials_failed=1, cost=0.1, currency="USD", why="no"
        )

    stage.conduct(broken)
    assert stage.states[:3] == [SessionState.FAILED, SessionState.FAILED, SessionState.PLANNED]
    same = Stage(tmp_path, "", stage.clock)
    assert same.states[1] is SessionState.FAILED  # nothing has changed
    failed = same.sessions[1].directory
    assert failed is not None
    mended = Stage(tmp_path, "pause: 1s\n", stage.clock)
    assert mended.conduct(done) is not None
    assert mended.states == [SessionState.FAILED] + [SessionState.DONE] * 6
    assert mended.sessions[1].directory != failed
    assert mended.sessions[1].paid == 0.1
    assert any("a scenario has changed" in text for _, _, text in mended.store.log(1))


def test_a_file_is_not_changed_under_its_conductor(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    about = {"file": str(tmp_path / "campaign.yaml"), "text": "other", "out": str(tmp_path)}
    stage.store.renew(1, "other boot 1 1", START)
    with pytest.raises(InputError, match="another process conducts the campaign 'test'"):
        stage.store.register("test", about, stage.campaign_plan.rows(), START)
    stage.store.register("test", about, stage.campaign_plan.rows(), START + LEASE)


def test_gaps_are_records(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    gap = Gap(START, START + timedelta(hours=1), "no conductor of the campaign was running")
    stage.store.note_gap(1, gap)
    assert stage.store.gaps(1) == [gap]


def test_an_idle_conductor_reads_one_row_per_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Idle it reads one row, whatever else there is; nothing is written."""
    stage = Stage(tmp_path)
    statements: list[str] = []
    looks = 0

    @event.listens_for(stage.store._engine, "before_cursor_execute")
    def _heard(_c: object, _cursor: object, text: str, *_more: object) -> None:
        statements.append(text)

    def early(_until: datetime | None, _wake: threading.Event) -> None:
        nonlocal looks
        looks += 1
        stage.clock.time += timedelta(seconds=1)
        if looks == 2:
            statements.clear()
        if looks == 52:
            stage.stop.request("enough")

    monkeypatch.setattr(stage.clock, "wait", early)
    stage.conduct(done)
    reads = [text for text in statements if text.startswith("SELECT")]
    assert 50 <= len(reads) <= 60
    assert not [text for text in statements if text.startswith("INSERT")]
