"""Text output of netperf 2: TCP_STREAM, TCP_MAERTS, TCP_SENDFILE, UDP_STREAM, *_RR, TCP_CRR, omni.

Throughput there is in the unit that is printed: 10^3, 10^6 or 10^9 bits/s, or with a capital letter
of -f KBytes, MBytes, GBytes of 2^10, 2^20, 2^30 bytes. CPU is that of the whole host, in percent of
all its CPUs. A negative number, such as -1.00, is unknown (Jones, "Care and Feeding of Netperf").
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from osmef.errors import InputError
from osmef.importers.record import (
    RECEIVER,
    SENDER,
    Oddity,
    Parsed,
    Record,
    Text,
    amount,
    number,
    refuse,
)
from osmef.scenario.study import Scalar

_BANNER = re.compile(
    r"^(?:MIGRATED )?(?P<test>(?:TCP|UDP|SCTP|OMNI)[A-Za-z/| ]*?) TEST"
    r" (?:from (?P<local>\S+) .*?)?to (?P<remote>\S+)(?P<rest>.*)",
    re.ASCII | re.MULTILINE,
)
_UNIT = re.compile(r"10\^([0369]) ?bits/s|\b([KMG])Bytes/s", re.ASCII)
_BYTES = {"K": 2**10, "M": 2**20, "G": 2**30}
_KEY = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.ASCII)
_ENDS = (
    ("Send Size", "SEND_SIZE", "send_bytes"),
    ("Recv Size", "RECV_SIZE", "receive_bytes"),
    ("Congestion Control Algorithm", "CONG_CONTROL", "congestion_control"),
    ("NODELAY", "NODELAY", "nodelay"),
    ("Cork", "CORK", "cork"),
    ("CPU Bind", "CPU_BIND", "cpu_bind"),
    ("Interval Usecs", "INTERVAL_USECS", "interval_us"),
    ("Interval Burst", "INTERVAL_BURST", "interval_burst"),
    ("Socket TOS", "SOCKET_TOS", "tos"),
    ("Socket Priority", "SOCKET_PRIO", "priority"),
)
"""Settings of an end of omni: in the head of a CSV, as key, and as value."""
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
    "Socket Type": "SOCKET_TYPE",
    "Request Size Bytes": "REQUEST_SIZE",
    "Response Size Bytes": "RESPONSE_SIZE",
    "Initial Burst Requests": "BURST_SIZE",
    "Transport MSS bytes": "TRANSPORT_MSS",
    **{
        f"{end} {name}": f"{end.upper()}_{key}"
        for end in ("Local", "Remote")
        for name, key, _value in _ENDS
    },
    "Local Send Socket Size Initial": "LSS_SIZE",
    "Local Recv Socket Size Initial": "LSR_SIZE",
    "Remote Send Socket Size Initial": "RSS_SIZE",
    "Remote Recv Socket Size Initial": "RSR_SIZE",
}
_SETTINGS = {
    "SOCKET_TYPE": "socket_type",
    "PROTOCOL": "protocol",
    "DIRECTION": "direction",
    "REQUEST_SIZE": "request_bytes",
    "RESPONSE_SIZE": "response_bytes",
    "BURST_SIZE": "first_burst",
    "TRANSPORT_MSS": "mss_bytes",
    **{
        f"{end}_{key}": f"{end.lower()}_{value}"
        for end in ("LOCAL", "REMOTE")
        for _name, key, value in _ENDS
    },
    "MESSAGE_SIZE": "message_bytes",
    "LSS_SIZE": "local_send_socket_bytes",
    "LSR_SIZE": "local_receive_socket_bytes",
    "RSS_SIZE": "remote_send_socket_bytes",
    "RSR_SIZE": "remote_receive_socket_bytes",
}
"""What omni tells of its settings; sizes of sockets are those at the beginning."""
_EARLY_S = 0.1
_ANY = {None, "0.0.0.0", "::"}  # noqa: S104 - netperf prints it
_UNSET = {"", "-1", "?", "Deprecated", "0xffffffff"}
_NO_SETTING = re.compile(r"demo|histogram|.* conf\.", re.ASCII)
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
    system_cpu_sender_percent and system_cpu_receiver_percent. Sizes and all other settings that the
    file tells are values. Raises InputError.
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
    back = "maerts" in direction or direction.rpartition(" ")[2].startswith("rec")
    here = RECEIVER if back else SENDER
    local = here if banner["local"] in _ANY else banner["local"]
    remote = banner["remote"]
    if told:
        found = _of_omni(told, protocol, where)
    elif "REQUEST" in test.upper():
        found = _of_requests(rows, test, banner["rest"], where)
    elif test.startswith("UDP"):
        found = _of_datagrams(rows, body, where)
    else:
        found = _of_stream(rows, body, where)
    return Record(
        workload=found.workload,
        metrics=_turned(found.metrics) if back else found.metrics,
        place=f"line {where.rpartition(':')[2]}",
        values={
            "test": test,
            **found.settings,
            **_duration(found.wall_s),
            **_notes(banner["rest"]),
        },
        senders=(remote,) if back else (local,),
        receivers=(local,) if back else (remote,),
        connections=1 if found.workload == "btc" else None,
        wall_s=found.wall_s,
    )


class _Found(NamedTuple):
    workload: str
    metrics: dict[str, float | None]
    wall_s: float | None
    settings: dict[str, Scalar]


def _duration(wall_s: float | None) -> dict[str, Scalar]:
    """Return for how long netperf was to measure: it ends some time after that, rarely before."""
    return {} if wall_s is None else {"duration_s": max(1, int(wall_s + _EARLY_S))}


def _notes(rest: str) -> dict[str, Scalar]:
    """Return the settings that stand at the end of a banner."""
    notes = [note.strip() for note in rest.split(" : ")[1:]]
    told = [note for note in notes if note and not _NO_SETTING.fullmatch(note)]
    return {"options": ", ".join(told)} if told else {}


def _sizes(row: Sequence[str], names: Sequence[str]) -> dict[str, Scalar]:
    """Return the sizes that a row begins with."""
    return {
        f"{name}_bytes": int(value)
        for name, value in zip(names, row, strict=False)
        if value.isdecimal() and len(value) < 16
    }


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


def _of_stream(rows: list[list[str]], body: str, where: str) -> _Found:
    row = _row(rows, 0, 5, where)
    cpu = _system(row[5], row[6], where) if len(row) >= 9 else {}
    rate = amount(row[4], "the throughput", where) * _unit(body, where)
    sizes = _sizes(row, ("receive_socket", "send_socket", "message"))
    wall = _known(row[3], "the time", where)
    return _Found("btc", {"aggregate_btc_bps": rate, **cpu}, wall, sizes)


def _of_datagrams(rows: list[list[str]], body: str, where: str) -> _Found:
    sent, got, unit = _row(rows, 0, 6, where), _row(rows, 1, 4, where), _unit(body, where)
    count = amount(sent[3], "the messages sent", where)
    came = amount(got[2], "the messages received", where)
    sizes = _sizes(sent, ("local_socket", "message")) | _sizes(got, ("remote_socket",))
    return _Found(
        "udp",
        {
            "goodput_bps": unit * amount(got[3], "the throughput", where),
            "sent_bps": unit * amount(sent[5], "the throughput", where),
            "loss_percent": 100 * (count - came) / count if count > 0 else None,
        },
        _known(sent[2], "the time", where),
        sizes,
    )


def _of_requests(rows: list[list[str]], test: str, rest: str, where: str) -> _Found:
    row = _row(rows, 0, 6, where)
    rate = amount(row[5], "the rate", where)
    cpu = _system(row[6], row[7], where) if len(row) >= 10 else {}
    wall = _known(row[4], "the time", where)
    sockets = ("send_socket", "receive_socket")
    sizes = _sizes(row, (*(f"local_{name}" for name in sockets), "request", "response"))
    if len(rows) > 1:
        sizes |= _sizes(rows[1], [f"remote_{name}" for name in sockets])
    if "connect" in test.lower():
        return _Found("connect", {"connects_per_s": rate, **cpu}, wall, sizes)
    alone = "first burst 0" in rest and rate > 0
    return _Found(
        "latency",
        {"rtt_mean_us": 1e6 / rate if alone else None, "exchanges_per_s": rate, **cpu},
        wall,
        sizes,
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
        told = {"ELAPSED_TIME": last[-3], "THROUGHPUT": last[-2], "THROUGHPUT_UNITS": last[-1]}
        if "Request" in body and len(last) >= 5:
            return {**told, "REQUEST_SIZE": last[-5], "RESPONSE_SIZE": last[-4]}
        return {**told, "MESSAGE_SIZE": last[-4]} if len(last) >= 4 else told
    return {}


def _settings(told: dict[str, str]) -> dict[str, Scalar]:
    """Return the settings that omni tells and that were set; numbers as numbers."""
    found = {
        name: told[key].strip()
        for key, name in _SETTINGS.items()
        if told.get(key, "").strip() not in _UNSET
    }
    return {
        name: int(value) if value.isdecimal() and len(value) < 16 else value
        for name, value in found.items()
        if value != "0" or name.endswith("cpu_bind")
    }


def _of_omni(told: dict[str, str], protocol: str, where: str) -> _Found:
    units = told.get("THROUGHPUT_UNITS", "10^6bits/s")
    rate = amount(told.get("THROUGHPUT"), "THROUGHPUT", where)
    wall = _known(told.get("ELAPSED_TIME"), "ELAPSED_TIME", where)
    settings = _settings(told)
    cpu = {}
    if "LOCAL_CPU_UTIL" in told:
        cpu = _system(told["LOCAL_CPU_UTIL"], told.get("REMOTE_CPU_UTIL"), where)
    if units.startswith("Trans"):
        times = {
            name: _known(told.get(key), key, where) for key, name in _TIMES.items() if key in told
        }
        times.setdefault("rtt_mean_us", _known(told.get("RT_LATENCY"), "RT_LATENCY", where))
        return _Found("latency", {**times, "exchanges_per_s": rate, **cpu}, wall, settings)
    unit = _unit(units, where)
    received = _known(told.get("REMOTE_RECV_THROUGHPUT"), "REMOTE_RECV_THROUGHPUT", where)
    if protocol.startswith("udp"):
        metrics = {
            "sent_bps": unit * rate,
            "goodput_bps": None if received is None else unit * received,
        }
        return _Found("udp", {**metrics, **cpu}, wall, settings)
    retransmits = _known(told.get("LOCAL_TRANSPORT_RETRANS"), "LOCAL_TRANSPORT_RETRANS", where)
    metrics = {"aggregate_btc_bps": unit * rate, "retransmits": retransmits, **cpu}
    return _Found("btc", metrics, wall, settings)
