"""Four weeks over four clouds in simulated time, undisturbed and killed again and again."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

import osmef
from osmef.campaigns.state.rows import CampaignPhase, SessionState
from osmef.campaigns.state.store import Store
from tests.campaigns.emulated import conduct

FILE = """
name: four-clouds
scenarios: [pair.yaml]
providers: {one: local, two: local, three: local, four: local}
start: 2026-03-16
weeks: 4
time_zone: Europe/Berlin
jitter: 15m
seed: 7
"""
SCENARIO = "name: pair\nworkload: {duration: 1s}\nrepeat: 3\nsweep: {connections: [1, 8]}\n"
KILLS = 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "pair.yaml").write_text(SCENARIO)
    file = tmp_path / "campaign.yaml"
    file.write_text(FILE)
    return file


def results(
    database: Path,
) -> tuple[list[tuple[str, str, SessionState, int]], dict[object, object]]:
    """Return how each session ended, and what each trial of it says."""
    store = Store(f"sqlite:///{database}")
    row = store.campaign("four-clouds")
    assert row.phase is CampaignPhase.ENDED
    found = store.sessions(row.id)
    store.close()
    ends = [(one.slot, one.platform, one.state, one.trials_ok) for one in found]
    numbers: dict[object, object] = {}
    for one in found:
        assert one.directory is not None
        frame = osmef.load(one.directory)
        assert not frame.duplicated("trial").any()
        for index, value in zip(frame["trial"], frame["aggregate_btc_bps"], strict=True):
            numbers[one.slot, one.platform, index] = value
    return ends, numbers


def kill_often(file: Path, place: Path, kills: int) -> tuple[Path, Path]:
    """Conduct it undisturbed and killed again and again; return where both ended, all the same."""
    calm, rough = place / "calm", place / "rough"
    assert conduct(file, place / "calm.sqlite", calm) is CampaignPhase.ENDED
    command = [sys.executable, "-m", "tests.campaigns.emulated"]
    command += [str(file), str(place / "rough.sqlite"), str(rough)]
    draw = random.Random(20)  # noqa: S311 - when to kill
    for _ in range(kills):
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            for _ in range(draw.randint(1, 16)):
                line = process.stdout.readline()  # between two of them is work
                assert line.startswith(("start", "end", "gap")), line + process.stdout.read()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=draw.uniform(0, 0.05))
            process.kill()
    last = subprocess.run(command, check=False, capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    assert results(place / "rough.sqlite") == results(place / "calm.sqlite")
    assert not list((rough / "things").iterdir())
    assert not list((calm / "things").iterdir())
    return place / "calm.sqlite", place / "rough.sqlite"


@pytest.mark.real("campaigns")
@pytest.mark.timeout(1200)  # twenty starts of Python, on a loaded machine
def test_repeated_kills_do_not_change_the_results(file: Path, tmp_path: Path) -> None:
    calm, _ = kill_often(file, tmp_path, KILLS)
    ends, numbers = results(calm)
    assert len(ends) == 4 * 4 * 14
    assert {state for _, _, state, _ in ends} == {SessionState.DONE}
    assert len(numbers) == len(ends) * 6
    assert Counter(slot.split()[1] for slot, *_ in ends)["weekday-peak"] == 4 * 4 * 5


@pytest.mark.timeout(600)
def test_repeated_kills_do_not_change_the_skipped_cells(file: Path, tmp_path: Path) -> None:
    """Whoever goes on leaves the same cells out of the same sessions."""
    short = FILE.replace(", three: local, four: local", "").replace("weeks: 4", "weeks: 2")
    windows = "windows: [weekday-offpeak, weekend-peak, weekend-offpeak]\n"
    file.write_text(short + windows + "stop: {width_percent: 8, minimum: 6}\n")
    calm, rough = (Store(f"sqlite:///{one}") for one in kill_often(file, tmp_path, 6))
    whole, again = ([one.cells_left_out for one in of.sessions(1)] for of in (calm, rough))
    assert whole == again
    assert set(whole) == {(), ("connections=1",)}
    calm.close()
    rough.close()
