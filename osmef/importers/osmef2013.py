"""Importer of the OSMeF of 2013: one JSON file a run of nuttcp over parallel connections.

Source: Venzano and Michiardi, "A Measurement Study of Data-intensive Network Traffic Patterns in a
Private Cloud", 2013, and the files published with it. Every number there is a text as nuttcp
prints it: ``rate_KBps`` is KiB/s, ``megabytes`` MiB, ``cpu`` percent with its sign.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from osmef.analysis.bulk_transfer import jain_fairness
from osmef.importers.nuttcp import CONNECT_RTT
from osmef.importers.record import (
    Oddity,
    Parsed,
    Record,
    Text,
    amount,
    number,
    positive,
    read_json,
    refuse,
    whole,
)
from osmef.results.measure import Measure
from osmef.results.trial import Interval
from osmef.scenario.fields import EndpointKind, Placement, Tenancy
from osmef.workloads import metrics

_OF_CONNECTION = tuple(
    Measure(
        name=f"connection_cpu_{end}_percent", unit="%", better="lower",
        label=f"CPU {end}, a connection", source="Venzano and Michiardi, 2013",
        help=f"CPU of the {end} of one connection over its time, in the mean of all connections",
    )
    for end in ("sender", "receiver")
)  # fmt: skip

MEASURES = (*metrics.MEASURES, CONNECT_RTT, *_OF_CONNECTION)

KIB = 1024
_FLOW = re.compile(r"conn_([1-9][0-9]{0,5})", re.ASCII)
_TOLERANCE = 0.005
_MOST_APART = 1.25  # real files have at most 1.1
_OF_VM = re.compile(r"VM (to VM|localhost)\b", re.ASCII)


def parse(text: Text) -> Parsed:
    """Read one run: a trial with the cell ``connections``.

    - aggregate_btc_bps is the sum of the receivers' rates, each over the connection's own time:
      the file has no common interval. connection_btc_bps is their mean, jain_fairness of them.
    - cpu_*_percent is the sum over the connections of user and system time over real time,
      connection_cpu_*_percent the mean over them, as in the paper.
    - retransmits is their sum, connect_rtt_mean_us the mean of the RTT that nuttcp saw when it
      connected.

    Each connection is a row of the intervals at both ends, of the whole transfer; its bytes are MiB
    with four digits. Placement and tenancy are from the name of the run; kernel and memory in the
    state of an end are facts. Raises InputError.
    """
    document = _document(text)
    flows = _flows(document, text)
    sender, receiver = _ends(document, text)
    rows = [
        row
        for flow, ends in flows.items()
        for row in _intervals(flow, ends, sender, receiver, text)
    ]
    rates = [
        8 * KIB * _of(ends["rx"], "rate_KBps", text, f"conn_{n}.rx") for n, ends in flows.items()
    ]
    placement, tenancy, distance = _placement(document, sender, receiver)
    record = Record(
        workload="btc",
        metrics={
            "aggregate_btc_bps": sum(rates),
            "connection_btc_bps": sum(rates) / len(rates),
            "jain_fairness": jain_fairness(rates),
            "cpu_sender_percent": (sending := _cpu(flows, "tx", text)),
            "cpu_receiver_percent": (receiving := _cpu(flows, "rx", text)),
            "connection_cpu_sender_percent": sending / len(flows),
            "connection_cpu_receiver_percent": receiving / len(flows),
            "retransmits": sum(
                _of(e["tx"], "retrans", text, f"conn_{n}.tx") for n, e in flows.items()
            ),
            "connect_rtt_mean_us": 1000 * _mean(flows, "rtt_ms", text),
        },
        values={"connections": len(flows)},
        senders=(sender,),
        receivers=(receiver,),
        kinds=_kinds(document, sender, receiver),
        facts=_facts(document, sender, receiver),
        connections=len(flows),
        placement=placement,
        tenancy=tenancy,
        distance=distance,
        started_at=_time(document, text),
        wall_s=max(row.length_s for row in rows),
        run=text.folder,
        intervals=rows,
    )
    return Parsed([record], [Oddity(text.name, what, True) for what in _odd(document, flows, text)])


def _document(text: Text) -> dict[str, Any]:
    document = read_json(text)
    if not isinstance(document, dict) or not isinstance(document.get("btc"), dict):
        raise refuse(text.line(1), "there is no btc in it, as OSMeF of 2013 wrote it")
    return document


def _flows(document: dict[str, Any], text: Text) -> dict[int, dict[str, dict[str, Any]]]:
    flows: dict[int, dict[str, dict[str, Any]]] = {}
    for name, ends in document["btc"].items():
        found = _FLOW.fullmatch(name)
        if found is None or not isinstance(ends, dict):
            raise refuse(text.line(1), f"btc.{name[:40]} is not a connection")
        for end in ("rx", "tx"):
            if not isinstance(ends.get(end), dict):
                raise refuse(text.line(1), f"btc.{name} has no {end}")
        flows[int(found[1])] = ends
    if not flows:
        raise refuse(text.line(1), "btc has no connections")
    return dict(sorted(flows.items()))


def _of(end: dict[str, Any], key: str, text: Text, where: str) -> float:
    return amount(end.get(key), f"btc.{where}.{key}", text.line(1))


def _length_s(end: dict[str, Any], text: Text, where: str) -> float:
    return positive(end.get("real_seconds"), f"btc.{where}.real_seconds", text.line(1))


def _mean(flows: dict[int, dict[str, dict[str, Any]]], key: str, text: Text) -> float:
    return sum(_of(e["tx"], key, text, f"conn_{n}.tx") for n, e in flows.items()) / len(flows)


def _cpu(flows: dict[int, dict[str, dict[str, Any]]], end: str, text: Text) -> float:
    total = 0.0
    for n, ends in flows.items():
        where = f"conn_{n}.{end}"
        busy = sum(_of(ends[end], key, text, where) for key in ("user", "system"))
        total += 100 * busy / _length_s(ends[end], text, where)
    return total


def _intervals(
    flow: int, ends: dict[str, dict[str, Any]], sender: str, receiver: str, text: Text
) -> list[Interval]:
    rows = []
    for end, role, here, there in (
        ("tx", "sender", sender, receiver),
        ("rx", "receiver", receiver, sender),
    ):
        where = f"conn_{flow}.{end}"
        retrans = (
            whole(ends[end].get("retrans"), f"btc.{where}.retrans", text.line(1))
            if end == "tx"
            else None
        )
        rows.append(
            Interval(
                trial=0,
                endpoint=here,
                peer=there,
                role=role,
                flow=flow - 1,
                start_s=0,
                length_s=_length_s(ends[end], text, where),
                bytes=round(_of(ends[end], "megabytes", text, where) * KIB * KIB),
                retransmits=retrans,
                rtt_us=None,
                cwnd=None,
            )
        )
    return rows


def _ends(document: dict[str, Any], text: Text) -> tuple[str, str]:
    """Return the addresses of sender and receiver without the user; the same for loopback."""
    names = []
    for key in ("senders", "receiver"):
        name = document.get(key)
        if not isinstance(name, str) or not name:
            raise refuse(text.line(1), f"{key} is no address")
        names.append(name.rpartition("@")[2] or name)
    sender, receiver = names
    return (sender, sender) if receiver == "127.0.0.1" else (sender, receiver)


def _placement(
    document: dict[str, Any], sender: str, receiver: str
) -> tuple[Placement | None, Tenancy | None, int | None]:
    """Return the placement in the run's name; distance as in section IV-D of the paper."""
    name = str(document.get("name", ""))
    if sender == receiver:
        return Placement.SAME_HOST, Tenancy.SAME_TENANT, 0
    if document.get("type") == "BTC":  # from one physical host to another
        return Placement.DIFFERENT_HOST, None, 2
    placement = next((p for p in Placement if p.value.replace("-", " ") in name), None)
    tenancy = next((t for t in Tenancy if t.value.replace("-", " ") in name), None)
    if tenancy is Tenancy.DIFFERENT_TENANT:
        return placement, tenancy, 4
    if placement is None or tenancy is None:
        return placement, tenancy, None
    return placement, tenancy, 0 if placement is Placement.SAME_HOST else 2


def _kinds(document: dict[str, Any], sender: str, receiver: str) -> dict[str, EndpointKind]:
    kind, name = document.get("type"), str(document.get("name", ""))
    if kind == "BTC":
        return dict.fromkeys((sender, receiver), EndpointKind.HOST)
    if _OF_VM.match(name):  # a host may have a name that begins with VM
        return dict.fromkeys((sender, receiver), EndpointKind.VM)
    if name.startswith("host to VM"):
        return {sender: EndpointKind.HOST, receiver: EndpointKind.VM}
    return {}


def _facts(document: dict[str, Any], sender: str, receiver: str) -> dict[str, dict[str, Any]]:
    """Return the facts of the machines before the run, as far as recorded."""
    found = {}
    for name, key in ((receiver, "state_receiver"), (sender, "state_sender")):
        state = document.get(key)
        if not isinstance(state, dict):
            continue
        facts: dict[str, Any] = {}
        if isinstance(release := state.get("kernel_version"), str):
            facts["kernel"] = {"release": release}
        total = state.get("mem_total")
        if isinstance(total, str) and total.isdecimal():
            facts["memory"] = {"total_bytes": KIB * int(total)}
        if facts:
            found[name] = {"before": facts}
    return found


def _time(document: dict[str, Any], text: Text) -> datetime:
    seconds = number(document.get("time"), "time", text.line(1))
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise refuse(text.line(1), f"time is {seconds:g}, and no time") from error


def _odd(
    document: dict[str, Any], flows: dict[int, dict[str, dict[str, Any]]], text: Text
) -> list[str]:
    """Return the inconsistencies of a record."""
    odd = []
    if document.get("concurrent") != len(flows):
        odd.append(
            f"concurrent is {document.get('concurrent')}, and there are {len(flows)} connections"
        )
    for n, ends in flows.items():
        rx, where = ends["rx"], f"conn_{n}.rx"
        length = _length_s(rx, text, where)
        moved, rate = _of(rx, "megabytes", text, where), _of(rx, "rate_KBps", text, where)
        if abs(moved * KIB / length - rate) > _TOLERANCE * rate:
            odd.append(f"btc.{where}: megabytes over real_seconds are not rate_KBps")
        if not moved or not rate:
            odd.append(f"btc.{where}: not a byte was received")
        else:
            odd += _apart(n, _of(ends["tx"], "rate_KBps", text, f"conn_{n}.tx"), rate)
        limit = ends["tx"].get("time_limit")
        if limit is not None:
            wanted = positive(limit, f"btc.conn_{n}.tx.time_limit", text.line(1))
            if abs(length - wanted) > _TOLERANCE * wanted:
                odd.append(f"btc.{where}: took {length:g} s of {wanted:g}")
    return odd


def _apart(connection: int, sent: float, received: float) -> list[str]:
    """Return the connections whose rates at both ends contradict each other."""
    where = f"btc.conn_{connection}"
    if not sent:
        return [f"{where}.tx: not a byte was sent"]
    if sent > _MOST_APART * received:
        return [f"{where}: the sender's rate is {sent / received:.3g} times the receiver's"]
    if received > _MOST_APART * sent:
        return [f"{where}: the receiver's rate is {received / sent:.3g} times the sender's"]
    return []
