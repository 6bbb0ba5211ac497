"""Whole runs in memory in which something goes wrong: what is told, and that nothing is left."""

from __future__ import annotations

import signal
from collections import Counter, defaultdict
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osmef.engine.reap import leftovers
from osmef.errors import ApiError, CapacityError, Interrupted, OsmefError
from osmef.results.trial import Status
from osmef.scenario.fields import DATA_PORTS
from tests.journals import read_notes
from tests.memory.agent import Fault
from tests.memory.cloud import World, memory_world
from tests.memory.lab import Lab
from tests.small_files import small_files

SENDER, RECEIVER = "sender-h1-t1", "receiver-h2-t1"
PAIR = """
name: pair
workload: {duration: 10s}
order: sequential
repeat: 3
"""
HTTP = PAIR.replace("{duration: 10s}", "{kind: pingpong, sizes: [10B]}")
PLACES = """
name: places
sweep:
  placement: [same-host, different-host]
  tenancy: [same-tenant, different-tenant]
  exclude: [{placement: same-host, tenancy: different-tenant}]
repeat: 1
"""


def nothing_is_left(lab: Lab) -> None:
    assert lab.world.marks == {}
    assert lab.world.machines == {}
    assert lab.journal.existing() == []


def statuses(lab: Lab) -> list[str]:
    return [str(trial.status) for trial in lab.trials]


def test_a_run_on_a_full_disk_names_once_how_to_resume_it(lab: Lab) -> None:
    with small_files(4000):
        code, said = lab.osmef_run(PAIR)
    assert code == 4, said
    assert lab.directory is not None
    resume = f"osmef resume {lab.directory.path} goes on with the run"
    assert f"cure: raise the limit of the file size (ulimit -f); {resume}" in said
    assert lab.command("resume", str(lab.directory.path), "--no-figures")[0] == 0
    assert statuses(lab) == ["ok"] * 3


# --- agents


DEATHS = {
    "arming the sender": (PAIR, SENDER, "bulk"),
    "starting": (PAIR, SENDER, "start"),
    "arming the receiver": (PAIR, RECEIVER, "bulk"),
    "asking": (HTTP, SENDER, "siege"),
    "stopping a server": (HTTP, RECEIVER, "stop"),
}


@pytest.mark.parametrize(("text", "end", "command"), DEATHS.values(), ids=DEATHS)
def test_an_agent_that_dies_fails_its_trial_alone_and_is_named(
    lab: Lab, world: World, text: str, end: str, command: str
) -> None:
    world.faults = [Fault(end, 2, command, dies=True)]
    code, said = lab.osmef_run(text)
    assert code == 1, said
    assert statuses(lab) == ["ok", "failed", "ok"]
    failure = lab.trials[1].failure
    assert failure is not None
    assert (failure.kind, failure.where) == ("agent", end)
    assert failure.message == "the agent is gone: killed by SIGKILL"
    assert f"failed: 1 of 3 trials: {end}: the agent is gone: killed by SIGKILL" in said
    (cell,) = lab.summary["cells"]
    assert (cell["n_ok"], cell["n_failed"]) == (2, 1)
    assert lab.summary["run"]["complete"]
    nothing_is_left(lab)


@pytest.mark.parametrize(
    ("end", "command", "kind"),
    [(SENDER, "bulk", "option"), (SENDER, "start", "stalled"), (RECEIVER, "bulk", "resource")],
)
def test_an_agent_s_error_fails_its_trial_and_not_what_the_peer_saw_of_it(
    lab: Lab, world: World, end: str, command: str, kind: str
) -> None:
    world.faults = [Fault(end, 1, command, error=kind)]
    lab.run(PAIR)
    assert statuses(lab) == ["failed", "ok", "ok"]
    failure = lab.trials[0].failure
    assert failure is not None
    assert (failure.kind, failure.where) == ("agent", end)
    assert failure.message == f"{kind} (connection 3): it is told to"
    assert lab.trials[0].metrics == {}
    nothing_is_left(lab)


def test_a_port_that_is_taken_is_passed_over(lab: Lab, world: World) -> None:
    asked: Counter[str] = Counter()
    world.faults = [Fault(RECEIVER, 1, "bulk", error="bind") for _ in range(19)]
    world.watch = lambda what, name: asked.update([f"{what} {name}"])
    lab.run(PAIR)
    assert statuses(lab) == ["ok"] * 3
    assert asked[f"bulk {RECEIVER}"] == 3 + 19


def test_an_address_that_takes_no_port_fails(lab: Lab, world: World) -> None:
    def take_all(what: str, _name: str) -> None:
        if what == "look":
            address = world.machine(RECEIVER).address
            world.network.taken = {(address, port) for port in DATA_PORTS}

    world.watch = take_all
    lab.run(PAIR)
    assert statuses(lab) == ["failed"] * 3
    assert lab.trials[0].failure is not None
    assert "Address already in use" in lab.trials[0].failure.message


def test_bad_answers_are_counted_and_left_out(lab: Lab, world: World) -> None:
    near, apart, routed = world.usual
    world.usual = (near, type(apart)(apart.rate_bps, apart.rtt_us, bad_every=4), routed)
    text = HTTP.replace("[10B]", "[10B, 20B]").replace("pingpong,", "pingpong, repetitions: 10,")
    metrics = lab.run(text)["cells"][0]["metrics"]
    assert metrics["requests"]["median"] == 20
    assert metrics["failed_requests"]["median"] == 5


# --- a stop

MOMENTS = [("bulk", RECEIVER), ("bulk", SENDER), ("start", SENDER)]


@pytest.mark.parametrize(("command", "end"), MOMENTS)
def test_a_stop_within_a_trial_deletes_everything_and_the_run_is_resumed(
    lab: Lab, world: World, command: str, end: str
) -> None:
    stop = partial(lab.watcher.stop.request, "stopped by the test")
    world.faults = [Fault(end, 2, command, passes_over=True, then=stop)]
    lab.begin(PAIR)
    with pytest.raises(Interrupted, match="stopped by the test"):
        lab.measure()
    assert [trial.index for trial in lab.trials] == [1]
    run = lab.summary["run"]
    assert (run["complete"], run["ended_at"]) == (False, None)
    assert read_notes(lab.journal, "gone")
    nothing_is_left(lab)
    kept = lab.trials[0]
    lab.measure()
    assert lab.watcher.started == [2, 3]
    assert lab.trials[0] == kept
    assert lab.summary["run"]["complete"]
    nothing_is_left(lab)


@pytest.mark.parametrize(("what", "which"), [("make", 1), ("make", 2), ("look", 1)])
def test_a_stop_before_the_first_trial_takes_all_away(
    lab: Lab, world: World, what: str, which: int
) -> None:
    seen: list[str] = []

    def watch(now: str, _name: str) -> None:
        seen.append(now)
        if now == what and seen.count(what) == which:
            lab.watcher.stop.request("stopped by the test")

    world.watch = watch
    lab.begin(PAIR)
    with pytest.raises(Interrupted):
        lab.measure()
    assert seen.count("make") == (1 if (what, which) == ("make", 1) else 2)
    assert (lab.trials, lab.watcher.started) == ([], [])
    nothing_is_left(lab)


def test_ctrl_c_within_a_trial_exits_with_4_and_the_run_is_resumed(lab: Lab, world: World) -> None:
    interrupt = partial(signal.raise_signal, signal.SIGINT)
    world.faults = [Fault(SENDER, 2, "start", passes_over=True, then=interrupt)]
    code, said = lab.osmef_run(PAIR)
    assert code == 4
    assert "stopped by SIGINT" in said
    assert "osmef resume" in said
    nothing_is_left(lab)
    assert lab.directory is not None
    code, said = lab.command("resume", str(lab.directory.path), "--no-figures")
    assert code == 0, said
    assert statuses(lab) == ["ok"] * 3
    assert len(read_notes(lab.journal, "start")) == 2
    nothing_is_left(lab)


MOST = 40
"""More than a run of two trials has of things to watch, so that some stops come too late."""


@settings(max_examples=12)
@given(st.lists(st.integers(1, MOST), max_size=4))
def test_a_run_stopped_at_any_moment_is_resumed_to_the_same_result(
    tmp_path_factory: pytest.TempPathFactory, moments: list[int]
) -> None:
    text = PAIR.replace("repeat: 3", "repeat: 2")
    folder = tmp_path_factory.mktemp("stopped")
    with memory_world(folder) as world, Lab(world, folder) as lab:
        lab.begin(text)
        for moment in (*moments, 0):
            left = [moment]

            def watch(_what: str, _name: str, left: list[int] = left) -> None:
                left[0] -= 1
                if left[0] == 0:
                    lab.watcher.stop.request("stopped by the test")

            lab.renew()
            world.watch = watch
            try:
                lab.measure()
            except Interrupted:
                assert left[0] <= 0
            nothing_is_left(lab)
        assert lab.summary["run"]["complete"]
        assert [trial.index for trial in lab.trials] == [1, 2]
        assert {trial.status for trial in lab.trials} == {Status.OK}
        btc = lab.summary["cells"][0]["metrics"]["aggregate_btc_bps"]
        assert (btc["n"], btc["median"]) == (2, pytest.approx(1e9))


# --- the provider


@pytest.mark.parametrize("missing", ["sender-h1-t1", "receiver-h1-t1", "receiver-h2-t2"])
def test_when_one_endpoint_cannot_be_created_the_others_are_deleted(
    lab: Lab, world: World, missing: str
) -> None:
    world.no_room_for = {missing}
    lab.begin(PLACES)
    with pytest.raises(CapacityError, match="no room"):
        lab.measure()
    made = [machine.name for machine in world.made]
    assert made == ["sender-h1-t1", "receiver-h1-t1", "receiver-h2-t1"][: len(made)]
    assert missing not in made
    assert read_notes(lab.journal, "gone")
    assert (lab.trials, lab.summary["run"]["complete"]) == ([], False)
    nothing_is_left(lab)
    world.no_room_for = set()
    lab.measure()
    assert lab.summary["run"]["complete"]
    nothing_is_left(lab)


def test_no_room_ends_the_command_with_3(lab: Lab, world: World) -> None:
    world.no_room_for = {RECEIVER}
    code, said = lab.osmef_run(PAIR)
    assert code == 3
    assert f"{RECEIVER}: no room" in said
    nothing_is_left(lab)


def test_an_undeletable_resource_stays_in_the_journal_and_is_deleted_at_resume(
    lab: Lab, world: World
) -> None:
    lab.begin(PAIR)
    assert lab.directory is not None
    name = f"osmef-{lab.directory.id}-vm-{SENDER}"
    world.stuck = {name}
    world.faults = [
        Fault(SENDER, 2, "bulk", then=partial(lab.watcher.stop.request, "stopped by the test"))
    ]
    with pytest.raises(ApiError, match="does not let"):
        lab.measure()
    assert list(world.marks) == [name]
    assert [one.name for one in lab.journal.existing()] == [name]
    assert not read_notes(lab.journal, "gone")
    world.stuck = set()
    assert lab.command("reap", "--out", str(lab.folder), "--yes") == (0, "nothing left\n")
    assert list(world.marks) == [name], "it is left to the process that holds the run"
    assert [orphan.resource.name for orphan in leftovers(lab.directory)] == [name]
    lab.measure()
    assert lab.summary["run"]["complete"]
    nothing_is_left(lab)


def test_reap_takes_what_a_dead_run_has_left(lab: Lab, world: World) -> None:
    lab.begin(PAIR)
    assert lab.directory is not None
    world.stuck = {f"osmef-{lab.directory.id}-vm-{name}" for name in (SENDER, RECEIVER)}
    with pytest.raises(OsmefError):
        lab.measure()
    assert set(world.marks) == world.stuck
    world.stuck = set()
    lab.directory.close()
    code, said = lab.command("reap", "--out", str(lab.folder), "--yes")
    assert code == 0, said
    nothing_is_left(lab)


def test_every_thing_is_noted_before_it_is_made_and_after_it_has_gone(
    lab: Lab, world: World
) -> None:
    noted: dict[str, list[list[str]]] = defaultdict(list)

    def watch(what: str, name: str) -> None:
        if what in {"make", "destroy"}:
            notes = [note for note in read_notes(lab.journal) if name_of(note) == name]
            noted[name].append([what, *(str(note["event"]) for note in notes)])

    world.watch = watch
    lab.run(PLACES)
    assert len(noted) == 4
    for seen in noted.values():
        assert seen == [["make", "intend"], ["destroy", "intend", "created"]]
    notes = read_notes(lab.journal)
    events = [str(note["event"]) for note in notes]
    assert Counter(events)["destroyed"] == 4
    assert list(dict.fromkeys(events)) == [
        *("plan", "start", "provision", "intend", "created"),
        *("endpoint", "looked", "destroyed", "gone", "end"),
    ]
    intended = [note["resource"] for note in notes if note["event"] == "intend"]
    assert {one["run"] for one in intended} == {lab.summary["run"]["id"]}
    assert all(one["deadline"] for one in intended)
    nothing_is_left(lab)


def name_of(note: dict[str, object]) -> object:
    resource = note.get("resource")
    return resource["name"] if isinstance(resource, dict) else None
