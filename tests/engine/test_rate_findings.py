"""What a summary tells of rates: of token buckets, and of searches for the highest one."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmef.engine.findings import burst_warnings, past_traffic_warnings, search_findings
from osmef.engine.plan import make_plan
from osmef.providers.aws.lookup import _info
from osmef.results.observations import RateSearch, RateTried, SearchEnding
from osmef.results.summary import EndpointInfo
from osmef.results.trial import Status, Trial
from osmef.scenario.fields import EndpointKind
from osmef.scenario.load import load_text
from osmef.scenario.location import Location

C5_LARGE = {
    "InstanceType": "c5.large",
    "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
    "VCpuInfo": {"DefaultVCpus": 2},
    "MemoryInfo": {"SizeInMiB": 4096},
    "NetworkInfo": {"NetworkPerformance": "Up to 10 Gigabit", "EnaSupport": "required"},
}


def told(workload: str, network: str | None) -> list[str]:
    cells = make_plan(load_text(f"name: up-to\nworkload: {workload}\n", Path("s.yaml"))).cells
    ends = {
        end.name: EndpointInfo(
            name=end.name, kind=EndpointKind.VM, flavor="c5.large", vcpus=2, network=network,
            requested=Location(), achieved=Location(), data_address=None, warnings=[],
            agent_sha256=None, facts={},
        )
        for cell in cells
        for end in cell.endpoints
    }  # fmt: skip
    return burst_warnings(cells, ends)


def test_ten_seconds_at_a_rate_up_to_so_much_may_be_a_burst() -> None:
    (note,) = told("{kind: btc, duration: 10s}", _info(C5_LARGE).network)
    assert note.startswith("c5.large, with a network of 'Up to 10 Gigabit': trials of 10 s")


@pytest.mark.parametrize(
    ("workload", "network"),
    [
        pytest.param("{kind: btc, duration: 10s}", "25 Gigabit", id="a-whole-rate"),
        pytest.param("{kind: btc, duration: 10s}", None, id="nobody-tells"),
        pytest.param("{kind: btc, duration: 1h}", "Up to 10 Gigabit", id="long"),
        pytest.param("{kind: btc, until: knee}", "Up to 10 Gigabit", id="until-the-knee"),
        pytest.param("{kind: latency, duration: 10s}", "Up to 10 Gigabit", id="no-rate"),
    ],
)
def test_no_rate_warning_is_given_without_a_burst_rate(workload: str, network: str | None) -> None:
    assert told(workload, network) == []


@pytest.mark.parametrize(
    ("kind", "metric", "warned"),
    [("btc", "aggregate_btc_bps", True), ("sysbench", "events_per_s", False)],
)
def test_past_traffic_is_no_cause_of_what_a_cpu_does(
    kind: str, metric: str, *, warned: bool
) -> None:
    cells = make_plan(load_text(f"name: s\nworkload: {kind}\n", Path("s.yaml"))).cells
    none = dict.fromkeys(
        ("placement", "tenancy", "distance", "connections", "started_at", "wall_s")
    )
    trials = [
        Trial.model_validate(
            {
                **none, "index": n, "cell": cells[0].cell.key, "repetition": n, "group": 1,
                "values": {}, "workload": kind, "senders": ["a"], "receivers": ["b"],
                "status": Status.OK, "metrics": {metric: 1e9 / n},
                "carried": [{"endpoint": "a", "received_bytes": n * 10**8, "sent_bytes": 0}],
            }
        )
        for n in range(1, 13)
    ]  # fmt: skip
    assert bool(past_traffic_warnings(cells, trials)) == warned


ENDS = {
    SearchEnding.FOUND: "48 Mbit/s pass with at most 0.1 % lost, 48.5 Mbit/s do not",
    SearchEnding.SENDER: "48 Mbit/s pass with at most 0.1 % lost, and the sender reaches no 48.5"
    " Mbit/s: the path may take it",
    SearchEnding.HIGHEST: "48 Mbit/s pass with at most 0.1 % lost, and no more was tried: write a"
    " higher rate",
    SearchEnding.LOWEST: "not even 48.5 Mbit/s pass with at most 0.1 % lost: write a lower"
    " search.lowest",
    SearchEnding.STEPS: "48 Mbit/s pass with at most 0.1 % lost, 48.5 Mbit/s do not; 1 steps were"
    " too few to know it better",
}


def trial(index: int, ended: SearchEnding, drops: int | None = 0) -> Trial:
    refused = RateTried(
        offered_bps=48.5e6, sent_bps=48.5e6, length_s=2.0, datagrams=10_000, lost=100,
        receiver_drops=drops, passed=False,
    )  # fmt: skip
    search = RateSearch(
        loss_percent=0.1,
        ended=ended,
        passed_bps=None if ended is SearchEnding.LOWEST else 48e6,
        refused_bps=None if ended is SearchEnding.HIGHEST else 48.5e6,
        tried=[refused],
    )
    usual = {"cell": "all", "repetition": index, "group": 1, "values": {}, "workload": "udp"}
    none = dict.fromkeys(
        ("placement", "tenancy", "distance", "connections", "started_at", "wall_s")
    )
    return Trial.model_validate(
        {
            **usual, **none, "index": index, "senders": ["a"], "receivers": ["b"],
            "status": Status.OK, "search": search,
        }
    )  # fmt: skip


@pytest.mark.parametrize("ended", SearchEnding)
def test_each_search_ending_is_reported(ended: SearchEnding) -> None:
    assert search_findings([trial(3, ended)]) == [f"trial 3: {ENDS[ended]}"]


def test_loss_at_the_receiver_is_not_attributed_to_the_path() -> None:
    (told,) = search_findings([trial(1, SearchEnding.FOUND, drops=60)])
    assert told.endswith("do not; the receiver dropped most of that")
    (told,) = search_findings([trial(1, SearchEnding.FOUND, drops=None)])
    assert "receiver" not in told


def test_of_many_searches_only_unsuccessful_ones_are_reported_in_one_note() -> None:
    many = [trial(n, SearchEnding.FOUND) for n in range(1, 21)]
    assert search_findings(many) == []
    many += [trial(n, SearchEnding.HIGHEST) for n in range(21, 24)]
    (told,) = search_findings(many)
    assert told.startswith("trial 21 (and 2 more): 48 Mbit/s pass")
    (told,) = search_findings(many[:21])
    assert told.startswith("trial 21: 48 Mbit/s pass")
