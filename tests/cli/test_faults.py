"""Faults, made for real: signals in every stage, kills, a cut link, a wrong key, a full disk."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from osmef.providers.local import sandbox
from tests.cli.conftest import Osmef
from tests.processes import descendants

QUICK = """
name: quick
workload: {kind: btc, duration: 300ms, interval: 100ms}
sweep: {placement: [same-host, different-host], connections: [1, 2]}
repeat: 2
"""
LONG = "name: long\nworkload: {kind: btc, duration: 60s, interval: 100ms}\nrepeat: 1\n"
TWO = """
name: two
workload: {kind: btc, duration: 2s, interval: 100ms, connections: 4}
sweep: {placement: [same-host, different-host]}
repeat: 1
order: sequential
"""
LeftBehind = Callable[[], list[str]]


def indices(run: Path) -> list[int]:
    return [json.loads(line)["index"] for line in (run / "trials.jsonl").read_text().splitlines()]


MORE = pytest.mark.real("faults")
STAGES = (
    "provisioning",
    "making a local cloud",
    "starting",
    "putting the agent",
    "measuring",
    "[3/8]",
)


@pytest.mark.parametrize(
    ("stage", "number"),
    [
        *((stage, signal.SIGINT) for stage in STAGES[::3]),
        (STAGES[1], signal.SIGTERM),  # it takes the same way
        *(
            pytest.param(stage, signal.SIGINT, marks=MORE)
            for stage in STAGES
            if stage not in STAGES[::3]
        ),
        *(pytest.param(stage, signal.SIGTERM, marks=MORE) for stage in STAGES[3::2]),
    ],
)
def test_a_signal_in_any_stage_cleans_up_and_the_run_can_go_on(
    osmef: Osmef, left_behind: LeftBehind, stage: str, number: signal.Signals
) -> None:
    process = osmef.start("run", osmef.write(QUICK))
    osmef.until(process, stage)
    osmef.interrupt(process, number)
    ended = osmef.finish(process)
    assert ended.code == 4, ended.err
    assert f"stopped by {number.name}" in ended.err
    assert f"osmef resume results/{osmef.run.name}" in ended.err
    assert "Traceback" not in ended.err
    assert left_behind() == []
    assert osmef("reap").code == 0
    ended = osmef("resume", str(osmef.run))
    assert ended.code == 0, ended.err
    assert sorted(indices(osmef.run)) == list(range(1, 9))
    assert left_behind() == []


def test_a_signal_while_a_transfer_runs_ends_it_at_once(
    osmef: Osmef, left_behind: LeftBehind
) -> None:
    process = osmef.start("run", osmef.write(LONG))
    osmef.until(process, "measuring")
    busy_agents(process.pid)
    osmef.interrupt(process, signal.SIGINT)
    ended = osmef.finish(process)
    assert ended.code == 4
    assert left_behind() == []
    assert not (osmef.run / "trials.jsonl").exists(), "an interrupted trial is no result"


def test_a_run_ends_before_its_deadline_and_names_the_resume_command(
    osmef: Osmef, left_behind: LeftBehind
) -> None:
    text = QUICK.replace("repeat: 2", "repeat: 500\ndeadline: 15s")
    ended = osmef("run", osmef.write(text))
    over = time.time()
    assert ended.code == 4, ended.err
    assert "the trials take longer than the deadline" in ended.err
    assert "the deadline of the run, 15 s, is near" in ended.err
    assert f"osmef resume results/{osmef.run.name}" in ended.err
    assert left_behind() == []
    notes = osmef.journal
    marks = {note["resource"]["deadline"] for note in notes if note["event"] == "created"}
    assert all(over - 60 < mark < over + 15 for mark in marks)
    assert len(marks) == 1
    assert indices(osmef.run), "what was measured is kept"


def test_a_signal_after_the_last_trial_takes_nothing_away(
    osmef: Osmef, left_behind: LeftBehind
) -> None:
    name = osmef.write(QUICK.replace("repeat: 2", "repeat: 1"))
    ended = osmef("run", name, "--figures", prefix=osmef.interrupted_at("osmef.report.figures"))
    assert ended.code == 0, ended.err
    assert "SIGINT" in ended.err
    assert f"run: results/{osmef.run.name}" in ended.out
    assert (osmef.run / "btc-distance.png").exists()
    assert left_behind() == []


@pytest.mark.parametrize(
    "stage",
    [
        "starting",
        *(pytest.param(one, marks=MORE) for one in ("making a local cloud", "putting", "[2/8]")),
    ],
)
def test_a_killed_controller_is_cleaned_up_and_its_run_resumed(
    osmef: Osmef, left_behind: LeftBehind, stage: str
) -> None:
    process = osmef.start("run", osmef.write(QUICK))
    osmef.until(process, stage)
    process.kill()
    osmef.finish(process)
    kept = indices(osmef.run) if stage == "[2/8]" else []
    assert osmef("reap", "--yes").code == 0
    assert left_behind() == []
    ended = osmef("resume", str(osmef.run))
    assert ended.code == 0, ended.err
    assert indices(osmef.run)[: len(kept)] == kept
    assert sorted(indices(osmef.run)) == list(range(1, 9))
    assert osmef("reap").out.strip() == "nothing left"


def test_a_resumed_run_keeps_the_facts_that_it_has(osmef: Osmef) -> None:
    process = osmef.start("run", osmef.write(QUICK))
    osmef.until(process, "[5/8]")  # in the second group
    process.kill()
    osmef.finish(process)
    facts = osmef.run / "facts"
    before = {path: path.read_bytes() for path in facts.glob("*/*.json")}
    assert {path.parent.name for path in before} == {"00000", "00001"}
    assert osmef("resume", str(osmef.run)).code == 0
    assert {path: path.read_bytes() for path in before} == before
    assert sorted(p.name for p in facts.iterdir()) == ["00000", "00001", "00001.01", "00002"]
    # Only those of one and the same endpoint are compared.
    assert "change" not in json.loads((facts / "00001.01/sender-h1-t1.json").read_text())
    changed = json.loads((facts / "00002/sender-h1-t1.json").read_text())["change"]
    summary = osmef.summary
    (sender,) = (e for e in summary["endpoints"] if e["name"] == "sender-h1-t1")
    assert sender["facts"]["change"] == changed


def test_a_run_directory_that_is_removed_ends_the_run(osmef: Osmef) -> None:
    process = osmef.start("run", osmef.write(QUICK.replace("repeat: 2", "repeat: 50")))
    osmef.until(process, "[2/200]")
    run = osmef.run
    shutil.rmtree(run)
    ended = osmef.finish(process)
    assert ended.code == 4, ended.err
    assert "Traceback" not in ended.err
    assert "did something remove the run directory?" in ended.err
    assert not run.exists(), "it came back, in part"
    assert [found for found in sandbox.marked() if found.run == run.name] == []


def test_reap_destroys_a_cloud_that_hangs_and_leaves_a_living_run_alone(
    osmef: Osmef, left_behind: LeftBehind
) -> None:
    living = osmef.start("run", osmef.write(LONG), "--out", "living")
    osmef.until(living, "measuring")
    process = osmef.start("run", osmef.write(LONG))
    osmef.until(process, "measuring")
    for found in sandbox.marked():
        if found.run == osmef.run.name:
            os.kill(found.pid, signal.SIGSTOP)  # so that it can't see its controller die
    process.kill()
    osmef.finish(process)
    assert left_behind() != []
    listed = osmef("reap", "--json")
    assert listed.code == 1
    assert [r["run"] for r in listed.json()["left"]] == [osmef.run.name]
    assert left_behind() != []
    assert osmef("reap", "--yes").code == 0
    assert left_behind() == []
    assert osmef("reap", "--yes", "--out", "living").out.strip() == "nothing left"
    assert living.poll() is None
    osmef.interrupt(living, signal.SIGTERM)
    assert osmef.finish(living).code == 4


def test_a_copy_of_a_living_run_is_neither_reaped_nor_resumed(
    osmef: Osmef, left_behind: LeftBehind
) -> None:
    process = osmef.start("run", osmef.write(LONG))
    osmef.until(process, "measuring")
    shutil.copytree(osmef.directory / "results", osmef.directory / "copy")
    existing = left_behind()
    reaped = osmef("reap", "--yes", "--out", "copy")
    assert (reaped.code, reaped.out) == (0, "nothing left\n"), reaped.err
    resumed = osmef("resume", f"copy/{osmef.run.name}")
    assert resumed.code == 4
    assert "of which this directory is a copy" in " ".join(resumed.err.split())
    assert left_behind() == existing != []
    osmef.interrupt(process, signal.SIGINT)
    assert osmef.finish(process).code == 4
    assert left_behind() == []


def test_an_agent_that_is_killed_in_a_transfer_fails_its_trial_alone(
    osmef: Osmef, left_behind: LeftBehind
) -> None:
    process = osmef.start("run", osmef.write(TWO))
    osmef.until(process, "measuring")
    os.kill(busy_agents(process.pid)["sender-h1-t1"], signal.SIGKILL)
    ended = osmef.finish(process)
    assert ended.code == 1, ended.err
    first, second = osmef.trials
    assert first["status"] == "failed"
    assert first["failure"]["kind"] == "agent"
    assert first["failure"]["where"] == "sender-h1-t1"
    assert "KILL" in first["failure"]["message"]
    assert second["status"] == "ok"
    summary = osmef.summary
    assert [(c["n_ok"], c["n_failed"]) for c in summary["cells"]] == [(0, 1), (1, 0)]
    assert summary["cells"][0]["metrics"]["aggregate_btc_bps"]["median"] is None
    assert left_behind() == []


def test_a_lost_receiver_leaves_its_trials_unmeasured_and_the_run_continues(
    osmef: Osmef, left_behind: LeftBehind
) -> None:
    process = osmef.start("run", osmef.write(TWO))
    osmef.until(process, "measuring")
    agent = busy_agents(process.pid)["receiver-h1-t1"]
    os.kill(first_process(agent), signal.SIGKILL)  # the VM's first process: all of it goes
    ended = osmef.finish(process)
    assert ended.code == 4, ended.err
    (second,) = osmef.trials
    assert (second["index"], second["status"]) == (2, "ok")
    said = " ".join(ended.err.split())
    assert "error: receiver-h1-t1: lost since 20" in said
    assert "Without it 1 of 2 trials could not be measured" in said
    assert f"osmef resume results/{osmef.run.name} goes on with the run" in said
    assert "waiting" not in said, "a VM of the local cloud does not come back"
    assert left_behind() == []
    ended = osmef("resume", str(osmef.run))
    assert ended.code == 0, ended.err
    assert indices(osmef.run) == [2, 1]
    assert left_behind() == []


def test_a_local_cloud_that_is_killed_leaves_its_trials_to_be_measured(
    osmef: Osmef, left_behind: LeftBehind
) -> None:
    process = osmef.start("run", osmef.write(TWO))
    osmef.until(process, "measuring")
    (ours,) = (one for one in sandbox.sandboxes() if one.run == osmef.run.name)
    os.kill(ours.pid, signal.SIGKILL)
    ended = osmef.finish(process)
    assert ended.code == 4, ended.err
    assert "2 of 2 trials could not be measured" in " ".join(ended.err.split())
    assert "waiting" not in ended.err
    assert "Traceback" not in ended.err
    assert not (osmef.run / "trials.jsonl").exists()
    ended = osmef("resume", str(osmef.run))
    assert ended.code == 0, ended.err
    assert indices(osmef.run) == [1, 2]
    assert left_behind() == []


def test_failed_trials_are_measured_again_on_request(osmef: Osmef, left_behind: LeftBehind) -> None:
    process = osmef.start("run", osmef.write(TWO))
    osmef.until(process, "measuring")
    os.kill(busy_agents(process.pid)["sender-h1-t1"], signal.SIGKILL)
    assert osmef.finish(process).code == 1
    assert osmef("resume", str(osmef.run)).code == 1, "they are kept"
    ended = osmef("resume", "--again", "failed", str(osmef.run), "--json")
    assert ended.code == 0, ended.err
    summary = ended.json()["summary"]
    assert [(cell["n_ok"], cell["n_failed"]) for cell in summary["cells"]] == [(1, 0), (1, 0)]
    assert summary["run"]["repeated"] == 1
    assert [(one["index"], one["status"]) for one in osmef.trials] == [
        *((1, "failed"), (2, "ok"), (1, "ok"))
    ]
    assert "Invalid value for '--again'" in osmef("resume", "--again", "all", str(osmef.run)).err
    assert left_behind() == []


def test_a_link_that_is_cut_in_a_transfer_fails_the_trial_with_a_reason(
    osmef: Osmef, left_behind: LeftBehind
) -> None:
    process = osmef.start("run", osmef.write(LONG))
    osmef.until(process, "measuring")
    agent = busy_agents(process.pid)["sender-h1-t1"]
    cut = (
        "from pyroute2 import IPRoute\n"
        "with IPRoute() as ipr:\n"
        "    (index,) = ipr.link_lookup(ifname='eth0')\n"
        "    ipr.link('set', index=index, state='down')\n"
    )
    subprocess.run([*enter(agent, "--net"), sys.executable, "-c", cut], check=True)
    ended = osmef.finish(process)
    assert ended.code == 1, ended.err
    (trial,) = osmef.trials
    assert trial["failure"]["kind"] == "agent"
    assert "stalled" in trial["failure"]["message"]
    assert "links" in trial["failure"]["cure"]
    assert left_behind() == []


def test_a_full_disk_stops_the_run_and_it_is_resumed_with_free_space(
    osmef: Osmef, left_behind: LeftBehind
) -> None:
    results = osmef.directory / "results"
    results.mkdir()
    # Enough for the scenario and the first trials.
    script = (
        f"mount -t tmpfs -o size=200k tmpfs {results} && "
        f'"$@"; code=$?; cp -r {results} {osmef.directory}/kept; exit $code'
    )
    root = os.geteuid() == 0
    user = [] if root else ["--user", "--map-root-user"]
    back = [] if root else ["unshare", f"--map-user={os.getuid()}", f"--map-group={os.getgid()}"]
    prefix = ("unshare", "--mount", *user, "sh", "-c", script, "sh", *back)
    name = osmef.write(QUICK.replace("repeat: 2", "repeat: 30"))
    ended = osmef("run", name, prefix=prefix)
    assert ended.code == 4, ended.err
    assert "No space left on device" in ended.err
    assert "resume" in ended.err
    assert "Traceback" not in ended.err
    (kept,) = (osmef.directory / "kept").iterdir()
    assert [p.run for p in sandbox.marked() if p.run == kept.name] == []
    lines = (kept / "trials.jsonl").read_text().splitlines()
    done = [json.loads(line)["index"] for line in lines]
    assert 0 < len(done) < 120
    assert done == list(range(1, len(done) + 1))


def test_an_endpoint_with_a_wrong_host_key_is_rejected(
    osmef: Osmef, left_behind: LeftBehind
) -> None:
    # The daemon is told another key than the controller expects.
    script = (
        "import sys\n"
        "from dataclasses import replace\n"
        "from osmef.providers.local.provider import LocalProvider\n"
        "from osmef.remote.login import KeyPair\n"
        "from osmef.remote.login import HostKeys\n"
        "create = LocalProvider.create\n"
        "def swapped(self, order):\n"
        "    keys = HostKeys((KeyPair.generate('stranger').public,))\n"
        "    ends = create(self, order)\n"
        "    return [replace(e, login=replace(e.login, host_keys=keys)) for e in ends]\n"
        "LocalProvider.create = swapped\n"
        "from osmef.__main__ import main\n"
        "sys.argv[0] = 'osmef'\n"
        "main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, "run", osmef.write(LONG)],
        cwd=osmef.directory,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert ended.returncode == 3
    assert "host key" in ended.stderr
    assert "somebody else" in ended.stderr
    assert left_behind() == []


def test_a_missing_sshd_is_reported_with_the_package_to_install(osmef: Osmef) -> None:
    hide = (
        'for d in /usr/sbin /usr/local/sbin /sbin; do mount -t tmpfs none $d || :; done; exec "$@"'
    )
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    prefix = ("unshare", "--mount", *user, "sh", "-c", hide, "sh")
    ended = osmef("run", osmef.write(LONG), prefix=prefix)
    assert ended.code == 3
    assert "no sshd on this machine" in ended.err
    assert "openssh-server" in ended.err
    assert not (osmef.directory / "results").exists(), "nothing was made"


def busy_agents(controller: int) -> dict[str, int]:
    """Wait until two agents of a run move data; return their processes by endpoint."""
    pause = threading.Event()
    for _ in range(1000):
        found = [pid for pid in descendants(controller) if is_busy(pid)]
        if len(found) == 2:
            return {hostname(pid): pid for pid in found}
        pause.wait(0.01)
    raise AssertionError("no transfer ran within 10 s")


def is_busy(pid: int) -> bool:
    """Tell whether a process is an agent with connections: each has a thread of its own."""
    try:
        is_agent = b"osmef-agent\0serve" in Path(f"/proc/{pid}/cmdline").read_bytes()
        return is_agent and len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
    except OSError:
        return False


def enter(pid: int, *namespaces: str) -> list[str]:
    user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
    return ["nsenter", f"--target={pid}", *user, *namespaces]


def hostname(pid: int) -> str:
    return subprocess.check_output([*enter(pid, "--uts"), "uname", "-n"], text=True).strip()


def first_process(pid: int) -> int:
    """Return the first process of a process's pid namespace, by our number of it."""
    while True:
        status = Path(f"/proc/{pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        if fields["NSpid"].split()[-1] == "1":
            return pid
        pid = int(fields["PPid"])
