"""Groups and backgrounds from the scenario file to the results, on the local cloud."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

import osmef as package
from tests.cli.conftest import Osmef


def test_the_plan_names_no_sender_among_the_receivers(osmef: Osmef) -> None:
    machines = "\n".join(f"    m{n}: {{ssh: m{n}}}" for n in range(1, 10))
    text = f"""
name: hosts
provider:
  kind: static
  hosts:
{machines}
sweep:
  endpoints:
    - {{sender: {{kind: host, count: 3}}, receiver: {{kind: host, count: 2}}}}
    - {{node: {{kind: host, count: 5}}}}
    - {{sender: {{kind: host, count: 5}}, receiver: {{kind: host, count: 4}}}}
"""
    planned = osmef("plan", osmef.write(text), "--json").json()
    ends = [cell["senders"] for cell in planned["cells"]]
    assert ends[0] == ["host-1", "host-3", "host-5"]
    shown = osmef("plan", osmef.write(text)).out
    assert "host-1, host-3, host-5" in shown
    assert "host-2, host-4" in shown
    assert "5, from host-1" in shown
    assert "4, from host-2" in shown


def test_a_shuffle_is_all_pairs_at_once(osmef: Osmef, left_behind: Callable[[], list[str]]) -> None:
    text = """
name: shuffle
endpoints: {sender: {count: 2}, receiver: {count: 2}}
workload: {kind: btc, duration: 400ms, interval: 200ms, connections: 2}
sweep: {placement: [same-host, different-host]}
repeat: 1
"""
    planned = osmef("plan", osmef.write(text))
    assert "2 x sender-h1-t1" in planned.out
    ended = osmef("run", osmef.write(text))
    assert ended.code == 0, ended.err
    assert left_behind() == []
    for trial in osmef.trials:
        assert trial["senders"] == ["sender-h1-t1", "sender-h1-t1-m2"]
        assert len({(t["sender"]["endpoint"], t["receiver"]["endpoint"])
                    for t in trial["transfers"]}) == 4  # fmt: skip
        assert trial["start_spread_s"] > 0
        assert 0 < trial["metrics"]["jain_fairness_senders"] <= 1
        each = trial["metrics"]["connection_btc_bps"]
        assert trial["metrics"]["aggregate_btc_bps"] == pytest.approx(8 * each)
    summary = osmef.summary
    assert [cell["distance"] for cell in summary["cells"]] == [0, 2]
    assert {len(cell["receivers"]) for cell in summary["cells"]} == {2}
    intervals = pd.read_parquet(osmef.run / "intervals.parquet")
    assert (intervals.groupby(["trial", "role", "endpoint", "peer"]).size() > 0).sum() == 16
    frame = package.load(osmef.run)
    assert set(frame["receivers"].str.count(",")) == {1}


def test_a_mesh_is_every_node_with_every_other_one_at_once(
    osmef: Osmef, left_behind: Callable[[], list[str]]
) -> None:
    text = """
name: mesh
provider: {kind: local, hosts: 3}
endpoints: {node: {}}
workload: {kind: btc, duration: 400ms, interval: 200ms}
sweep: {endpoints.node.count: [2, 3]}
repeat: 1
"""
    planned = osmef("plan", osmef.write(text))
    assert "node-h1-t1, node-h2-t1, node-h3-t1  each other" in planned.out
    assert "each other" in planned.out
    ended = osmef("run", osmef.write(text))
    assert ended.code == 0, ended.err
    assert left_behind() == []
    for trial in osmef.trials:
        nodes = trial["senders"]
        assert trial["receivers"] == nodes
        assert {(t["sender"]["endpoint"], t["receiver"]["endpoint"])
                for t in trial["transfers"]} == {
            (one, other) for one in nodes for other in nodes if one != other
        }  # fmt: skip
        assert (trial["distance"], trial["achieved_placement"]) == (2, "different-host")
    summary = osmef.summary
    assert [len(cell["senders"]) for cell in summary["cells"]] == [2, 3]
    assert len(summary["endpoints"]) == 3
    page = osmef("report", str(osmef.run), "-o", str(osmef.run / "page.html"))
    assert page.code == 0, page.err
    assert "each other" in (osmef.run / "page.html").read_text()


def test_a_background_is_recorded_beside_what_is_measured(osmef: Osmef) -> None:
    text = """
name: beside
workload: {kind: btc, duration: 300ms, interval: 100ms}
background: {kind: btc, interval: 100ms}
lead: 200ms
sweep: {background.connections: [1, 3]}
repeat: 1
"""
    ended = osmef("run", osmef.write(text))
    assert ended.code == 0, ended.err
    for trial in osmef.trials:
        measured, beside = trial["transfers"]
        assert (measured["purpose"], beside["purpose"]) == ("measured", "background")
        assert len(beside["receiver"]["flows"]) == trial["values"]["background.connections"]
        assert trial["background"] == "btc"
    cells = osmef.summary["cells"]
    assert all(cell["metrics"]["background_aggregate_btc_bps"]["n"] == 1 for cell in cells)
