"""MPI jobs of several endpoints, in whole runs on the local cloud."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Osmef
from tests.cluster import PRINTED, bundle_in, scenario

SOURCE = Path(__file__).parents[3] / "shared" / "sources" / "NPB3.4-MPI.tar.gz"
BUILDS = ("mpicc.mpich", "mpif90.mpich", "make")
BUILD_S = 300


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return bundle_in(tmp_path)


def test_more_and_more_endpoints_run_one_program(
    osmef: Osmef, bundle: Path, left_behind: Callable[[], list[str]]
) -> None:
    name = osmef.write(scenario(bundle, processes=2), "cluster.json")
    planned = osmef("plan", name)
    assert planned.code == 0, planned.err
    assert "node-h1-t1 to node-h4-t1" in planned.out
    ended = osmef("run", name)
    assert ended.code == 0, ended.err
    assert left_behind() == []
    trials = {len(trial["senders"]): trial for trial in osmef.trials}
    for count, trial in trials.items():
        assert trial["metrics"]["mops"] == pytest.approx(2.19)
        assert trial["metrics"]["processes"] == 2 * count
        assert trial["metrics"]["mops_per_process"] == pytest.approx(2.19 / 2 / count)
        told = {(one["endpoint"], one["name"]): one for one in trial["interfaces"]}
        measured = [one for one in told.values() if one["measured"]]
        assert [one["endpoint"] for one in measured] == trial["senders"]
        assert {one["name"] for one in measured} == {"lo" if count == 1 else "eth0"}
    assert trials[1]["metrics"]["moved_mb"] == 0
    # From each endpoint 50 000 bytes go to the next one, the others stay in it.
    for count in (2, 4):
        assert trials[count]["metrics"]["moved_mb"] == pytest.approx(0.05 * count, rel=0.3)
    table = osmef("show", str(osmef.run)).out
    assert "Mop/s" in table
    facts = json.loads((osmef.run / "facts/00000/node-h1-t1.json").read_text())
    assert facts["programs"]["is.S.x"]["how"] == "bundle"


def test_a_process_that_fails_fails_the_trial_and_leaves_nothing(
    osmef: Osmef, bundle: Path, left_behind: Callable[[], list[str]]
) -> None:
    (bundle.parent / "fails").touch()
    name = osmef.write(scenario(bundle), "cluster.json")
    ended = osmef("run", name, "--set", "endpoints.node.count=2")
    assert ended.code == 1
    (trial,) = osmef.trials
    assert trial["failure"]["where"] == "node-h2-t1"
    assert "exit status 1" in trial["failure"]["message"]
    assert trial["metrics"] == {}
    assert "has had enough" in (osmef.run / "raw/1-1-node-h2-t1.stderr").read_text()
    assert left_behind() == []


def test_an_unverified_npb_result_fails_its_trial(osmef: Osmef, bundle: Path) -> None:
    wrong = PRINTED.replace("  SUCCESSFUL", "UNSUCCESSFUL")
    (bundle.parent / "printed").write_text(wrong)
    name = osmef.write(scenario(bundle), "cluster.json")
    assert osmef("run", name, "--set", "endpoints.node.count=2").code == 1
    (trial,) = osmef.trials
    assert "verification was not successful" in trial["failure"]["message"]
    assert trial["metrics"] == {}
    assert "UNSUCCESSFUL" in (osmef.run / "raw/1-0-node-h1-t1.stdout").read_text()


def test_without_the_npb_source_the_command_to_build_it_is_named(
    osmef: Osmef, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if shutil.which("is.S.x"):
        pytest.skip("this machine has NPB")
    ended = osmef("run", osmef.write(scenario(None), "cluster.json"))
    assert ended.code == 3
    assert "osmef program build is.S.x --source" in ended.err


@pytest.mark.real("programs")
@pytest.mark.timeout(BUILD_S)
@pytest.mark.parametrize("benchmark", ["is", "ft"])
def test_npb_is_built_and_runs_over_mpich(
    osmef: Osmef, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, benchmark: str
) -> None:
    if not SOURCE.exists():
        pytest.skip("the source of NPB is not on this machine")
    if lacking := [one for one in BUILDS if shutil.which(one) is None]:
        pytest.skip(f"no {lacking[0]}: apt install mpich libmpich-dev gfortran make")
    if (os.cpu_count() or 1) < 2:
        pytest.skip("processes that wait for each other need two CPUs")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    osmef.end_s = BUILD_S
    built = osmef("program", "build", f"{benchmark}.S.x", "--source", str(SOURCE), "--json")
    assert built.code == 0, built.out
    assert any("mpich" in one for one in built.json()["build"]["libraries"])
    work = {"benchmark": benchmark, "ways": ["build"]}
    ended = osmef("run", osmef.write(scenario(None, **work), "cluster.json"))
    assert ended.code == 0, ended.err
    trials = {len(trial["senders"]): trial["metrics"] for trial in osmef.trials}
    assert all(metrics["mops"] > 0 for metrics in trials.values())
    assert trials[1]["moved_mb"] == 0 < trials[2]["moved_mb"] < trials[4]["moved_mb"]
