"""A campaign in a database and its run directories, some of it measured, for what shows it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from osmef.campaigns.executors.session import SessionJob
from osmef.campaigns.process_identity import this_process
from osmef.campaigns.schedule.load import read_campaign
from osmef.campaigns.schedule.plan import plan_campaign
from osmef.campaigns.state.rows import CampaignPhase, SessionRow, SessionState
from osmef.campaigns.state.store import Store
from osmef.campaigns.watching.monitoring import LIVE
from tests.campaigns.emulated import EmulatedClouds, SimulatedClock

START = datetime(2026, 3, 16, tzinfo=UTC)
FILE = """
name: shown
scenarios: [pair.yaml]
providers: {north: local, south: local}
start: 2026-03-16
weeks: 2
time_zone: Europe/Berlin
seed: 3
"""
SCENARIO = "name: pair\nworkload: {duration: 1s}\nrepeat: 6\nsweep: {connections: [1, 8]}\n"


def make_shown(place: Path) -> Store:
    """Make the campaign "shown": four sessions done, one failed, one missed, one that runs."""
    (place / "pair.yaml").write_text(SCENARIO)
    file = place / "shown.yaml"
    file.write_text(FILE)
    loaded = read_campaign(file)
    campaign_plan = plan_campaign(loaded)
    store = Store(f"sqlite:///{place / 'state.sqlite'}")
    about = {"file": str(file), "text": loaded.text, "out": str(place / "out")}
    store.register("shown", about, campaign_plan.rows(), START)
    row = store.campaign("shown")
    store.set_phase(row.id, CampaignPhase.ACTIVE, this_process())
    clouds = EmulatedClouds(SimulatedClock(START), place / "things")
    sessions = store.sessions(row.id)
    for number, one in enumerate(sessions[:5]):
        directory = place / "out" / f"pair-{number}"
        leaves = "connections=1\nconnections=10" if number == 4 else None
        claimed = store.claim(replace(one, left_out=leaves), this_process(), one.due)
        assert isinstance(claimed, SessionRow)
        assert store.locate(claimed, directory)
        work = SessionJob(
            session=one.id,
            slot=one.slot,
            window=one.window,
            platform=one.platform,
            text=SCENARIO,
            file="pair.yaml",
            directory=str(directory),
            seed=number,
        )
        if number < 4:
            end = clouds.measure(work)
            cost = {"cost": 0.25, "currency": "USD"}
            values = {name: value for name, value in vars(end).items() if name != "state"}
            state, ended = end.state, one.due + timedelta(minutes=20)
            if number == 2:
                state, ended = SessionState.FAILED, one.due
                values |= {"why": "<b>no</b> route", "trials_ok": 0}
            assert store.finish(claimed, state, ended, **{**values, **cost})
        else:
            directory.mkdir()
            show(directory, 9.4e9)
    store.skip([sessions[5].id], SessionState.MISSED, "the window was closed", sessions[5].due)
    store.append_log(row.id, sessions[2].due, "failure", "it said <script>alert(1)</script>")
    return store


def show(directory: Path, rate_bps: float) -> None:
    """Let the session that runs show a rate."""
    trial = {"cell": "connections=8", "repetition": 2, "started_at": START.isoformat()}
    told = {"at": START.isoformat(), "step": "measuring", "trials": 12, "ended": 5}
    text = json.dumps({**told, "running": [{**trial, "rate_bps": rate_bps}]})
    (directory / LIVE).write_text(text)
