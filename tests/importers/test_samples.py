"""What real programs printed: iperf3 3.12, 3.22, nuttcp 6.1.2, netperf 2.7, NetPIPE 3.7.2, ab 2.3.

``expected.json`` has what is read of each file, or why nothing is; the CSV files are written by
hand in the columns of their sources, and osmef2013.json is one of the paper's. flent-rrul.flent is
a part of what flent 2.3.0 wrote, shaker.json what Shaker 1.4.2 made of outputs of iperf3, and
pkb.jsonl is written by hand as PerfKit Benchmarker writes its samples.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from osmef.errors import InputError
from osmef.importers import KINDS
from osmef.importers.record import Text
from osmef.scenario.fields import EndpointKind
from tests.importers.samples import DATA, kind_of, outline

EXPECTED = json.loads((DATA / "expected.json").read_text())
SAMPLES = sorted(path for path in DATA.iterdir() if path.name != "expected.json")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_sample_is_read_as_expected(path: Path) -> None:
    text = Text(path.name, path.read_text())
    expected = EXPECTED[path.name]
    if "error" in expected:
        with pytest.raises(InputError) as caught:
            KINDS[kind_of(path)](text)
        assert [caught.value.where, caught.value.message] == expected["error"]
        return
    parsed = KINDS[kind_of(path)](text)
    assert [outline(record) for record in parsed.records] == expected["records"]
    assert [str(oddity) for oddity in parsed.oddities] == expected["oddities"]


def test_every_kind_has_a_sample() -> None:
    assert {kind_of(path) for path in SAMPLES} == set(KINDS)


def _read(name: str) -> Text:
    return Text(name, (DATA / name).read_text())


def test_a_rate_of_2013_is_in_kibibytes() -> None:
    text = _read("osmef2013.json")
    told = json.loads(text.text)["btc"]
    (record,) = KINDS["osmef2013"](text).records
    mbps = sum(float(ends["rx"]["rate_Mbps"]) for ends in told.values())
    assert record.metrics["aggregate_btc_bps"] == pytest.approx(1e6 * mbps, rel=1e-4)


def test_a_rate_of_netpipe_is_in_mebibits() -> None:
    (record,) = KINDS["netpipe"](_read("netpipe-np.out")).records
    for point in record.sizes:
        rate = 8e6 * point.size / point.time_min_us
        assert point.throughput_bps == pytest.approx(rate, rel=0.01)


def test_a_connection_of_2013_is_a_row_at_both_ends() -> None:
    (record,) = KINDS["osmef2013"](_read("osmef2013.json")).records
    received = [row for row in record.intervals if row.role == "receiver"]
    rates = [8 * row.bytes / row.length_s for row in received]
    assert len(rates) == 5
    assert sum(rates) == pytest.approx(record.metrics["aggregate_btc_bps"], rel=1e-3)


def test_consecutive_outputs_in_a_file_are_separate_trials() -> None:
    for kind, name in (
        ("iperf3", "iperf3-312-tcp.json"),
        ("nuttcp", "nuttcp-v.txt"),
        ("nuttcp", "nuttcp.txt"),
        ("netperf", "netperf-rr.txt"),
        ("apachebench", "apachebench.txt"),
    ):
        one = _read(name).text
        parsed = KINDS[kind](Text(name, one + "\n" + one))
        first, second = parsed.records
        assert first.metrics == second.metrics
        assert first.place != second.place
        assert parsed.oddities == []


def test_inconsistencies_in_results_of_2013_are_reported() -> None:
    text = _read("osmef2013.json").text.replace('"concurrent": 5', '"concurrent": 7')
    parsed = KINDS["osmef2013"](Text("a.json", text))
    assert [str(oddity) for oddity in parsed.oddities] == [
        "a.json: concurrent is 7, and there are 5 connections (kept)"
    ]


def changed_2013(**changes: object) -> Text:
    return Text("a.json", json.dumps(json.loads(_read("osmef2013.json").text) | changes))


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("VM to VM, same host, same tenant, 360 seconds, 5 concurrency", {EndpointKind.VM}),
        ("VM localhost 360 seconds, 5 concurrency", {EndpointKind.VM}),
        ("VM farm 3 localhost 360 seconds, 5 concurrency", set()),
    ],
)
def test_a_host_of_2013_may_have_a_name_like_a_vm(name: str, kinds: set[EndpointKind]) -> None:
    (record,) = KINDS["osmef2013"](changed_2013(name=name)).records
    assert set(record.kinds.values()) == kinds


def test_host_states_of_2013_become_facts_and_cpu_is_given_per_connection() -> None:
    state = {"kernel_version": "3.2.0-49-generic", "mem_total": "131992032", "load_1": "0.00"}
    (record,) = KINDS["osmef2013"](changed_2013(state_sender=state)).records
    expected = {"kernel": {"release": "3.2.0-49-generic"}, "memory": {"total_bytes": 135159840768}}
    assert record.facts == {record.senders[0]: {"before": expected}}
    whole, each = (record.metrics[f"{name}cpu_sender_percent"] for name in ("", "connection_"))
    assert each == pytest.approx((whole or 0) / 5)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("tx", {"rate_KBps": "99999.0"}, "btc.conn_1: the sender's rate is "),
        ("rx", {"rate_KBps": "0.00", "megabytes": "0.0000"}, "conn_1.rx: not a byte was received"),
        (
            "tx",
            {"rate_KBps": "2000.0"},
            "conn_1: the receiver's rate is 10.8 times the sender's",
        ),
        ("tx", {"rate_KBps": "0.00"}, "btc.conn_1.tx: not a byte was sent"),
    ],
)
def test_an_implausible_connection_of_2013_is_reported(
    key: str, value: dict[str, str], told: str
) -> None:
    flows = json.loads(_read("osmef2013.json").text)["btc"]
    flows["conn_1"][key] |= value
    parsed = KINDS["osmef2013"](changed_2013(btc=flows))
    assert told in str(parsed.oddities[0])
    assert len(parsed.records) == 1


def test_a_manual_siege_is_imported_with_the_numbers_it_reported() -> None:
    text = _read("siege-by-hand.jsonl")
    told = json.loads(text.text.splitlines()[-1])
    (record,) = KINDS["siege"](text).records
    assert record.metrics["requests_per_s"] == pytest.approx(told["requests_per_s"], rel=1e-6)
    assert record.metrics["request_max_us"] == pytest.approx(told["duration_us"]["max"])
    assert sum(row.length or 0 for row in record.requests) == told["length"]


def test_rates_of_shaker_equal_those_of_its_iperf3_output() -> None:
    (one, *_) = KINDS["shaker"](_read("shaker.json")).records
    told = json.loads((DATA / "iperf3-312-tcp.json").read_text())["intervals"]
    for row, interval in zip(one.intervals, told, strict=True):
        assert 8 * row.bytes / row.length_s == pytest.approx(
            interval["sum"]["bits_per_second"], rel=0.01
        )


def test_rates_and_times_of_flent_are_those_of_its_series() -> None:
    text = _read("flent-rrul.flent")
    told = json.loads(text.text)["raw_values"]
    (record,) = KINDS["flent"](text).records
    for series, name, factor in (
        ("TCP upload BE", "tcp_upload_be_bps", 1e6),
        ("Ping (ms) ICMP", "ping_ms_icmp_us", 1e3),
    ):
        values = [point["val"] for point in told[series]]
        assert record.metrics[name] == pytest.approx(factor * sum(values) / len(values))
    ways = {(row.endpoint, row.peer) for row in record.intervals if row.role == "receiver"}
    assert ways == {
        ("sender-small-h1-t1", "10.0.64.3"),
        ("10.0.64.3", "sender-small-h1-t1"),
    }


def test_a_metric_of_pkb_that_comes_again_is_of_the_next_trial() -> None:
    line = (DATA / "pkb.jsonl").read_text().splitlines()[0]
    other = line.replace("9284.41", "9000")
    records = KINDS["pkb"](Text("x", f"{line}\n{other}\n")).records
    assert [one.metrics["aggregate_btc_bps"] for one in records] == [9284.41e6, 9000e6]
    assert len({tuple(one.values.items()) for one in records}) == 1
