"""What older results mean, of which there are only names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import InputError
from osmef.importers import MEASURES
from osmef.results.document import measure_of, measures_of, read_document
from osmef.results.measure import merge_measures
from osmef.results.summary import Summary
from osmef.workloads.kinds.btc import COMMON
from osmef.workloads.metrics import WAIT
from osmef.workloads.trial_workload import OF_MACHINES
from tests.declared import WORKLOADS
from tests.workloads.test_measures import BOTH, declared

SINCE = {"datagrams_per_s", *(one.name for one in (*OF_MACHINES, *WAIT, COMMON))}
"""What older results don't have."""
OLD_RUN = Path(__file__).parent / "data" / "quickstart-20261121T031500Z-3f9a"


def test_no_metric_name_has_changed_its_meaning() -> None:
    """What is declared now must mean what older results mean by the same name."""
    now = [*WORKLOADS.items(), *MEASURES.items(), *((str(one), declared(*one)) for one in BOTH)]
    for one in merge_measures(now).values():
        (old,) = merge_measures([("now", [one]), ("then", [measure_of(one.name)])]).values()
        assert (old.unit, old.better, one.negligible) == (
            *(one.unit, one.better),
            measure_of(one.name).negligible,
        )


@pytest.mark.parametrize(("workload", "background"), BOTH)
def test_an_older_run_looks_as_it_does_now(workload: str, background: str) -> None:
    now = declared(workload, background)
    kind = workload.strip("{}").split(",")[0].removeprefix("kind: ")
    then = [
        one
        for one in now
        if one.name.removeprefix("background_").removeprefix("reverse_") not in SINCE
    ]
    assert measures_of([(kind, background)], [one.name for one in then]) == then


@pytest.mark.parametrize(
    ("name", "unit", "better", "words"),
    [
        ("background_idle_rtt_p999_us", "us", "lower", "background idle RTT p999"),
        ("reverse_jain_fairness", "1", "higher", "reverse Jain fairness"),
        ("connect_rtt_mean_us", "us", "lower", "connect RTT mean"),
        ("connects_per_s", "1/s", "higher", "connects"),
        ("transfer_rate_bytes_per_s", "B/s", "higher", "transfer rate"),
        ("unixbench_multi_score", "1", "higher", "unixbench multi score"),
        ("disk_read_mb_per_s", "MB/s", "higher", "disk read"),
        ("dbench_mb_s", "MB/s", "higher", "dbench"),
        ("iperf_kbits_s", "kbit/s", "higher", "iperf"),
        ("iperf_gbps", "Gbit/s", "neither", "iperf"),
        ("retransmits_per_s", "1/s", "lower", "retransmits"),
        ("reverse_errors_per_s", "1/s", "lower", "reverse errors"),
        ("wall_s", "s", "neither", "wall"),
        ("boot_ms", "ms", "neither", "boot"),
        ("cache_kb", "kB", "neither", "cache"),
        ("cpu_load_percent", "%", "neither", "CPU load"),
        ("plan_b", None, "neither", "plan b"),
        ("frames", None, "neither", "frames"),
        ("_us", "us", "neither", " us"),
    ],
)
def test_unit_and_direction_of_a_metric_are_derived_from_its_name(
    name: str, unit: str | None, better: str, words: str
) -> None:
    found = measure_of(name)
    assert (found.name, found.unit, found.better, found.words) == (name, unit, better, words)


@given(st.text() | st.text("idle_background_reverse", max_size=400))
def test_any_name_is_taken(name: str) -> None:
    assert measure_of(name).name == name
    assert [one.name for one in measures_of([("", "")], [name, name])] == [name]


def test_a_summary_with_incomplete_metric_declarations_is_damaged() -> None:
    text = (OLD_RUN / "summary.json").read_bytes()
    whole = read_document(Summary, text, "here").model_dump(mode="json")
    for measures, told in (
        (whole["measures"][1:], "nothing in measures says what these are: aggregate_btc_bps"),
        ([*whole["measures"], whole["measures"][0]], "two of its measures have one name"),
        ([{"name": "x"}], "unit"),
    ):
        with pytest.raises(InputError, match=told):
            read_document(Summary, json.dumps({**whole, "measures": measures}).encode(), "here")
