"""Token buckets of the local cloud's links: emptied, filled again, and told of."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Osmef

LINK = "provider: {kind: local, link_rate: 200Mbit/s, burst: 20MB, sustained_rate: 20Mbit/s}"
PAYLOAD = 1398 / 1514
"""Of a frame of a tenant's network."""


def test_a_token_bucket_is_found_and_reported(osmef: Osmef) -> None:
    workload = "{kind: btc, until: knee, duration: 30s, interval: 50ms, refill: [2s]}"
    osmef.write(f"name: bucket\n{LINK}\nworkload: {workload}\n")
    done = osmef("run", "scenario.yaml")
    assert done.code == 0, done.err
    (cell,) = osmef.summary["cells"]
    assert cell["n_ok"] == 1
    values = {name: metric["median"] for name, metric in cell["metrics"].items()}
    assert values["bucket_mb"] == pytest.approx(20 * PAYLOAD, rel=0.05)
    assert values["sustained_bps"] == pytest.approx(20e6 * PAYLOAD, rel=0.05)
    assert values["filling_bps"] == pytest.approx(20e6 * PAYLOAD, rel=0.1)
    assert 1.5 * values["sustained_bps"] < values["burst_bps"] <= 200e6
    assert 0.5 < values["fell_after_s"] < 10
    (told,) = [text for text in osmef.summary["run"]["warnings"] if "were used up after" in text]
    assert "it fills at" in told


def test_a_short_trial_may_have_seen_the_burst_alone(osmef: Osmef) -> None:
    osmef.write(f"name: short\n{LINK}\nworkload: {{duration: 100ms, interval: 50ms}}\nrepeat: 1\n")
    assert osmef("run", "scenario.yaml").code == 0
    (told,) = [text for text in osmef.summary["run"]["warnings"] if "burst alone" in text]
    assert "'up to 200 Mbit/s'" in told
    assert "100 ms" in told


def test_a_link_without_a_bucket_shows_none(osmef: Osmef) -> None:
    workload = "{kind: btc, until: knee, duration: 1s, interval: 50ms, refill: [1h]}"
    osmef.write(f"name: none\nprovider: local\nworkload: {workload}\n")
    done = osmef("run", "scenario.yaml")
    assert done.code == 0, done.err
    (cell,) = osmef.summary["cells"]
    assert cell["metrics"]["bucket_mb"]["median"] is None
    assert cell["metrics"]["burst_bps"]["median"] > 0
    assert any("no bucket was emptied" in text for text in osmef.summary["run"]["warnings"])


def test_settings_that_hide_a_bucket_are_errors(osmef: Osmef) -> None:
    for more, why in (
        ("workload: {until: knee, warmup: 1s}", "warmup would hide it"),
        ("workload: {until: knee, direction: both}", "one direction"),
        ("workload: {refill: [1min]}", "write until: knee"),
        ("workload: {until: knee}\nrepeat: 6", "pairs: 6"),
        ("workload: {until: knee}\nbackground: btc", "remove background"),
        ("provider: {kind: local, sustained_rate: 1Mbit/s}", "burst: 300MB"),
        ("provider: {kind: local, burst: 1MB, sustained_rate: 2Gbit/s}", "below 1 Gbit/s"),
        ("provider: {kind: local, burst: 900GB}", "holds 270 s"),
    ):
        osmef.write(f"name: wrong\n{more}\n")
        done = osmef("validate", "scenario.yaml")
        assert done.code == 2, more
        assert why in " ".join(done.err.split()), done.err
