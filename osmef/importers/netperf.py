"""Text output of netperf 2: TCP_STREAM, TCP_MAERTS, TCP_SENDFILE, UDP_STREAM, *_RR, TCP_CRR, omni.

Throughput there is in the unit that is printed: 10^3, 10^6 or 10^9 bits/s, or with a capital letter
of -f KBytes, MBytes, GBytes of 2^10, 2^20, 2^30 bytes. CPU is that of the whole host, in percent of
all its CPUs. A negative number, such as -1.00, is unknown (Jones, "Care and Feeding of Netperf").
"""

from __future__ import annotations

import csv
import re
from itertools import pairwise

from osmef.errors import InputError
from osmef.importers.record import Oddity, Parsed, Record, Text, number, refuse
from osmef.scenario.study import Scalar

_BANNER = re.compile(
    r"^(?:MIGRATED )?(?P<test>(?:TCP|UDP|SCTP|OMNI)[A-Za-z/| ]*?) TEST"
    r" (?:from (?P<local>\S+) .*?)?to (?P<remote>\S+)(?P<rest>.*)",
    re.ASCII | re.MULTILINE,
)
_UNIT = re.compile(r"10\^([0369]) ?bits/s|\b([KMG])Bytes/s", re.ASCII)
_BYTES = {"K": 2**10, "M": 2**20, "G": 2**30}
_KEY = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.ASCII)
_NAMES = {
    "Throughput": "THROUGHPUT",
    "Throughput Units": "THROUGHPUT_UNITS",
    "Elapsed Time (sec)": "ELAPSED_TIME",
    "Direction": "DIRECTION",
    "Protocol": "PROTOCOL",
    "Remote Recv Throughput": "REMOTE_RECV_THROUGHPUT",
    "Local Transport Retransmissions": "LOCAL_TRANSPORT_RETRANS",
    "Local CPU Util %": "LOCAL_CPU_UTIL",
    "Remote CPU Util %": "REMOTE_CPU_UTIL",
    "Minimum Latency Microseconds": "MIN_LATENCY",
    "Mean Latency Microseconds": "MEAN_LATENCY",
    "50th Percentile Latency Microseconds": "P50_LATENCY",
    "90th Percentile Latency Microseconds": "P90_LATENCY",
    "99th Percentile Latency Microseconds": "P99_LATENCY",
    "Maximum Latency Microseconds": "MAX_LATENCY",
    "Round Trip Latency usec/tran": "RT_LATENCY",
}
_TIMES = {
    "MIN_LATENCY": "rtt_min_us",
    "MEAN_LATENCY": "rtt_mean_us",
    "P50_LATENCY": "rtt_p50_us",
    "P90_LATENCY": "rtt_p90_us",
    "P99_LATENCY": "rtt_p99_us",
    "MAX_LATENCY": "rtt_max_us",
}


def parse(text: Text) -> Parsed:
    """Read the tests in a file, a trial each; one without its banner (-P 0) can't be told apart.

    A stream gives aggregate_btc_bps: netperf waits until the other end has read all that was
    sent, so both ends count the same. A UDP stream gives goodput_bps, sent_bps and loss_percent.
    Requests and responses give exchanges_per_s and, where one is on its way at a time, rtt_mean_us;
    omni also the quantiles that it was asked for. TCP_CRR gives connects_per_s. CPU is
    system_cpu_sender_percent and system_cpu_receiver_percent. Raises InputError.
    """
    banners = list(_BANNER.finditer(text.text))
    if not banners:
        raise refuse(
            text.line(1), "there is no banner of netperf in it", "let netperf print it: no -P 0"
        )
    records, oddities = [], []
    ends = [banner.start() for banner in banners[1:]] + [len(text.text)]
    for banner, end in zip(banners, ends, strict=True):
        where = text.line(text.text.count("\n", 0, banner.start()) + 1)
        body = text.text[banner.end() : end]
        try:
            records.append(_record(banner, body, where))
        except InputError as error:
            oddities.append(Oddity(where, error.message, False))
            continue
        if "!!! WARNING" in body:
            oddities.append(Oddity(where, "netperf did not reach the wanted confidence", True))
    return Parsed(records, oddities)


def _record(banner: re.Match[str], body: str, where: str) -> Record:
    test = banner["test"].strip()
    told = _omni(body)
    rows = [row for line in body.splitlines() if (row := _numbers(line))]
    protocol = str(told.get("PROTOCOL") or test.partition(" ")[0]).lower()
    direction = told.get("DIRECTION", test).lower()
    values: dict[str, Scalar] = {"test": test}
    back = "maerts" in direction or direction.rpartition(" ")[2].startswith("rec")
    local, remote = "sender", banner["remote"]
    if told:
        workload, metrics, wall = _of_omni(told, protocol, where)
    elif "REQUEST" in test.upper():
        workload, metrics, wall = _of_requests(rows, test, banner["rest"], where)
    elif test.startswith("UDP"):
        workload, metrics, wall = _of_datagrams(rows, body, where)
    else:
        workload, metrics, wall = _of_stream(rows, body, where)
    return Record(
        workload=workload,
        metrics=_turned(metrics) if back else metrics,
        place=f"line {where.rpartition(':')[2]}",
        values=values,
        senders=(remote,) if back else (local,),
        receivers=(local,) if back else (remote,),
        connections=1 if workload == "btc" else None,
        wall_s=wall,
    )


Found = tuple[str, dict[str, float | None], float | None]


def _numbers(line: str) -> list[str]:
    """Return the words of a line that holds nothing but numbers, and a unit at its end."""
    words = line.split()
    bare = words[:-1] if words and _UNIT.search(words[-1] + "ec") and len(words) > 1 else words
    return words if bare and all(re.fullmatch(r"-?[0-9.]+", word) for word in bare) else []


def _unit(text: str, where: str) -> float:
    """Return the bits per second in the unit that a text names."""
    found = _UNIT.search(text)
    if found is None:
        raise refuse(where, "there is no unit of the throughput")
    return 10.0 ** int(found[1]) if found[1] else 8.0 * _BYTES[found[2]]


def _known(value: object, what: str, where: str) -> float | None:
    if value is None or str(value).strip() in ("", "-nan", "nan"):
        return None
    found = number(value, what, where)
    return None if found < 0 else found


def _row(rows: list[list[str]], index: int, least: int, where: str) -> list[str]:
    if len(rows) <= index or len(rows[index]) < least:
        raise refuse(where, "the numbers of the test are not there: was it interrupted?")
    return rows[index]


def _system(local: object, remote: object, where: str) -> dict[str, float | None]:
    return {
        "system_cpu_sender_percent": _known(local, "the local CPU", where),
        "system_cpu_receiver_percent": _known(remote, "the remote CPU", where),
    }


def _turned(metrics: dict[str, float | None]) -> dict[str, float | None]:
    """Exchange the CPUs of the ends: the remote end sent."""
    names = ("system_cpu_sender_percent", "system_cpu_receiver_percent")
    if not metrics.keys() >= set(names):
        return metrics
    return {**metrics, names[0]: metrics[names[1]], names[1]: metrics[names[0]]}


def _of_stream(rows: list[list[str]], body: str, where: str) -> Found:
    row = _row(rows, 0, 5, where)
    cpu = _system(row[5], row[6], where) if len(row) >= 9 else {}
    rate = number(row[4], "the throughput", where) * _unit(body, where)
    return "btc", {"aggregate_btc_bps": rate, **cpu}, _known(row[3], "the time", where)


def _of_datagrams(rows: list[list[str]], body: str, where: str) -> Found:
    sent, got, unit = _row(rows, 0, 6, where), _row(rows, 1, 4, where), _unit(body, where)
    count = number(sent[3], "the messages sent", where)
    came = number(got[2], "the messages received", where)
    return (
        "udp",
        {
            "goodput_bps": unit * number(got[3], "the throughput", where),
            "sent_bps": unit * number(sent[5], "the throughput", where),
            "loss_percent": 100 * (count - came) / count if count > 0 else None,
        },
        _known(sent[2], "the time", where),
    )


def _of_requests(rows: list[list[str]], test: str, rest: str, where: str) -> Found:
    row = _row(rows, 0, 6, where)
    rate = number(row[5], "the rate", where)
    cpu = _system(row[6], row[7], where) if len(row) >= 10 else {}
    wall = _known(row[4], "the time", where)
    if "connect" in test.lower():
        return "connect", {"connects_per_s": rate, **cpu}, wall
    alone = "first burst 0" in rest and rate > 0
    return (
        "latency",
        {"rtt_mean_us": 1e6 / rate if alone else None, "exchanges_per_s": rate, **cpu},
        wall,
    )


def _omni(body: str) -> dict[str, str]:
    """Return what the omni test printed, as KEY=VALUE, as CSV or as a table; else nothing."""
    lines = [line for line in body.splitlines() if line.strip()]
    pairs = [(m[1], m[2]) for line in lines if (m := _KEY.fullmatch(line.strip()))]
    if pairs:
        return dict(pairs)
    for head, row in pairwise(lines):
        if head.startswith("Throughput,") or ",Throughput," in head:
            names, values = next(csv.reader([head])), next(csv.reader([row]))
            return {
                _NAMES.get(name.strip(), name): value
                for name, value in zip(names, values, strict=False)
            }
    last = _numbers(lines[-1]) if lines else []
    if len(last) >= 3 and _UNIT.search(last[-1]):
        return {"ELAPSED_TIME": last[-3], "THROUGHPUT": last[-2], "THROUGHPUT_UNITS": last[-1]}
    return {}


def _of_omni(told: dict[str, str], protocol: str, where: str) -> Found:
    units = told.get("THROUGHPUT_UNITS", "10^6bits/s")
    rate = number(told.get("THROUGHPUT"), "THROUGHPUT", where)
    wall = _known(told.get("ELAPSED_TIME"), "ELAPSED_TIME", where)
    cpu = {}
    if "LOCAL_CPU_UTIL" in told:
        cpu = _system(told["LOCAL_CPU_UTIL"], told.get("REMOTE_CPU_UTIL"), where)
    if units.startswith("Trans"):
        times = {
            name: _known(told.get(key), key, where) for key, name in _TIMES.items() if key in told
        }
        times.setdefault("rtt_mean_us", _known(told.get("RT_LATENCY"), "RT_LATENCY", where))
        return "latency", {**times, "exchanges_per_s": rate, **cpu}, wall
    unit = _unit(units, where)
    received = _known(told.get("REMOTE_RECV_THROUGHPUT"), "REMOTE_RECV_THROUGHPUT", where)
    if protocol.startswith("udp"):
        metrics = {
            "sent_bps": unit * rate,
            "goodput_bps": None if received is None else unit * received,
        }
        return "udp", {**metrics, **cpu}, wall
    retransmits = _known(told.get("LOCAL_TRANSPORT_RETRANS"), "LOCAL_TRANSPORT_RETRANS", where)
    return "btc", {"aggregate_btc_bps": unit * rate, "retransmits": retransmits, **cpu}, wall
