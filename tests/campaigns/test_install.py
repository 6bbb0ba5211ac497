"""Campaigns as units of systemd and lines of crontab; the programs of the system judge them."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from cronsim import CronSim

from osmef.campaigns.conductor.service import (
    ConductorService,
    cron_line,
    environment,
    remove_crontab_line,
    service,
    timer,
)
from osmef.campaigns.state.rows import CampaignPhase, SessionState
from osmef.campaigns.state.store import Store
from osmef.cli.campaign_install import _write_environment
from osmef.engine.cancellation import CancellationToken
from osmef.errors import InputError
from tests.campaigns.emulated import SimulatedClock
from tests.campaigns.test_conductor import START, Stage, done
from tests.cli.warm import warm

ROOT = Path(__file__).parents[2]
ODD = """a b%h$HOME"c'd\\e`id`;#f"""
FILE = """
name: weeks
scenarios: [pair.yaml]
start: 2096-03-19
weeks: 2
time_zone: Europe/Berlin
"""
SCENARIO = "name: pair\nworkload: {duration: 1s}\n"


def job(place: Path, **values: object) -> ConductorService:
    told: dict[str, object] = {
        "name": "weeks",
        "command": ["/bin/true", "run", "--until-idle"],
        "directory": place,
        "state": "sqlite:////var/lib/osmef.sqlite",
        "log": place / "campaign.log",
        "openings": [START, START + timedelta(hours=12)],
    }
    return ConductorService(**{**told, **values})  # type: ignore[arg-type]


def verify(place: Path) -> str:
    """Return what systemd says against the units of a directory."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("needs systemd-analyze of systemd, which is not installed")
    units = sorted(str(path) for path in place.glob("osmef-campaign-*.[st]*"))
    found = subprocess.run(
        [program, "verify", "--man=no", "--recursive-errors=no", *units],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XDG_RUNTIME_DIR": str(place)},
    )
    lines = (found.stdout + found.stderr).splitlines()
    return "\n".join(line for line in lines if "osmef" in line)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a campaign, whose name has all that can go wrong in a unit."""
    place = tmp_path / ODD
    place.mkdir()
    (place / "pair.yaml").write_text(SCENARIO)
    (place / "weeks.yaml").write_text(FILE)
    return place


def osmef(place: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OSMEF_STATE": "sqlite:///s.sqlite", **more}
    begun = warm().start(("campaign", *arguments), place, environment)
    out, err = begun.communicate()
    assert begun.returncode is not None
    return subprocess.CompletedProcess(begun.args, begun.returncode, out, err)


def test_units_that_systemd_takes(place: Path) -> None:
    made = osmef(place, "install", "weeks.yaml", "--to", "units")
    assert made.returncode == 0, made.stderr
    units = place / "units"
    names = {f"osmef-campaign-weeks.{end}" for end in ("service", "timer", "env")}
    assert {path.name for path in units.iterdir()} == names
    assert (units / "osmef-campaign-weeks.env").stat().st_mode & 0o777 == 0o600
    moments = (units / "osmef-campaign-weeks.timer").read_text()
    assert moments.count("OnCalendar=") == 2 * 7 * 2
    assert "OnCalendar=2096-03-19 08:00:00 UTC\n" in moments  # 9:00 in Berlin
    assert "OnCalendar=2096-03-26 07:00:00 UTC\n" in moments  # the clock was set between
    assert verify(units) == ""


def test_the_service_restarts_when_its_database_is_unavailable(place: Path) -> None:
    assert osmef(place, "install", "weeks.yaml", "--to", "units").returncode == 0
    failed = osmef(place, "run", "weeks.yaml", "--until-idle", OSMEF_STATE="sqlite:////proc/no/s")
    text = (place / "units" / "osmef-campaign-weeks.service").read_text()
    assert f"RestartForceExitStatus={failed.returncode}\n" in text
    assert "SuccessExitStatus" not in text
    assert osmef(place, "run", "weeks.yaml", "--until-idle").returncode == 0


def test_every_word_of_the_command_stays_whole(tmp_path: Path) -> None:
    """systemd looks for the program that a unit names, and says so if it is not there."""
    program = tmp_path / "a b%h" / "program"
    program.parent.mkdir()
    program.symlink_to("/bin/true")
    units = tmp_path / "units"
    units.mkdir()
    whole = job(tmp_path / ODD, command=[str(program), ODD, "a $b"])
    path = units / f"{whole.unit}.service"
    path.write_text(service(whole, tmp_path / "weeks.env", network=True))
    assert """ "a b%%h$$HOME\\"c'd\\\\e`id`;#f" "a $$b"\n""" in path.read_text()
    assert verify(units) == ""
    program.unlink()
    assert "is not executable" in verify(units)


def test_the_environment_of_the_service_reads_as_a_shell_reads_it(place: Path) -> None:
    """Its quoting is that of a shell within double quotes (systemd.exec(5))."""
    file = place / "env"
    file.write_text(environment(job(place, state=ODD)))
    script = '. "$1"; printf %s "$OSMEF_STATE"'
    shown = subprocess.run(
        ["sh", "-c", script, "sh", str(file)], capture_output=True, text=True, check=True
    )
    assert shown.stdout == ODD


def test_installed_again_it_keeps_what_the_clouds_need(place: Path) -> None:
    assert osmef(place, "install", "weeks.yaml", "--to", "units").returncode == 0
    file = place / "units" / "osmef-campaign-weeks.env"
    file.write_text(f"{file.read_text()}OS_CLOUD=lab\n")
    again = osmef(place, "install", "weeks.yaml", "--to", "units", OSMEF_STATE="sqlite:////x.db")
    assert again.returncode == 0, again.stderr
    assert file.read_text().splitlines() == [
        "# Add what your clouds need, such as OS_CLOUD.",
        "OS_CLOUD=lab",
        'OSMEF_STATE="sqlite:////x.db"',
    ]
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("how", ["a link", "open to all"])
def test_an_environment_file_that_another_user_controls_is_rejected(
    tmp_path: Path, how: str
) -> None:
    evil = tmp_path / "evil"
    evil.write_text("LD_PRELOAD=/tmp/evil.so\n")
    path = tmp_path / "osmef-campaign-weeks.env"
    if how == "a link":
        path.symlink_to(evil)
    else:
        evil.rename(path)
        path.chmod(0o666)
    with pytest.raises(InputError, match="another user may have written this"):
        _write_environment(path, job(tmp_path))


def test_a_campaign_of_too_many_openings_looks_often(tmp_path: Path) -> None:
    many = [START + timedelta(minutes=number) for number in range(3001)]
    assert "OnCalendar=*:0/5\n" in timer(job(tmp_path, openings=many))
    assert timer(job(tmp_path, openings=many[:3000])).count("OnCalendar=") == 3000


def test_a_line_of_crontab_runs_what_it_should(place: Path) -> None:
    """Nobody else reads what is in its environment: cron gives the whole line to a shell."""
    shows = ["sh", "-c", 'printf "%s|%s|%s|%s" "$PWD" "$OSMEF_STATE" "$OS_CLOUD" "$1"', "sh", ODD]
    whole = job(place, command=shows, state=f"postgresql://me:secret@h/{ODD}")
    secret = place / "env"
    secret.write_text(environment(whole, "OS_CLOUD=lab\n"))
    line = cron_line(whole, secret)
    assert "secret@" not in line
    times, text = " ".join(line.split()[:5]), line.split(None, 5)[5]
    every = CronSim(times, START)
    assert [next(every) for _ in range(2)] == [START + timedelta(minutes=m) for m in (5, 10)]
    assert "%" not in text.replace(r"\%", "")
    subprocess.run(["sh", "-c", text.replace(r"\%", "%")], check=True)  # as crontab(5) says
    shown = (place / "campaign.log").read_text()
    assert shown == f"{place}|postgresql://me:secret@h/{ODD}|lab|{ODD}"


def test_only_the_crontab_line_of_the_campaign_is_removed(tmp_path: Path) -> None:
    line, other = (
        cron_line(job(tmp_path, name=name), tmp_path / "env") for name in ("weeks", "weeks-2")
    )
    crontab = f"# mine\n0 1 * * * backup # osmef campaign week\n{line}\n{other}\n"
    assert remove_crontab_line(crontab, "weeks") == crontab.replace(f"{line}\n", "")
    assert remove_crontab_line(crontab, "campaign") == crontab


STAND_IN = """#!/bin/sh
# Stands for a program of the system: keeps what it is told.
echo "${0##*/} $*" >>"$KEPT/calls"
case "${0##*/} $*" in
"crontab -l") cat "$KEPT/crontab" 2>/dev/null || { echo "no crontab for me" >&2; exit 1; } ;;
"crontab -") cat >"$KEPT/crontab" ;;
esac
"""


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose crontab and systemctl only keep what they are told."""
    kept = tmp_path / "kept"
    (kept / "bin").mkdir(parents=True)
    for name in ("crontab", "systemctl"):
        (kept / "bin" / name).write_text(STAND_IN)
        (kept / "bin" / name).chmod(0o755)
    monkeypatch.setenv("KEPT", str(kept))
    monkeypatch.setenv("PATH", f"{kept / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("SYSTEMD_UNIT_PATH", str(kept / "units"))
    monkeypatch.setenv("XDG_STATE_HOME", str(kept / "state"))
    return kept


def test_into_crontab_and_out_again(place: Path, kept: Path) -> None:
    (kept / "crontab").write_text("0 1 * * * backup\n")
    for _ in range(2):  # again: its line takes the place of the old one
        made = osmef(place, "install", "weeks.yaml", "--cron")
        assert made.returncode == 0, made.stderr
    lines = (kept / "crontab").read_text().splitlines()
    assert (len(lines), lines[0]) == (2, "0 1 * * * backup")
    assert lines[1].endswith(" # osmef campaign weeks")
    secret = kept / "state" / "osmef" / "osmef-campaign-weeks.env"
    assert (secret.stat().st_mode & 0o777, str(secret) in lines[1]) == (0o600, True)
    assert osmef(place, "uninstall", "weeks", "--cron").returncode == 0
    assert (kept / "crontab").read_text() == "0 1 * * * backup\n"
    assert not secret.exists()
    refused = osmef(place, "uninstall", "weeks", "--cron")
    assert (refused.returncode, "no campaign 'weeks'" in refused.stderr) == (2, True)


def test_into_systemd_and_out_again(place: Path, kept: Path) -> None:
    assert osmef(place, "install", "weeks.yaml").returncode == 0
    assert len(list((kept / "units").iterdir())) == 3
    assert osmef(place, "uninstall", "weeks").returncode == 0
    assert list((kept / "units").iterdir()) == []
    calls = (kept / "calls").read_text().replace(" --user", "").splitlines()
    unit = "osmef-campaign-weeks"
    assert calls == [
        "systemctl daemon-reload",
        f"systemctl enable --now {unit}.timer",
        f"systemctl start --no-block {unit}.service",
        f"systemctl disable --now {unit}.timer",
        f"systemctl stop {unit}.service",
        "systemctl daemon-reload",
    ]
    refused = osmef(place, "uninstall", "weeks")
    assert (refused.returncode, "there are no units" in refused.stderr) == (2, True)


def test_units_that_no_systemd_reads_are_not_left_behind(place: Path, kept: Path) -> None:
    (kept / "bin/systemctl").write_text("#!/bin/sh\necho Failed to connect to bus >&2\nexit 1\n")
    refused = osmef(place, "install", "weeks.yaml")
    assert (refused.returncode, "Failed to connect to bus" in refused.stderr) == (4, True)
    assert list((kept / "units").iterdir()) == []
    assert osmef(place, "install", "weeks.yaml", "--to", str(kept / "units")).returncode == 0
    assert osmef(place, "install", "weeks.yaml").returncode == 4
    assert len(list((kept / "units").iterdir())) == 3, "those that were there are kept"


def test_a_stopped_campaign_is_resumed_when_installed(place: Path, kept: Path) -> None:
    store = Store(f"sqlite:///{place / 's.sqlite'}")
    store.register("weeks", {"file": "weeks.yaml", "text": "", "out": "results"}, [], START)
    store.set_phase(1, CampaignPhase.STOPPED)
    assert osmef(place, "install", "weeks.yaml", "--to", "units").returncode == 0
    assert store.campaign("weeks").phase is CampaignPhase.STOPPED
    assert osmef(place, "install", "weeks.yaml", "--cron").returncode == 0
    assert store.campaign("weeks").phase is CampaignPhase.ACTIVE


def test_a_campaign_that_is_over_is_not_installed(place: Path) -> None:
    (place / "weeks.yaml").write_text(FILE.replace("2096", "2016"))
    refused = osmef(place, "install", "weeks.yaml", "--to", "units")
    assert (refused.returncode, "all windows" in refused.stderr) == (2, True)
    assert not (place / "units").exists()


def test_a_conductor_that_leaves_when_idle(tmp_path: Path) -> None:
    """It stays while a window is open, or opens within ten minutes, and loses nothing."""
    stage = Stage(tmp_path, until_idle=True)
    for day in range(7):
        left = stage.clock.time
        assert stage.conduct(done) is CampaignPhase.ACTIVE
        assert stage.clock.time == left  # nothing is near
        stage.clock.time = START + timedelta(days=day, hours=8, minutes=51)
        phase = stage.conduct(done)
        assert phase is (CampaignPhase.ENDED if day == 6 else CampaignPhase.ACTIVE)
        assert stage.states.count(SessionState.DONE) == day + 1
    assert stage.states == [SessionState.DONE] * 7


def test_a_timer_that_fires_at_the_opening_leaves_no_gap(tmp_path: Path) -> None:
    """It comes up some seconds after the session was due, and nobody was there since the last."""
    stage = Stage(tmp_path, until_idle=True)
    for day in range(7):
        stage.clock.time = START + timedelta(days=day, hours=9, seconds=3)
        stage.conduct(done)
    assert stage.states == [SessionState.DONE] * 7
    assert stage.store.gaps(stage.store.campaign("test").id) == []


def test_the_end_of_a_campaign_is_notified_once(tmp_path: Path) -> None:
    """cron looks again every five minutes for as long as its line is there."""
    stage = Stage(tmp_path, until_idle=True)
    stage.clock.time = START + timedelta(days=6, hours=9)
    for _ in range(3):
        assert stage.conduct(done) is CampaignPhase.ENDED
        stage.clock.time += timedelta(minutes=5)
    assert [text for kind, text in stage.told if "has ended" in text] == [
        "the campaign has ended: 1 done, 6 missed"
    ]


def test_an_automatically_started_conductor_does_not_resume_a_stopped_campaign(
    tmp_path: Path,
) -> None:
    """Until somebody says that it goes on; a conductor that was ended by a signal stops nothing."""
    stage = Stage(tmp_path, until_idle=True)
    stage.clock.time = START + timedelta(hours=9)
    stage.stop.request("stopped by SIGTERM")
    assert stage.conduct(done) is CampaignPhase.STOPPED
    stage.stop = CancellationToken()
    stage.store.set_phase(1, CampaignPhase.STOPPED)
    assert stage.conduct(done) is CampaignPhase.STOPPED
    assert stage.states == [SessionState.PLANNED] * 7
    stage.store.set_phase(1, CampaignPhase.ACTIVE)
    stage.conduct(done)
    assert stage.states == [SessionState.DONE] + [SessionState.PLANNED] * 6
    stage.store.set_phase(1, CampaignPhase.STOPPED)
    stage.until_idle = False  # somebody runs it
    assert stage.conduct(done) is CampaignPhase.ENDED


def test_a_session_is_missed_once(tmp_path: Path) -> None:
    """Each look of cron reads the file again, while the window that was missed is still open."""
    told: list[str] = []
    clock = SimulatedClock(START + timedelta(hours=10))
    for _ in range(4):
        stage = Stage(tmp_path, "missed: skip\n", clock, until_idle=True)
        stage.conduct(done)
        told += [text for kind, text in stage.told if kind == "missed"]
        clock.time += timedelta(minutes=5)
    assert len(told) == 1
    assert Stage(tmp_path, "missed: run\n", clock).states[0] is SessionState.PLANNED
