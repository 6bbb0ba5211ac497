"""Campaigns in a database that several machines share."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from osmef.campaigns.executors.session import SessionJob, SessionResult
from osmef.campaigns.state.rows import LEASE, CampaignPhase, SessionState, is_conducted
from osmef.campaigns.state.store import Store
from osmef.errors import StorageError
from tests.campaigns.test_conductor import START, Stage, done
from tests.postgres import Postgres

FILE = """
name: two-machines
scenarios: [pair.yaml]
providers: {one: local, two: local}
start: 2026-03-16
weeks: 1
exclusive: false
"""
SCENARIO = "name: pair\nworkload: {duration: 1s}\nrepeat: 1\n"


def test_a_server_that_is_away_for_a_while(tmp_path: Path, postgresql: Postgres) -> None:
    stage = Stage(tmp_path, url=postgresql.new_database())
    begun = 0

    def measure(work: SessionJob) -> SessionResult:
        nonlocal begun
        begun += 1
        if begun == 3:
            postgresql.stop()
            postgresql.start()
        return done(work)

    assert stage.conduct(measure) is CampaignPhase.ENDED
    states = stage.states
    stage.store.close()
    assert (states, begun) == ([SessionState.DONE] * 7, 7)
    assert [kind for kind, _ in stage.told].count("failure") == 1


def test_a_database_without_an_encoding_is_used_as_utf_8(
    tmp_path: Path, postgresql: Postgres
) -> None:
    """It is what initdb makes where LANG is C."""
    store = Stage(tmp_path, url=postgresql.new_database("SQL_ASCII")).store
    store.append_log(1, START, "note", "5 % größer, 日本")
    assert store.log(1) == [(START, "note", "5 % größer, 日本")]
    store.close()


def test_the_cure_names_what_is_wrong_with_a_database(tmp_path: Path, postgresql: Postgres) -> None:
    with pytest.raises(StorageError, match='"gone" does not exist\n  cure: create it there'):
        Store(postgresql.url("gone"))
    store = Stage(tmp_path, url=postgresql.new_database("LATIN1")).store
    with pytest.raises(StorageError, match=r"(?s)LATIN1.*cure: make it in UTF8"):
        store.append_log(1, START, "note", "日本")
    store.close()


@pytest.mark.timeout(600)  # three starts of Python, on a loaded machine
def test_two_conductors_share_a_campaign(tmp_path: Path, postgresql: Postgres) -> None:
    """One is killed, and the other goes on with its sessions: all are done, none twice."""
    (tmp_path / "pair.yaml").write_text(SCENARIO)
    file = tmp_path / "campaign.yaml"
    file.write_text(FILE)
    url, out = postgresql.new_database(), tmp_path / "out"
    command = [sys.executable, "-m", "tests.campaigns.emulated", str(file), url, str(out)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as second,
    ):
        assert first.stdout is not None
        for _ in range(8):
            first.stdout.readline()
        first.kill()
        said = second.communicate(timeout=300)[0]
    assert second.returncode == 0, said
    # Whichever of them was alone at last may have ended before the killed one's session was free.
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    store = Store(url)
    row = store.campaign("two-machines")
    sessions = store.sessions(row.id)
    store.close()
    assert row.phase is CampaignPhase.ENDED
    assert {one.state for one in sessions} == {SessionState.DONE}
    assert [one.token for one in sessions].count(1) >= len(sessions) - 1  # the killed one's is 2
    assert not list((out / "things").iterdir())


@pytest.mark.parametrize("days", [-30, 30])
def test_a_wrong_clock_of_its_machine_hides_no_conductor(
    tmp_path: Path, postgresql: Postgres, days: int
) -> None:
    store = Stage(tmp_path, url=postgresql.new_database()).store
    at = datetime.now(UTC) + timedelta(days=days)
    store.set_phase(1, CampaignPhase.ACTIVE, "elsewhere boot 1 1")
    store.renew(1, "elsewhere boot 1 1", at)
    row = store.campaign("test")
    assert row.seen_at == at
    assert is_conducted(row, store.time())
    assert not is_conducted(row, store.time() + LEASE)
    store.close()
