"""``osmef profile``: the vectors of two flavors of the local cloud."""

from __future__ import annotations

from tests.cli.conftest import Osmef

SCENARIO = """\
name: two-flavors
placement: different-host
workload: latency
sweep: {flavor: [small, medium]}
repeat: 2
"""
QUICK = "{kind: btc, duration: 100ms, interval: 50ms}"


def test_each_flavor_has_a_vector_of_six_trials(osmef: Osmef) -> None:
    path = osmef.write(SCENARIO)
    found = osmef("profile", path, "--with", QUICK, "--json").json()["vectors"]
    network = [row for row in found if row["component"] == "network_mb_per_s"]
    assert {row["flavor"] for row in network} == {"small", "medium"}
    for row in network:
        assert (row["by"], row["n"]) == ("aggregate_btc_bps of btc", 6)
        assert 0 < row["ci95_low"] <= row["median"] <= row["ci95_high"]
    threads = {row["flavor"]: row["median"] for row in found if row["component"] == "threads"}
    assert threads == {"small": 1, "medium": 2}


def test_one_flavor_is_named_on_the_command_line_and_shown(osmef: Osmef) -> None:
    path = osmef.write(SCENARIO)
    ended = osmef("profile", path, "--with", QUICK, "--flavor", "medium")
    assert ended.code == 0, ended.err
    assert "local medium" in ended.out
    assert "local small" not in ended.out


def test_workloads_that_are_none_are_told_before_anything_is_made(osmef: Osmef) -> None:
    ended = osmef("profile", osmef.write(SCENARIO), "--with", "unixbank")
    assert ended.code == 2
    assert "unixbank" in ended.err
    assert not (osmef.directory / "results").exists()
