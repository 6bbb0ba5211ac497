"""Cleaning up after sessions, beside those that run."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from osmef.campaigns.executors.session import SessionJob, SessionResult
from osmef.campaigns.state.rows import LEASE, CampaignPhase, SessionRow, SessionState
from osmef.engine.cancellation import CancellationToken
from osmef.errors import ApiError, Interrupted
from tests.campaigns.test_conductor import START, Stage, done
from tests.campaigns.test_time import DAY, HOUR, TEST, Held, conductor


def left(place: Path, more: str = "") -> Stage:
    """A campaign whose first session was interrupted, on the next day at nine."""
    stage = Stage(place, more)

    def interrupted(work: SessionJob) -> SessionResult:
        Path(work.directory).mkdir(parents=True)
        stage.stop.request("stopped by SIGTERM")
        raise Interrupted("stopped by SIGTERM")

    stage.conduct(interrupted)
    stage.stop, stage.clock.time = CancellationToken(), START + DAY + 9 * HOUR
    return stage


def test_a_slow_cleanup_does_not_block_the_conductor(tmp_path: Path) -> None:
    """Sessions begin meanwhile, others know that the conductor lives, and a stop is heard."""
    stage, executor = left(tmp_path, "exclusive: false\n"), Held()
    mine = conductor(stage, executor)
    assert mine._step() is None
    assert (len(executor.clears), len(executor.works)) == (1, 1)
    stage.clock.time += 3 * LEASE
    assert mine._step() is None
    assert stage.store.campaign("test").seen_at == stage.clock.time
    stage.stop.request("stopped by SIGINT")
    (future,) = executor.works
    future.set_exception(Interrupted("stopped by SIGINT"))
    assert mine._step() is None  # what is being destroyed is waited for
    assert stage.sessions[0].uncleared == stage.sessions[0].directory
    (clear,) = executor.clears
    clear.set_result(None)
    assert mine._step() is CampaignPhase.STOPPED
    assert (stage.sessions[0].state, stage.sessions[0].uncleared) == (SessionState.FAILED, None)


def test_an_exclusive_session_waits_until_the_cloud_is_cleaned_up(tmp_path: Path) -> None:
    stage, executor = left(tmp_path), Held()
    mine = conductor(stage, executor)
    assert mine._step() is None
    (clear,) = executor.clears
    assert executor.works == {}
    assert not mine._wake.is_set()
    clear.set_result(None)
    assert mine._wake.is_set()
    assert mine._step() is None
    assert len(executor.works) == 1


def test_an_interrupted_cleanup_is_finished_by_the_next_conductor(tmp_path: Path) -> None:
    """The first one is killed in it."""
    stage, executor = left(tmp_path), Held()
    stage.clock.time += 9 * HOUR
    assert conductor(stage, executor)._step() is None
    assert list(executor.clears.values()) == [Path(stage.sessions[0].directory or "")]
    assert stage.sessions[0].uncleared is not None
    assert stage.conduct(done) is CampaignPhase.ENDED
    assert [one.uncleared for one in stage.sessions] == [None] * 7


@pytest.mark.parametrize("error", [ApiError("503"), PermissionError("no")])
def test_a_failed_deletion_is_retried_later(tmp_path: Path, error: Exception) -> None:
    stage, executor = left(tmp_path), Held()
    stage.clock.time += 9 * HOUR
    mine = conductor(stage, executor)
    assert mine._step() is None
    (clear,) = executor.clears
    clear.set_exception(error)
    assert mine._step() is None
    (told,) = [text for kind, text in stage.told if kind == "failure"]
    assert f"not destroyed: {error}" in told
    assert mine._next == stage.clock.time + timedelta(minutes=10)
    stage.clock.time = mine._next
    assert mine._step() is None
    _, again = executor.clears
    again.set_result(None)
    assert mine._step() is None
    assert stage.told[-1][1].endswith("nothing is left")
    assert stage.sessions[0].uncleared is None


def test_an_unreadable_run_directory_does_not_stop_the_conductor(tmp_path: Path) -> None:
    """One whose name is too long for a file system, as another machine's may be."""
    stage = Stage(tmp_path)
    stage.clock.time = START + 16 * HOUR + timedelta(minutes=45)
    theirs = stage.store.claim(stage.sessions[0], "other boot 1 1", stage.clock.time)
    assert isinstance(theirs, SessionRow)
    assert stage.store.locate(theirs, tmp_path / ("x" * 300))
    stage.clock.time += timedelta(minutes=14)
    assert stage.conduct(done) is CampaignPhase.ENDED
    assert stage.states == [SessionState.FAILED] + [SessionState.DONE] * 6
    told = [text for kind, text in stage.told if kind == "failure"]
    assert "can't look for" in told[0]
    assert "File name too long" in told[0]
    assert stage.store.uncleared(TEST) == [stage.sessions[0]]
