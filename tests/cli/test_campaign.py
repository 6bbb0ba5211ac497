"""Campaigns as a user conducts them, on the local cloud."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import osmef
from osmef.campaigns.state.store import Store
from osmef.campaigns.watching.monitoring import forget
from osmef.engine.journal import Journal
from osmef.providers.local.provider import LocalProvider
from osmef.results.rundir import RunDirectory
from tests.campaigns.shown import make_shown
from tests.cli.conftest import ROOT
from tests.cli.warm import warm
from tests.invoked import invoke
from tests.journals import read_notes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs namespaces")
SCENARIO = "name: pair\nworkload: {duration: 300ms, interval: 100ms}\nrepeat: 1\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A campaign of five minutes that have begun: two platforms, one slot that is open now."""
    (tmp_path / "one.yaml").write_text(SCENARIO.replace("pair", "one"))
    (tmp_path / "two.yaml").write_text(SCENARIO.replace("pair", "two"))
    now = datetime.now(UTC)
    campaign: dict[str, Any] = {
        "name": "now",
        "scenarios": ["one.yaml", "two.yaml"],
        "providers": {"here": "local"},
        "start": f"{now - timedelta(days=1):%Y-%m-%d}",
        "weeks": 1,
        "windows": {"once": {"cron": f"{now:%M %H %d %m} *", "length": "1h"}},
    }
    (tmp_path / "now.json").write_text(json.dumps(campaign))
    return tmp_path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "osmef", "campaign", *arguments]


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, begun where the program is loaded."""
    environment = {**os.environ, "OSMEF_STATE": "sqlite:///state.sqlite"}
    begun = warm().start(("campaign", *arguments), place, environment)
    out, err = begun.communicate()
    assert begun.returncode is not None
    return subprocess.CompletedProcess(begun.args, begun.returncode, out, err)


def status(place: Path) -> dict[str, Any]:
    (found,) = json.loads(run(place, "status", "now", "--json").stdout)
    return dict(found)


def test_a_campaign_from_plan_to_numbers(place: Path) -> None:
    planned = run(place, "plan", "now.json", "--json")
    assert json.loads(planned.stdout)["sessions"] == 2
    assert not (place / "state.sqlite").exists()
    ended = run(place, "run", "now.json")
    assert ended.returncode == 0, ended.stderr
    assert "2 done" in ended.stdout
    assert status(place)["counts"] == {"done": 2}
    frame = osmef.load(place / "results" / "now")
    assert set(frame["scenario"]) == {"one", "two"}
    assert frame["session"].nunique() == 1
    assert set(frame["window"]) == {"once"}
    assert dict(zip(frame["platform"], frame["scenario"], strict=True)) == {
        "one here": "one",
        "two here": "two",
    }
    for directory in (place / "results" / "now").iterdir():
        told = RunDirectory(directory).read_summary().run
        assert (told.window, told.platform) == ("once", f"{told.scenario} here")
        assert told.session == frame["session"][0]
    assert frame["aggregate_btc_bps"].gt(0).all()
    assert "ended: 2 done" in run(place, "log", "now").stdout
    again = run(place, "run", "now.json")
    assert (again.returncode, len(osmef.load(place / "results" / "now"))) == (0, 2)


@pytest.mark.real("campaigns")
def test_a_campaign_outlives_the_room_for_its_log(place: Path) -> None:
    environment = {**os.environ, "OSMEF_STATE": "sqlite:///state.sqlite"}
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            command("run", "now.json", "-v"),
            cwd=place,
            env=environment,
            stdout=full,
            stderr=full,
            check=False,
        )
    assert ended.returncode == 0
    assert status(place)["counts"] == {"done": 2}
    for directory in (place / "results" / "now").iterdir():
        assert read_notes(Journal(directory / "journal.jsonl"))[-1]["event"] == "end"


@pytest.mark.parametrize("out", ["results", "results/a/b"])
def test_runs_that_can_not_be_written_are_refused_before_the_first_session(
    place: Path, out: str
) -> None:
    later = {"start": "2124-03-20", "windows": ["weekday-peak"]}
    campaign = {**json.loads((place / "now.json").read_text()), **later}
    (place / "now.json").write_text(json.dumps(campaign))
    (place / "results").mkdir()
    words = shlex.join(command("run", "now.json", "--out", out))
    ended = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c",
         f"mount -t tmpfs -o ro none results && exec {words}"],
        cwd=place,
        env={**os.environ, "OSMEF_STATE": "sqlite:///state.sqlite", "PYTHONPATH": str(ROOT),
             "COLUMNS": "500"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 4, ended.stderr
    assert f"{out}/now: can't write to: Read-only file system" in ended.stderr
    assert "choose a directory that you may write to" in ended.stderr
    assert "no campaigns yet" in run(place, "status").stdout


def shown(place: Path, *arguments: str) -> str:
    """Return what a plan shows, on lines of single blanks."""
    planned = run(place, "plan", "now.json", *arguments)
    assert planned.returncode == 0, planned.stderr
    return "\n".join(" ".join(line.split()) for line in planned.stdout.splitlines())


def test_the_calendar_of_a_plan(place: Path) -> None:
    """Days, windows and local times, holidays, the day on which the clock is set, the order."""
    campaign = {
        **json.loads((place / "now.json").read_text()),
        "start": "2124-03-20",
        "weeks": 2,
        "time_zone": "Europe/Berlin",
        "jitter": "20min",
        "windows": ["weekday-peak", "weekend-offpeak"],
        "holidays": ["2124-03-22"],
        "seed": 3,
    }
    (place / "now.json").write_text(json.dumps(campaign))
    told = json.loads(run(place, "plan", "now.json", "--json").stdout)
    first = told["calendar"][0]
    assert len(told["calendar"]) == told["sessions"] == 2 * 14
    assert (first["session"], first["place"]) == ("2124-03-20 weekday-peak", 0)
    assert first["due"] >= first["opens"] == "2124-03-20T09:00:00+01:00"
    week = shown(place)
    order = f"{first['platform']}, {told['calendar'][1]['platform']}"
    assert f"weekday-peak 09:00 to 17:00 {first['due'][11:19]} {order}" in week
    assert "Wed 2124-03-22 holiday weekend-offpeak 21:00 to 05:00 Thu" in week
    assert "weekend-offpeak 21:00 to 05:00 Sun CEST" in week
    assert "Sun 2124-03-26: the clock is set from 02:00 to 03:00" in week
    assert "Europe/Berlin; random order and jitter of up to 20 min, drawn with seed 3" in week
    assert "and 7 more until 2124-04-02" in week
    assert "Tue 2124-03-28" not in week
    assert "Tue 2124-03-28" in shown(place, "--all")


def test_a_plan_fits_a_terminal(place: Path) -> None:
    """Many platforms go on in further lines, and the hours of a window are left out."""
    scenario = (place / "two.yaml").read_text()
    names = [f"a-scenario-of-a-long-name-{number}.yaml" for number in range(6)]
    for name in names:
        (place / name).write_text(scenario)
    campaign = json.loads((place / "now.json").read_text())
    campaign |= {
        "scenarios": names,
        "start": "2124-03-20",
        "weeks": 2,
        "time_zone": "Europe/Berlin",
    }
    campaign |= {"windows": ["weekday-peak", "weekday-offpeak", "weekend-peak", "weekend-offpeak"]}
    (place / "now.json").write_text(json.dumps(campaign))
    planned = subprocess.run(
        command("plan", "now.json"),
        cwd=place,
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
    )
    tables, sums = planned.stdout.split("times of Europe/Berlin")
    weeks = sums.partition("\n")[2].partition(" sessions of ")[0]
    assert [line for line in (tables + weeks).splitlines() if len(line) > 80] == []
    assert all(name.removesuffix(".yaml") in tables for name in names)
    assert "Left out, as 80 columns have no room: open." in tables
    assert "cost: " not in sums  # of one's own machine


def test_a_campaign_whose_windows_have_passed_is_reported(place: Path) -> None:
    campaign = json.loads((place / "now.json").read_text())
    (place / "now.json").write_text(
        json.dumps({**campaign, "start": "2026-01-05", "windows": ["weekday-peak"]})
    )
    assert "all 5 openings of its windows are over already" in shown(place)
    ended = run(place, "run", "now.json")
    assert ended.returncode == 1
    assert "10 missed" in ended.stdout
    assert "nothing was measured" in ended.stderr
    assert "set start" in ended.stderr


def test_ctrl_c_and_on_again_by_the_printed_command(place: Path) -> None:
    environment = {**os.environ, "OSMEF_STATE": "sqlite:///state.sqlite"}
    with subprocess.Popen(
        command("run", "now.json", "--out", "there"),
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert "start" in process.stderr.readline()
        process.send_signal(signal.SIGSTOP)  # else it might be done before the other one has begun
        refused = run(place, "run", "now.json")
        assert (refused.returncode, "another process" in refused.stderr) == (2, True)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        err, out = process.stderr.read(), process.stdout.read()
    assert process.returncode == 4
    found = status(place)
    assert (found["phase"], found["conducted"]) == ("active", False)
    assert found["counts"].get("planned", 0) > 0
    assert out == run(place, "status", "now").stdout
    again = "run now.json --out there"
    assert f"interrupted; continue with: osmef campaign {again}\n" in err
    assert run(place, *again.split()).returncode == 0
    assert status(place)["counts"] == {"done": 2}


def test_a_budget_below_one_session_is_reported_as_the_reason(place: Path) -> None:
    price = "{provider: local, flavor: small, per_hour: 9 USD, date: 2026-01-01, source: own}"
    for name in ("one", "two"):
        file = place / f"{name}.yaml"
        file.write_text(f"{file.read_text()}prices: [{price}]\n")
    campaign = json.loads((place / "now.json").read_text())
    (place / "now.json").write_text(json.dumps({**campaign, "budget": "0.0001 USD"}))
    planned = run(place, "plan", "now.json").stdout
    assert "the budget of 0.000100 USD pays for no session of one here" in " ".join(planned.split())
    ended = run(place, "run", "now.json")
    assert ended.returncode == 1
    why = "the budget of 0.0001 USD does not pay for another session"
    assert f"nothing was measured: {why}; raise it" in ended.stderr
    assert " ".join(run(place, "status", "now").stdout.split()).count("does not pay") >= 1


def test_openings_of_the_repeated_hour_are_distinguished(place: Path) -> None:
    campaign = json.loads((place / "now.json").read_text())
    windows = {
        "each": {"cron": "*/30 2 * * sun", "length": "10min"},
        "once": {"cron": "0,30 2 * * sun", "length": "10min"},
    }
    berlin = {"time_zone": "Europe/Berlin", "start": "2027-10-31", "windows": windows}
    (place / "now.json").write_text(json.dumps({**campaign, **berlin}))
    shown = run(place, "plan", "now.json", "--all").stdout
    openings = re.findall(r"(each|once) +(again )?(\d\d:\d\d) to", shown)
    assert sorted(openings) == [
        *(("each", "", "02:00"), ("each", "", "02:30")),
        *(("each", "again ", "02:00"), ("each", "again ", "02:30")),
        *(("once", "", "02:00"), ("once", "", "02:30")),
    ]


def test_an_unknown_campaign_name_is_rejected(place: Path) -> None:
    Store(f"sqlite:///{place / 'state.sqlite'}").close()
    for verb in ("status", "log", "pause", "go-on", "stop"):
        refused = run(place, verb, "other")
        assert (refused.returncode, "there is no campaign 'other'" in refused.stderr) == (2, True)


def test_an_invalid_state_url_is_rejected(place: Path) -> None:
    refused = run(place, "status", "--state", "nonsense")
    assert (refused.returncode, "no database" in refused.stderr) == (2, True)
    refused = run(place, "run", "now.json", "--state", "sqlite:////proc/nowhere/x.sqlite")
    assert (refused.returncode, "--state" in refused.stderr) == (4, True)


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("status", "now"),
        ("log", "now"),
        ("pause", "now"),
        ("go-on", "now"),
        ("stop", "now"),
        ("serve", "--port", "0", "--token-file", "gone/token"),
        ("report", "now"),
        ("export", "now", "file:///nowhere"),
    ],
    ids=" ".join,
)
def test_a_command_that_reads_creates_no_database(place: Path, words: tuple[str, ...]) -> None:
    before = sorted(place.rglob("*"))
    file = place / "gone" / "x.sqlite"
    refused = run(place, *words, "--state", f"sqlite:///{file}")
    assert (refused.returncode, refused.stdout) == (2, "")
    told = " ".join(refused.stderr.split())
    assert f"{file}: there is no database cure: is the path right in --state" in told
    assert sorted(place.rglob("*")) == before


def test_a_loop_of_links_in_place_of_the_database_is_reported(place: Path) -> None:
    (place / "loop").symlink_to("loop")
    refused = run(place, "run", "now.json", "--state", "sqlite:///loop")
    assert refused.returncode == 4
    assert "error: " in refused.stderr
    assert "Traceback" not in refused.stderr


def test_without_any_state_there_are_no_campaigns_and_nothing_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("OSMEF_STATE", raising=False)
    first = invoke("campaign", "status")
    assert (first.exit_code, "no campaigns yet" in first.output) == (0, True)
    unknown = invoke("campaign", "stop", "now")
    assert (unknown.exit_code, "there is no campaign 'now'" in unknown.output) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_status_counts_the_trials_of_a_running_session(tmp_path: Path) -> None:
    """The database gets them once it ends: until then it has those of earlier attempts."""
    make_shown(tmp_path).close()

    def trials() -> str:
        done = invoke("campaign", "status", "--state", f"sqlite:///{tmp_path / 'state.sqlite'}")
        (line,) = [one for one in done.stdout.splitlines() if " running " in one]
        return line.partition(" running ")[2].lstrip()

    assert trials().startswith("5 of 12")
    forget(tmp_path / "out" / "pair-4")
    assert trials().startswith("-")


def test_status_calls_nothing_due_that_can_no_longer_begin(tmp_path: Path) -> None:
    """A retry comes after its window, and no conductor has noted yet that others have closed."""
    make_shown(tmp_path).close()
    file = tmp_path / "state.sqlite"
    command = ("campaign", "status", "--state", f"sqlite:///{file}")
    told = " ".join(invoke(*command).stdout.split())
    assert "its window closed 2026-03-" in told
    assert "due 2026" not in told
    with closing(sqlite3.connect(file)) as database, database:
        times = ("2999-01-01 10:00:00", "2999-01-01 10:05:00")
        database.execute("UPDATE sessions SET closes = ?, due = ? WHERE state = 'planned'", times)
    told = " ".join(invoke(*command).stdout.split())
    assert "its window closes 2999-01-01 10:00Z, before" in told


def test_in_the_background(place: Path) -> None:
    """It is told to run once it does, and where its database is stands in no command line."""
    campaign = json.loads((place / "now.json").read_text())
    campaign["start"] = f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%d}"
    campaign["windows"] = ["weekday-peak", "weekend-peak"]  # it only waits
    (place / "now.json").write_text(json.dumps(campaign))
    database = f"sqlite:///{place / 'other.sqlite'}"
    began = run(place, "start", "now.json", "--state", database)
    assert began.returncode == 0, began.stderr
    number = int(began.stdout.split()[1])
    words = Path(f"/proc/{number}/cmdline").read_bytes()
    assert b"now.json" in words
    assert b"other.sqlite" not in words
    refused = run(place, "start", "now.json", "--state", database)
    assert (refused.returncode, "another process" in refused.stderr) == (2, True)
    assert "now: stopped" in run(place, "stop", "now", "--state", database).stdout
    with suppress(ProcessLookupError):  # it has ended already
        descriptor = os.pidfd_open(number)
        assert select.select([descriptor], [], [], 120)[0]
        os.close(descriptor)
    (found,) = json.loads(run(place, "status", "now", "--json", "--state", database).stdout)
    assert (found["conducted"], found["phase"]) == (False, "stopped")


def test_in_the_background_it_can_fail_to_begin(place: Path) -> None:
    refused = run(place, "start", "now.json", "--parallel", "2", "--executor", "dask")
    assert refused.returncode == 4
    assert "it ended at once" in refused.stderr
    assert "--scheduler" in refused.stderr


def keep(place: Path) -> None:
    """Let both platforms keep their VMs, for two sessions each."""
    file = place / "now.json"
    campaign = json.loads(file.read_text())
    windows = campaign["windows"]
    again = {"vms": "kept", "windows": {**windows, "again": windows["once"]}}
    file.write_text(json.dumps({**campaign, **again}))


def sandboxes(place: Path) -> dict[str, int]:
    """Return how many sandboxes stand of each run that has kept VMs."""
    kept = [path.name for path in (place / "results" / "now").glob("kept-*")]
    return {run: len(LocalProvider.owned({}, run)) for run in kept}


@pytest.mark.real("campaigns")
@pytest.mark.timeout(300)
def test_vms_are_kept_from_session_to_session_and_gone_after_a_kill(place: Path) -> None:
    keep(place)
    planned = run(place, "plan", "now.json")
    assert "its VMs are kept from" in " ".join(planned.stdout.split())
    environment = {**os.environ, "OSMEF_STATE": "sqlite:///state.sqlite"}
    with subprocess.Popen(
        command("run", "now.json"), cwd=place, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if " end " in line:
                break
        process.kill()
    journals = (place / "results" / "now").glob("kept-*/journal.jsonl")
    assert any(Journal(path).existing() for path in journals)
    last = run(place, "run", "now.json")
    assert last.returncode == 0, last.stderr
    assert "VMs that were kept no longer exist" in last.stderr
    found = status(place)
    assert found["counts"] == {"done": 4}
    assert set(sandboxes(place).values()) == {0}
    holders = {
        RunDirectory(Path(one["directory"])).read_summary().run.vms_held_by
        for one in found["sessions"]
    }
    assert holders <= set(sandboxes(place))
    assert len(osmef.load(place / "results" / "now")) == 4


def test_a_dask_cluster_keeps_no_vms(place: Path) -> None:
    keep(place)
    refused = run(
        place, "run", "now.json", "--executor", "dask", "--scheduler", "tls://127.0.0.1:1"
    )
    assert refused.returncode == 2
    assert "can't keep VMs" in refused.stderr
