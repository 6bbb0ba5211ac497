"""Programs that measure networks: their options, their errors, and a real run of each."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pyroute2 import IPRoute

from osmef.errors import InputError, OutputError
from osmef.kinds import WORKLOADS
from osmef.results.observations import Purpose
from osmef.scenario.load import load_text
from osmef.supply.build import bundle_of_source
from osmef.supply.bundle import unpack
from osmef.supply.program import Program, this_architecture
from osmef.workloads.base import Outcome, Workload
from osmef.workloads.kinds.apachebench import read_quantiles
from osmef.workloads.kinds.latency import Latency, LatencySettings
from osmef.workloads.tasks import Pair
from osmef.workloads.trial_runner import TrialJob, run_parts
from tests.workloads.conftest import MakeHosts
from tests.workloads.test_tools import OUTPUTS, numbers, tool

PACKAGES = {
    "iperf2": "iperf",
    "nuttcp": "nuttcp",
    "netperf": "netperf (non-free, or built of its source)",
    "netpipe": "netpipe-tcp",
    "sockperf": "sockperf",
    "qperf": "qperf",
    "apachebench": "apache2-utils",
    "wrk": "wrk",
}

IFF_LOOPBACK = 0x8
NETPERF = Path(__file__).parents[3] / "shared" / "sources" / "netperf.tar.gz"
BUILD_S = 1200

OPTIONS: list[tuple[str, dict[str, Any], int, str]] = [
    ("iperf2", {"connections": 4}, 0, "iperf -s -B {bind} -p {port} -f b -e -P 4"),
    ("iperf2", {"connections": 4, "duration": "2500ms"}, 1, "-P 4 -t 3"),
    ("iperf2", {"protocol": "udp", "rate": "10Mbit/s"}, 1, "-u -P 1 -t 10 -b 10000000"),
    ("iperf2", {"window": "64KiB", "length": "1KiB"}, 0, "-w 65536 -l 1024"),
    ("iperf2", {"direction": "reverse"}, 1, "-t 10 -R"),
    ("nuttcp", {}, 0, "nuttcp -1 --nofork -P{port}"),
    ("nuttcp", {"connections": 3}, 1, "-P{port} -p{data_port} -T10 -N3 {peer}"),
    ("nuttcp", {"protocol": "udp", "rate": "10Mbit/s"}, 1, "-u -v -R10000 {peer}"),
    ("nuttcp", {"window": "64KiB", "length": "1KiB"}, 1, "-w64 -l1024"),
    ("nuttcp", {"direction": "reverse"}, 1, "-r -F {peer}"),
    ("nuttcp", {"direction": "reverse", "protocol": "udp"}, 1, "-u -v -r {peer}"),
    ("netperf", {}, 0, "netserver -D -f -N -L {bind} -p {port}"),
    ("netperf", {}, 1, "-H {peer} -p {port} -t TCP_STREAM -l 10 -- -P ,{data_port} -k PROTOCOL"),
    ("netperf", {"direction": "reverse", "size": "1400B"}, 1, "-m ,1400"),
    ("netperf", {"direction": "reverse"}, 1, "-t TCP_MAERTS"),
    ("netperf", {"test": "udp-stream", "size": "1400B"}, 1, "-R 1 -m 1400"),
    ("netperf", {"test": "tcp-rr", "request": "10B", "response": "1kB"}, 1, "-r 10,1000"),
    ("netperf", {"test": "tcp-crr", "window": "8KiB"}, 1, "-t TCP_CRR -l 10 -j --"),
    ("netperf", {"test": "udp-rr", "window": "8KiB"}, 1, "-s 8192 -S 8192"),
    ("netpipe", {"max": "100B"}, 0, "-P {port} -l 1 -u 100 -p 3 -o /dev/null"),
    (
        "netpipe",
        {"min": "8B", "repetitions": 5, "window": "9000B"},
        1,
        "-l 8 -u 1048576 -p 3 -n 5 -b 9",
    ),
    ("sockperf", {}, 0, "sockperf server -i {bind} -p {port}"),
    ("sockperf", {"protocol": "tcp"}, 0, "--tcp"),
    ("sockperf", {"size": "64B"}, 1, "ping-pong -i {peer} -p {port} -t 10 -m 64 --full-rtt"),
    ("sockperf", {"test": "under-load"}, 1, "-m 14 --reply-every 100 --full-rtt"),
    ("sockperf", {"test": "under-load", "rate": 500, "reply_every": 2}, 1, "500 --reply-every 2"),
    ("sockperf", {"test": "throughput", "protocol": "tcp"}, 1, "throughput -i {peer}"),
    ("qperf", {}, 0, "qperf -lp {port}"),
    ("qperf", {"test": "udp-lat", "size": "64B"}, 1, "-ip {data_port} -t 10 -m 64"),
    ("qperf", {"test": "tcp-lat", "window": "8KiB"}, 1, "-sb 8192 -uu -ub -vvs tcp_lat"),
    ("apachebench", {}, 0, "osmef-agent pong --bind {bind} --port {port}"),
    ("apachebench", {"connections": 4, "size": "5B"}, 1, "-q -k -c 4 -t 10 -n 2500000 -e"),
    ("apachebench", {"size": "5B"}, 1, "http://{host}:{port}/pong/5"),
    ("apachebench", {"requests": 7, "keep_alive": False}, 1, "ab -q -c 1 -n 7 -e"),
    ("wrk", {"connections": 4, "threads": 1}, 1, "-t 1 -c 4 -d 10s --timeout 2s --latency http"),
    ("wrk", {"keep_alive": False}, 1, "-H Connection: close http://{host}:{port}/pong/1000"),
]


@pytest.mark.parametrize(("kind", "keys", "which", "words"), OPTIONS)
def test_settings_are_its_options(kind: str, keys: dict[str, Any], which: int, words: str) -> None:
    assert words in " ".join(tool(kind, **keys).runs()[which].argv)


@pytest.mark.parametrize("kind", PACKAGES)
def test_servers_listen_on_ports_that_the_firewall_admits(
    kind: str,
) -> None:
    connections = {"connections": 5} if kind == "nuttcp" else {}
    server, client = tool(kind, **connections).runs()
    assert "{port}" in " ".join((*server.argv, *client.argv))
    two = "{data_port}" in " ".join(client.argv)
    assert server.ports == (6 if kind == "nuttcp" else 2 if two else 1)


@pytest.mark.parametrize("text", ["{kind: netpipe}", "{kind: apachebench, requests: 9}"])
def test_a_program_with_a_settable_duration_can_be_a_background(text: str, tmp_path: Path) -> None:
    scenario = f"name: x\nworkload: latency\nbackground: {text}\n"
    if "netpipe" in text:
        with pytest.raises(InputError):
            load_text(scenario, tmp_path / "x.yaml")
        return
    background = load_text(scenario, tmp_path / "x.yaml").scenario.background
    assert background is not None
    lasting = background.for_background(3.0).model_dump()
    assert (lasting["duration"], lasting["requests"]) == (3, None)


def test_tools_that_need_an_ipv6_option_get_it() -> None:
    assert [run.ipv6 for run in tool("iperf2").runs()] == [["-V"], ["-V"]]
    assert [run.ipv6 for run in tool("nuttcp").runs()] == [["-6"], []]


@pytest.mark.parametrize(
    ("kind", "keys", "said"),
    [
        ("iperf2", {"protocol": "udp", "direction": "reverse", "connections": 2}, "drops some"),
        ("netperf", {"test": "udp-rr", "direction": "reverse"}, "no udp-rr in reverse"),
        ("netperf", {"test": "tcp-rr", "size": "5B"}, "size has no effect in tcp-rr"),
        ("netperf", {"request": "5B"}, "request has no effect in tcp-stream"),
        ("netpipe", {"min": "5B", "max": "4B"}, "smallest message is larger"),
        ("sockperf", {"reply_every": 5}, "ping-pong answers all, or none"),
        ("sockperf", {"size": "13B"}, "greater than or equal to 14"),
        ("apachebench", {"requests": 5, "connections": 6}, "fewer requests than connections"),
        ("apachebench", {"size": "3B"}, "greater than or equal to 4"),
        ("wrk", {"threads": 3, "connections": 2}, "needs a connection"),
    ],
)
def test_impossible_settings_are_rejected_before_the_run(
    kind: str, keys: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError, match=said):
        tool(kind, **keys)


def test_netpipe_has_no_ipv6(tmp_path: Path) -> None:
    text = "name: x\nworkload: {kind: netpipe}\nfamily: ipv6\n"
    with pytest.raises(InputError, match="NPtcp has no IPv6"):
        load_text(text, tmp_path / "x.yaml")


@pytest.mark.parametrize(
    ("kind", "keys", "sample", "expected"),
    [
        ("nuttcp", {}, "udp-verbose-parse", {"loss_percent", "sent_bps"}),
        ("netperf", {"test": "tcp-crr"}, "crr-k", {"connects_per_s", "rtt_p99_us"}),
        ("netperf", {"test": "udp-rr"}, "udp-rr-k", {"exchanges_per_s", "rtt_max_us"}),
        ("netperf", {"test": "udp-stream"}, "udp-stream-k", {"sent_bps", "loss_percent"}),
        ("sockperf", {"test": "throughput"}, "throughput-udp", {"messages_per_s", "sent_bps"}),
        ("sockperf", {"test": "under-load"}, "under-load-max", {"rtt_p999_us", "loss_percent"}),
        ("qperf", {"test": "tcp-lat"}, "tcp-lat-v", {"latency_us", "messages_per_s"}),
        ("qperf", {"test": "udp-bw"}, "udp-bw-unified", {"goodput_bps", "loss_percent"}),
    ],
)
def test_each_test_of_a_tool_has_its_own_metrics(
    kind: str, keys: dict[str, Any], sample: str, expected: set[str]
) -> None:
    made = tool(kind, **keys)
    found = numbers(made, (OUTPUTS / kind / f"{sample}.txt").read_bytes())
    assert found.keys() == {one.name for one in made.selected_measures()}
    assert expected <= {name for name, value in found.items() if value is not None}


@pytest.mark.parametrize(
    ("kind", "keys", "sample", "name", "value"),
    [
        ("netperf", {"test": "udp-stream"}, "udp-stream-k", "loss_percent", 47.8098),
        ("sockperf", {"test": "under-load"}, "under-load-max", "loss_percent", 39.3136),
        (
            "sockperf",
            {"test": "throughput", "size": "1400B"},
            "throughput-udp",
            "sent_bps",
            640012800,
        ),
        ("qperf", {"test": "udp-bw"}, "udp-bw-unified", "loss_percent", 49.0451),
        ("qperf", {"test": "udp-lat"}, "udp-lat-unified", "latency_us", 23.991),
        ("nuttcp", {}, "udp-verbose-parse", "loss_percent", 0),
        ("apachebench", {}, "pong-time", "received_bytes_per_s", 14842224),
        ("apachebench", {}, "pong-time", "request_mean_us", 304.000),
        ("netpipe", {}, "saved", "latency_min_us", 2.95),
        ("netpipe", {}, "saved", "n_half_bytes", 38.165),
    ],
)
def test_metrics_are_computed_from_the_tool_output(
    kind: str, keys: dict[str, Any], sample: str, name: str, value: float
) -> None:
    found = numbers(tool(kind, **keys), (OUTPUTS / kind / f"{sample}.txt").read_bytes())
    assert found[name] == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "keys", "sample", "said"),
    [
        ("iperf2", {"duration": "1h"}, "server-2", "ended after 1.001"),
        ("netperf", {"test": "tcp-rr"}, "stream-k", "another test"),
        ("netperf", {}, "refused", "netserver listening"),
        ("sockperf", {"test": "throughput"}, "full-rtt", "another test"),
        ("sockperf", {}, "half", "another test"),
        ("qperf", {"test": "udp-bw"}, "tcp-bw", "qperf did tcp_bw"),
        ("apachebench", {}, "404", "all 100 requests failed"),
        ("wrk", {}, "404", "no request got a good answer"),
    ],
)
def test_output_without_a_measurement_is_an_error(
    kind: str, keys: dict[str, Any], sample: str, said: str
) -> None:
    with pytest.raises(OutputError, match=said):
        numbers(tool(kind, **keys), (OUTPUTS / kind / f"{sample}.txt").read_bytes())


def _csv(rows: Sequence[str]) -> str:
    return "\n".join(("Percentage served,Time in ms", *rows)) + "\n"


QUANTILES = [f"{percent},{0.015 + percent / 1000:.3f}" for percent in range(101)]


def test_quantiles_of_ab_have_microseconds() -> None:
    found = read_quantiles(_csv(QUANTILES), 1000)
    assert found[0] == pytest.approx(15)
    assert found[100] == pytest.approx(115)
    assert read_quantiles(_csv(QUANTILES[:100]), 1000) == {q: found[q] for q in range(100)}


@pytest.mark.parametrize(("complete", "first"), [(1, 50), (7, 93), (50, 99), (51, 100)])
def test_a_quantile_that_few_requests_do_not_have_is_none(complete: int, first: int) -> None:
    found = read_quantiles(_csv(QUANTILES), complete)
    assert list(found) == [*range(first), 100]


@given(st.integers(0, 99), st.sampled_from(["", "5", "x,1", "5,-1", "5,nan", "5,1,2", "-5,1"]))
def test_damaged_quantiles_of_ab_are_an_error(at: int, row: str) -> None:
    with pytest.raises(OutputError):
        read_quantiles(_csv([*QUANTILES[:at], row, *QUANTILES[at + 1 :]]), 1000)


@given(st.text())
def test_no_quantiles_of_ab_are_an_error(text: str) -> None:
    with pytest.raises(OutputError):
        read_quantiles(text, 1000)


def skip_without(kind: str) -> None:
    for name in {one.name for one in tool(kind).programs}:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed: package {PACKAGES[kind]}")


def run(hosts: MakeHosts, address: str, kind: str, **keys: Any) -> Outcome:
    """Run a program between two endpoints with real agents; skip where it is not installed."""
    skip_without(kind)
    return run_workload(hosts, address, tool(kind, **keys))


def run_workload(hosts: MakeHosts, address: str, made: Workload[Any]) -> Outcome:
    """Run a workload between two endpoints with real agents."""
    sender, receiver = hosts("sender", "receiver")
    pair = Pair(sender, receiver, address, address)
    done = run_parts(TrialJob(trial=0, pairs=[pair]), made.parts())
    return made.outcome(0, Purpose.MEASURED, done.ran)


SHORT: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("iperf2", {"connections": 2}, ("goodput_bps", "sent_bps", "retransmits")),
    ("iperf2", {"direction": "reverse"}, ("goodput_bps", "sent_bps", "retransmits")),
    ("iperf2", {"protocol": "udp", "rate": "10Mbit/s"}, ("goodput_bps", "sent_bps", "jitter_us")),
    ("nuttcp", {"connections": 2}, ("goodput_bps", "connect_rtt_us", "cpu_receiver_percent")),
    ("nuttcp", {"direction": "reverse"}, ("goodput_bps", "retransmits")),
    (
        "nuttcp",
        {"protocol": "udp", "rate": "10Mbit/s", "direction": "reverse"},
        ("goodput_bps", "sent_bps"),
    ),
    ("sockperf", {}, ("rtt_p50_us", "rtt_p999_us", "exchanges_per_s")),
    (
        "sockperf",
        {"test": "under-load", "protocol": "tcp", "rate": 1000, "reply_every": 10},
        ("rtt_mean_us",),
    ),
    ("sockperf", {"test": "throughput", "rate": 1000}, ("messages_per_s", "sent_bps")),
    ("qperf", {}, ("goodput_bps", "messages_per_s")),
    ("qperf", {"test": "udp-bw", "size": "1400B"}, ("goodput_bps", "sent_bps")),
    ("qperf", {"test": "udp-lat"}, ("latency_us", "messages_per_s")),
    ("apachebench", {"connections": 2}, ("requests_per_s", "request_p99_us")),
    ("apachebench", {"requests": 100, "keep_alive": False}, ("requests_per_s", "request_p50_us")),
    ("wrk", {"keep_alive": False}, ("requests_per_s", "request_p99_us", "received_bytes_per_s")),
]


@pytest.mark.real("tools")
@pytest.mark.parametrize(("kind", "keys", "told"), SHORT)
def test_it_measures(
    hosts: MakeHosts, kind: str, keys: dict[str, Any], told: tuple[str, ...]
) -> None:
    found = run(hosts, "127.0.0.1", kind, duration="1s", **keys).metrics
    for name in told:
        value = found[name]
        assert value is not None, name
        assert value > 0 or name in {"retransmits", "jitter_us"}, name


@pytest.mark.real("tools")
@pytest.mark.parametrize("kind", ["iperf2", "nuttcp", "qperf", "apachebench"])
def test_it_measures_over_ipv6(hosts: MakeHosts, kind: str) -> None:
    made = tool(kind)
    leading = next(one.name for one in made.selected_measures() if one.leading)
    assert (run(hosts, "::1", kind, duration="1s").metrics[leading] or 0) > 0


@pytest.fixture
def address() -> Iterator[str]:
    """An address of this machine that is none of a loopback: netperf asks for AI_ADDRCONFIG."""
    with IPRoute() as kernel:
        others = [one for one in kernel.get_links() if not one["flags"] & IFF_LOOPBACK]
        if others:
            pytest.skip("netperf is run in a network of the tests' own alone: pytest -n 1")
        loopback = kernel.link_lookup(ifname="lo")[0]
        kernel.addr("add", index=loopback, address="192.0.2.1", prefixlen=32)
        yield "192.0.2.1"
        kernel.addr("delete", index=loopback, address="192.0.2.1", prefixlen=32)


@pytest.mark.real("tools")
@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"direction": "reverse", "size": "4KiB"}, ("goodput_bps", "retransmits")),
        ({"test": "tcp-rr"}, ("exchanges_per_s", "rtt_p50_us")),
        ({"test": "tcp-crr"}, ("connects_per_s", "rtt_p50_us")),
        ({"test": "udp-stream", "size": "1400B"}, ("goodput_bps", "sent_bps", "loss_percent")),
    ],
)
def test_netperf_measures(
    hosts: MakeHosts, address: str, keys: dict[str, Any], told: tuple[str, ...]
) -> None:
    found = run(hosts, address, "netperf", duration="1s", **keys).metrics
    assert all(found[name] is not None for name in told)
    assert (found[told[0]] or 0) > 0


PEERS: list[tuple[str, str, dict[str, Any]]] = [
    ("tcp", "sockperf", {"protocol": "tcp"}),
    ("udp", "sockperf", {}),
    ("tcp", "netperf", {"test": "tcp-rr", "request": "16B", "response": "16B"}),
    ("tcp-connect", "netperf", {"test": "tcp-crr"}),
    ("udp", "netperf", {"test": "udp-rr", "request": "16B", "response": "16B"}),
]


@pytest.mark.real("tools")
@pytest.mark.parametrize(("protocol", "kind", "keys"), PEERS)
def test_round_trips_are_those_of_the_programs_of_the_field(
    hosts: MakeHosts, address: str, protocol: str, kind: str, keys: dict[str, Any]
) -> None:
    """In turn, until a pair of medians agrees: both ends on one core answer thrice as fast."""
    settings = {"kind": "latency", "protocol": protocol, "duration": "500ms", "size": "16B"}
    ours = Latency(LatencySettings.model_validate(settings))
    medians: list[tuple[float, float]] = []
    for _ in range(5):
        theirs = run(hosts, address, kind, duration="1s", **keys).metrics["rtt_p50_us"]
        mine = run_workload(hosts, address, ours).metrics["rtt_p50_us"]
        assert theirs is not None
        assert mine is not None
        if 1 / 3 < mine / theirs < 3:
            return
        medians.append((mine, theirs))
    pytest.fail(f"ours and theirs, in µs: {medians}")


@pytest.mark.real("programs")
@pytest.mark.timeout(BUILD_S)
@pytest.mark.parametrize("program", tool("netperf").programs, ids=lambda one: str(one.name))
def test_netperf_is_built_of_its_source(program: Program, tmp_path: Path) -> None:
    if not NETPERF.exists():
        pytest.skip("the source of netperf is not on this machine")
    for needed in ("autoreconf", "make"):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not installed")
    assert program.source is not None
    sourced = replace(program, source=replace(program.source, path=NETPERF))
    packed = bundle_of_source(sourced, this_architecture(), print, lambda: None)
    path = tmp_path / program.name
    path.write_bytes(unpack(packed).contents[program.name])
    path.chmod(0o700)
    told = subprocess.run([path, "-V"], capture_output=True, check=True, text=True)
    assert "Netperf version 2.7" in told.stdout


@pytest.mark.real("tools")
def test_a_background_reports_its_metrics_at_its_end(hosts: MakeHosts) -> None:
    beside, measured = tool("qperf", duration="1s"), tool("qperf", duration="2s")
    skip_without("qperf")
    parts = [
        *beside.parts(),
        *(replace(part, purpose=Purpose.BACKGROUND) for part in measured.parts()),
    ]
    sender, receiver = hosts("sender", "receiver")
    pair = Pair(sender, receiver, "127.0.0.1", "127.0.0.1")
    ((_, last),) = run_parts(TrialJob(trial=0, pairs=[pair]), parts).ran
    found = measured.outcome(0, Purpose.BACKGROUND, [[last]]).metrics
    assert (found["program_s"] or 0) > 1.9
    assert (found["goodput_bps"] or 0) > 0


@pytest.mark.real("tools")
def test_netpipe_keeps_every_size(hosts: MakeHosts) -> None:
    keys = {"min": "1000B", "max": "1500B", "perturbation": 0, "repetitions": 10}
    done = run(hosts, "127.0.0.1", "netpipe", **keys)
    assert [one.size for one in done.sizes] == [1000, 1500]
    assert done.metrics["latency_min_us"] == done.sizes[0].time_min_us
    assert done.metrics["sizes_measured"] == 2


def test_all_kinds_of_this_page_are_tools() -> None:
    assert PACKAGES.keys() <= set(WORKLOADS.own)
