"""Messages that go there and back on the local cloud, which hold its links to their rate."""

from __future__ import annotations

from typing import Any

from tests.cli.conftest import Osmef

LINK_BPS = 50e6
CLOUD = "provider: {kind: local, link_rate: 50Mbit/s}"
PAYLOAD = 1398 / 1514
"""Of a frame of a tenant's network."""


def run(osmef: Osmef, text: str) -> dict[str, Any]:
    osmef.write(f"name: rates\n{CLOUD}\n{text}")
    done = osmef("run", "scenario.yaml")
    assert done.code == 0, done.err
    return osmef.summary


def test_a_ping_pong_of_messages_is_no_faster_than_the_link(osmef: Osmef) -> None:
    """Of 8 to 100 kB: a bucket of 2 ms holds 12.5 kB, and one for each way twice the rate."""
    sizes = (
        "{kind: size-sweep, mode: pingpong, min: 8kB, max: 100kB, perturbation: 0B, point: 60ms}"
    )
    sweep = "{tenancy: [same-tenant, different-tenant], workload.connections: [1, 3]}"
    told = run(osmef, f"workload: {sizes}\nsweep: {sweep}\nrepeat: 1\n")
    rates = [cell["metrics"]["throughput_max_bps"]["median"] for cell in told["cells"]]
    assert len(rates) == 4
    assert all(0.8 * LINK_BPS * PAYLOAD < rate < 1.05 * LINK_BPS for rate in rates), rates


def test_a_bidirectional_transfer_has_a_link_for_each_direction(osmef: Osmef) -> None:
    sizes = "{kind: size-sweep, min: 8kB, max: 10kB, perturbation: 0B, point: 60ms}"
    both = "{kind: btc, direction: both, duration: 400ms}"
    text = f"workload: {both}\nsweep: {{workload: [{both}, {sizes}]}}\nrepeat: 2\n"
    transfers, messages = (cell["metrics"] for cell in run(osmef, text)["cells"])
    ways = [transfers[f"{way}aggregate_btc_bps"]["median"] for way in ("", "reverse_")]
    assert sum(ways) > 1.4 * LINK_BPS * PAYLOAD
    assert 0.8 * PAYLOAD < messages["throughput_max_bps"]["median"] / LINK_BPS < 1.05
