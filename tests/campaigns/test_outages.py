"""A full disk and credentials that are no good: nothing is lost, and the next slot runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from osmef.campaigns.executors.session import SessionJob, SessionResult, measure
from osmef.campaigns.state.rows import CampaignPhase, SessionState
from osmef.engine.cancellation import CancellationToken
from osmef.engine.events import Observer
from osmef.engine.plan import PlannedTrial
from osmef.providers import sites
from osmef.results.rundir import RunDirectory
from tests.campaigns.emulated import EmulatedClouds
from tests.campaigns.test_conductor import Stage, done
from tests.engine.sshd_endpoints import Rack
from tests.small_files import small_files

AWS = (
    "{kind: aws, profile: gone, region: eu-central-1, default_flavor: c5.large,"
    " controller_cidr: 192.0.2.1/32}"
)


@pytest.fixture
def heard(tmp_path: Path) -> Path:
    """What the hook of ``stage`` was told, a line each."""
    return tmp_path / "heard"


def hook(heard: Path) -> str:
    return f"notify: {{command: [sh, -c, 'cat >> {heard}']}}\n"


def told(heard: Path) -> Iterator[tuple[str, str]]:
    for line in heard.read_text().splitlines():
        found = json.loads(line)
        yield found["kind"], found["text"]


def test_a_session_is_resumed_once_the_full_disk_has_space_again(
    tmp_path: Path, heard: Path
) -> None:
    """It is full at the beginning, then in the journal, then in the trials."""
    stage = Stage(tmp_path, hook(heard) + "seed: 1\n")
    clouds = EmulatedClouds(stage.clock, tmp_path / "things")
    sizes = [10, 300, 900]
    errors = []

    def measure_on_it(work: SessionJob) -> SessionResult:
        work = replace(work, text=work.text.replace("repeat: 1", "repeat: 5"))
        if work.slot < "2026-03-24" or not sizes:
            return clouds.measure(work)
        with small_files(sizes.pop(0)):
            try:
                return clouds.measure(work)
            except Exception as error:
                errors.append(str(error))
                raise

    assert stage.conduct(measure_on_it) is CampaignPhase.ENDED
    assert ["File too large" in error for error in errors] == [True] * 3
    assert stage.states == [SessionState.DONE] * 7
    assert [one.token for one in stage.sessions] == [1, 4] + [1] * 5
    for one in stage.sessions:
        trials = RunDirectory(Path(one.directory or "")).read_trials().trials
        assert [trial.index for trial in trials] == [1, 2, 3, 4, 5]
        assert one.uncleared is None
    assert not list((tmp_path / "things").iterdir())
    failures = [text for kind, text in told(heard) if kind == "failure"]
    assert all("File too large" in text for text in failures)
    assert 0 < len(failures) <= 3


def test_a_disk_that_stays_full_costs_its_slot_only(tmp_path: Path, heard: Path) -> None:
    stage = Stage(tmp_path, hook(heard))
    clouds = EmulatedClouds(stage.clock, tmp_path / "things")

    def measure_on_it(work: SessionJob) -> SessionResult:
        if not work.slot.startswith("2026-03-24"):
            return clouds.measure(work)
        with small_files(10):
            return clouds.measure(work)

    assert stage.conduct(measure_on_it) is CampaignPhase.ENDED
    assert stage.states == [SessionState.DONE, SessionState.MISSED] + [SessionState.DONE] * 5
    lost = stage.sessions[1]
    assert "the window was closed before its retry was due" in (lost.why or "")
    assert "File too large" in (lost.why or "")
    assert (lost.directory, lost.uncleared) == (None, None)
    kinds = [kind for kind, _ in told(heard)]
    assert (kinds.count("failure"), kinds.count("missed")) == (1, 1)


def test_credentials_that_are_no_good_cost_their_slots_only(
    tmp_path: Path, heard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile that is gone; somebody sees to it on the third day."""
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    stage = Stage(tmp_path, f"providers: {{far: {AWS}}}\n{hook(heard)}")

    def measure_it(work: SessionJob) -> SessionResult:
        if work.slot < "2026-03-25":
            return measure(work, CancellationToken(), Observer())
        return done(work)

    assert stage.conduct(measure_it) is CampaignPhase.ENDED
    assert stage.states == [SessionState.FAILED] * 2 + [SessionState.DONE] * 5
    for one in stage.sessions[:2]:
        assert "profile" in (one.why or "")
        assert (one.attempts, one.uncleared) == (3, None)
    failures = [text for kind, text in told(heard) if kind == "failure"]
    assert sum(": failed" in text for text in failures) == 2
    assert all("profile" in text for text in failures)


class TakesBack(Observer):
    """Has the receiver taken back in the second trial of the first VMs."""

    def trial_started(self, planned: PlannedTrial) -> None:
        if planned.index == 2 and len(Rack.made) == 2:
            (name,) = (end.name for end in planned.cell.receivers)
            Rack.taken_back.add(name)
            Rack.named[name].switch_off()


def test_a_session_that_loses_an_endpoint_is_resumed_for_the_remaining_trials(
    tmp_path: Path, heard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, hook(heard))
    Rack.begin(tmp_path / "machines")
    monkeypatch.setattr(sites, "provider_for", Rack)
    begun: list[datetime] = []

    def measure_it(work: SessionJob) -> SessionResult:
        if not work.slot.startswith("2026-03-24"):
            return done(work)
        begun.append(stage.clock.time)
        short = work.text.replace("{duration: 1s}", "{duration: 100ms, interval: 100ms}")
        work = replace(work, text=short.replace("repeat: 1", "repeat: 3\norder: sequential"))
        return measure(work, stage.stop, TakesBack())

    assert stage.conduct(measure_it) is CampaignPhase.ENDED
    for machine in Rack.made:
        machine.close()
    assert stage.states == [SessionState.DONE] * 7, stage.sessions[1].why
    assert [one - begun[0] for one in begun] == [timedelta(0), timedelta(minutes=10)]
    session = stage.sessions[1]
    assert (session.attempts, session.trials_ok, session.trials_failed) == (1, 3, 0)
    trials = RunDirectory(Path(session.directory or "")).read_trials().trials
    assert [trial.index for trial in trials] == [1, 2, 3]
    (text,) = (text for kind, text in told(heard) if kind == "failure")
    assert "planned, 1 trial ok, 0 failed" in text
    assert "2 of 3 trials could not be measured" in text
