"""kill -9 of a conductor in the middle of a session that is really measured."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from osmef.campaigns.state.rows import SessionRow, SessionState
from osmef.campaigns.state.store import Store
from osmef.engine.journal import Journal
from osmef.engine.reap import destroy, leftovers
from osmef.providers.local.provider import LocalProvider
from osmef.results.rundir import RunDirectory
from tests.campaigns.dask_cluster import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs namespaces")
SCENARIO = "name: pair\nworkload: {duration: 1s, interval: 100ms}\nrepeat: 4\n"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A campaign with one session, due now; what it leaves goes in any case."""
    (tmp_path / "pair.yaml").write_text(SCENARIO)
    now = datetime.now(UTC)
    campaign = {
        "name": "now",
        "scenarios": ["pair.yaml"],
        "start": f"{now - timedelta(days=1):%Y-%m-%d}",
        "weeks": 1,
        "windows": {"once": {"cron": f"{now:%M %H %d %m} *", "length": "1h"}},
    }
    (tmp_path / "now.json").write_text(json.dumps(campaign))
    yield tmp_path
    for path in (tmp_path / "out").iterdir():
        assert destroy(leftovers(RunDirectory(path))) == []


def command(place: Path) -> list[str]:
    database = f"sqlite:///{place / 'state.sqlite'}"
    module = [sys.executable, "-m", "tests.campaigns.measured"]
    return [*module, str(place / "now.json"), database, str(place / "out")]


def session(place: Path) -> SessionRow:
    store = Store(f"sqlite:///{place / 'state.sqlite'}")
    (found,) = store.sessions(store.campaign("now").id)
    store.close()
    return found


@pytest.mark.timeout(600)  # a run and most of one, on a loaded machine
@pytest.mark.parametrize(("moment", "finished"), [("step putting the agent", 0), ("trial 3", 2)])
def test_a_killed_session_is_resumed(place: Path, moment: str, finished: int) -> None:
    with subprocess.Popen(command(place), cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        seen = ""
        for line in process.stdout:
            seen += line
            if line.startswith(moment):
                break
        process.kill()
    killed = session(place)
    assert killed.state is SessionState.RUNNING, seen
    directory = RunDirectory(Path(killed.directory or ""))
    assert len(Journal(directory.journal).existing()) == 1
    before = directory.read_trials().trials
    assert len(before) == finished

    ended = subprocess.run(command(place), cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    again = session(place)
    assert (again.state, again.trials_ok, again.token) == (SessionState.DONE, 4, 2)
    assert again.directory == killed.directory
    trials = directory.read_trials().trials
    assert trials[:finished] == before
    assert sorted(trial.index for trial in trials) == [1, 2, 3, 4]
    measured = [line for line in ended.stdout.splitlines() if line.startswith("trial")]
    assert len(measured) == 4 - finished
    assert Journal(directory.journal).existing() == []
    assert LocalProvider.owned({}, directory.id) == []
