from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd
import pytest
from jsonschema import Draft202012Validator

import osmef as package
from osmef.providers.local import sandbox
from osmef.providers.local.addresses import has_ipv6
from tests.cli.conftest import Osmef

SHORT = """
name: short
description: One of each distance
workload: {kind: btc, duration: 200ms, interval: 50ms}
sweep:
  placement: [same-host, different-host]
  tenancy: [same-tenant, different-tenant]
  connections: [1, 3]
  exclude: [{placement: different-host, tenancy: different-tenant}]
repeat: 2
seed: 11
tags: {purpose: test}
"""
METRICS = {
    "aggregate_btc_bps", "connection_btc_bps", "jain_fairness", "cpu_sender_percent",
    "cpu_receiver_percent", "retransmits", "rtt_mean_us",
}  # fmt: skip


@pytest.fixture(scope="module")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    osmef = Osmef(tmp_path_factory.mktemp("short"))
    ended = osmef("run", osmef.write(SHORT), "--figures")
    assert ended.code == 0, ended.err
    return osmef.run


def test_a_run_gives_a_summary_figures_and_a_frame_and_leaves_nothing(
    osmef: Osmef, short_run: Path
) -> None:
    assert [one for one in sandbox.marked() if one.run == short_run.name] == []
    summary = json.loads((short_run / "summary.json").read_text())
    Draft202012Validator(osmef("schema", "summary").json()).validate(summary)
    assert summary["run"]["complete"] is True
    assert summary["run"]["seed"] == 11
    assert summary["run"]["tags"] == {"purpose": "test"}
    distances = {(c["placement"], c["tenancy"]): c["distance"] for c in summary["cells"]}
    assert distances == {
        ("same-host", "same-tenant"): 0,
        ("different-host", "same-tenant"): 2,
        ("same-host", "different-tenant"): 4,
    }
    for cell in summary["cells"]:
        assert (cell["n_ok"], cell["n_failed"]) == (2, 0)
        assert set(cell["metrics"]) >= METRICS
        btc = cell["metrics"]["aggregate_btc_bps"]
        assert btc["n"] == 2
        assert btc["ci95_low"] is None
        assert "n >= 6" in btc["ci95_reason"]
        assert btc["min"] <= btc["median"] <= btc["max"]
        one = cell["metrics"]["connection_btc_bps"]["median"]
        assert one * cell["connections"] == pytest.approx(btc["median"])
        if cell["distance"] > 0:
            assert btc["max"] < 1.05e9, "the physical network's rate bounds what crosses it"
    for figure in ("btc-connections", "btc-distance"):
        assert (short_run / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (short_run / f"{figure}.svg").read_text()


def test_the_intervals_add_up_to_the_bytes_of_the_connections(short_run: Path) -> None:
    intervals = pd.read_parquet(short_run / "intervals.parquet")
    sums = intervals.groupby(["trial", "role", "flow"])["bytes"].sum()
    for line in (short_run / "trials.jsonl").read_text().splitlines():
        trial = json.loads(line)
        for role in ("sender", "receiver"):
            for flow in trial["transfers"][0][role]["flows"]:
                assert sums[trial["index"], role, flow["flow"]] == flow["bytes"]
        sent = [flow["bytes"] for flow in trial["transfers"][0]["sender"]["flows"]]
        received = [flow["bytes"] for flow in trial["transfers"][0]["receiver"]["flows"]]
        assert sent == received


def test_a_frame_has_one_row_a_trial(short_run: Path) -> None:
    frame = package.load(short_run)
    assert len(frame) == 12
    assert set(frame["status"]) == {"ok"}
    assert set(frame["distance"]) == {0, 2, 4}
    assert (frame.groupby("connections").size() == 6).all()
    assert (frame["aggregate_btc_bps"] > 1e6).all()


def test_facts_of_every_endpoint_are_collected_before_and_after_each_group(
    short_run: Path,
) -> None:
    endpoints = json.loads((short_run / "summary.json").read_text())["endpoints"]
    names = {endpoint["name"] for endpoint in endpoints}
    for moment in ("00000", "00001", "00002"):
        found = {path.stem for path in (short_run / "facts" / moment).iterdir()}
        assert found == names
        for name in names:
            facts = json.loads((short_run / "facts" / moment / f"{name}.json").read_text())
            if moment == "00000":
                assert "change" not in facts
            else:
                assert facts["change"]["interfaces"]["mgmt0"]["rx_bps"] > 0
    for endpoint in endpoints:
        assert endpoint["facts"]["before"]["kernel"]["release"] == os.uname().release
        assert abs(endpoint["facts"]["after"]["clock_offset_s"]) < 60
        assert endpoint["achieved"]["host"].startswith("host-")


def test_show_prints_the_table_again(osmef: Osmef, short_run: Path) -> None:
    shown = osmef("show", str(short_run))
    assert shown.code == 0
    assert "aggregate" in shown.out
    assert str(short_run) in shown.out
    assert osmef("show", str(short_run), "--json").json() == json.loads(
        (short_run / "summary.json").read_text()
    )


def test_resuming_a_complete_run_changes_no_trial(osmef: Osmef, short_run: Path) -> None:
    before = (short_run / "trials.jsonl").read_bytes()
    summary = json.loads((short_run / "summary.json").read_text())
    ended = osmef("resume", str(short_run), "--json")
    assert ended.code == 0, ended.err
    assert ended.json()["summary"]["run"]["ended_at"] == summary["run"]["ended_at"]
    assert (short_run / "trials.jsonl").read_bytes() == before
    assert "osmef extend adds trials" in osmef("resume", str(short_run), "--no-figures").err


def test_json_is_for_machines_and_overrides_hold_and_figures_are_left_out(osmef: Osmef) -> None:
    words = ("--json", "--no-figures", "--out", "elsewhere")
    ended = osmef("run", osmef.write(SHORT), *words, "--set", "repeat=1", "--set", "connections=2")
    assert ended.code == 0, ended.err
    assert ended.err == ""
    printed = ended.json()
    assert {cell["connections"] for cell in printed["summary"]["cells"]} == {2}
    assert Path(printed["directory"]).parent == Path("elsewhere")
    written = {path.suffix for path in (osmef.directory / printed["directory"]).iterdir()}
    assert ".json" in written
    assert not {".png", ".svg"} & written


@pytest.mark.parametrize(
    ("endpoints", "distance"),
    [
        ("{loopback: {kind: host}}", 0),
        ("{loopback: {flavor: small}}", 0),
        ("{sender: {kind: host}, receiver: {kind: host}}", 2),
        ("{sender: {}, receiver: {kind: host}}", 2),
        ("{sender: {kind: host}, receiver: {}}", 2),
    ],
)
def test_every_kind_of_endpoints_is_measured(osmef: Osmef, endpoints: str, distance: int) -> None:
    workload = "workload: {kind: btc, duration: 200ms, interval: 100ms}"
    text = f"name: ends\nendpoints: {endpoints}\nrepeat: 1\n{workload}\n"
    ended = osmef("run", osmef.write(text), "--json")
    assert ended.code == 0, ended.err
    (cell,) = ended.json()["summary"]["cells"]
    assert (cell["distance"], cell["n_ok"]) == (distance, 1)


def test_an_overlay_between_hosts_is_another_path_than_the_bare_network(osmef: Osmef) -> None:
    text = """
name: overlay
endpoints: {sender: {kind: host}, receiver: {kind: host}}
workload: {kind: btc, duration: 200ms, interval: 100ms}
sweep: {layer: [bare, overlay]}
repeat: 1
"""
    ended = osmef("run", osmef.write(text))
    assert ended.code == 0, ended.err
    assert set(package.load(osmef.run)["connections"]) == {1}, "also where it is not swept"
    mss = {
        trial["values"]["layer"]: trial["transfers"][0]["sender"]["flows"][0]["tcp"]["mss"]
        for trial in osmef.trials
    }
    assert mss["overlay"] < mss["bare"], "VXLAN takes 50 bytes of every packet"


@pytest.mark.skipif(not has_ipv6(), reason="this machine's kernel has no IPv6")
def test_ipv6_takes_20_bytes_more_of_every_packet(osmef: Osmef) -> None:
    text = """
name: families
workload: {kind: btc, duration: 200ms, interval: 100ms}
sweep: {family: [ipv4, ipv6], tenancy: [same-tenant, different-tenant]}
repeat: 1
"""
    ended = osmef("run", osmef.write(text))
    assert ended.code == 0, ended.err
    trials = osmef.trials
    mss = {
        (trial["values"]["family"], trial["distance"]): flow["tcp"]["mss"]
        for trial in trials
        for flow in trial["transfers"][0]["sender"]["flows"]
    }
    assert mss.keys() == {("ipv4", 2), ("ipv4", 4), ("ipv6", 2), ("ipv6", 4)}
    assert {mss["ipv4", distance] - mss["ipv6", distance] for distance in (2, 4)} == {20}
    endpoints = osmef.summary["endpoints"]
    assert len({end["data_address6"] for end in endpoints}) == len(endpoints)


@pytest.mark.skipif(not has_ipv6(), reason="this machine's kernel has no IPv6")
def test_every_workload_runs_over_ipv6(osmef: Osmef) -> None:
    text = """
name: six
family: ipv6
sweep:
  endpoints: [{sender: {}, receiver: {}}, {loopback: {}}]
  workload:
    - {kind: btc, duration: 200ms, interval: 100ms, direction: both}
    - {kind: latency, duration: 200ms}
    - {kind: udp, duration: 200ms, interval: 100ms}
    - {kind: size-sweep, duration: 1s, max: 1kB}
    - {kind: pingpong, sizes: [100B], repetitions: 5}
repeat: 1
"""
    ended = osmef("run", osmef.write(text), "--json")
    assert ended.code == 0, ended.err
    assert {cell["n_ok"] for cell in ended.json()["summary"]["cells"]} == {1}


def test_trials_on_separate_hosts_run_at_once(osmef: Osmef) -> None:
    text = """
name: parallel
provider: {kind: local, hosts: 4}
workload: {kind: btc, duration: 1s, interval: 500ms}
sweep: {flavor: [small, medium]}
repeat: 1
parallel: 2
"""
    ended = osmef("run", osmef.write(text))
    assert ended.code == 0, ended.err
    spans = [
        (trial["transfers"][0]["receiver"]["start_realtime_ns"], trial["transfers"][0]["receiver"])
        for trial in osmef.trials
    ]
    first_end = min(start + 1e9 * end["elapsed_s"] for start, end in spans)
    assert max(start for start, _ in spans) < first_end
