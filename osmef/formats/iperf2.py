"""Reader of the text output of iperf 2, of client or server, with and without -e.

Source: iperf(1) and the source of 2.1.8. Bytes have prefixes of 1024, and bits those of 1000. A
client tells what it sent, and of UDP also what its server reported back; a server what it received;
with -R the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from osmef.errors import OutputError
from osmef.formats import shows_tail
from osmef.formats.reading import GIBI, KIBI, MEBI, TEBI, amount, of_one_run, positive, whole

_BYTES = {"": 1, "K": KIBI, "M": MEBI, "G": GIBI, "T": TEBI}
_BITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_HEAD = re.compile(r"^(Client connecting to|Server listening on) .*(TCP|UDP) port", re.MULTILINE)
_CONNECTED = re.compile(r"^\[ *\*?([0-9]+)\] local .* connected with ", re.MULTILINE)
_FAILED = re.compile(r"^((?:tcp )?connect failed: .*|bind failed: .*)", re.MULTILINE)
_BOTH_WAYS = re.compile(r"\(full-duplex\)|^\[FD", re.MULTILINE)
_REVERSE = "(reverse)"
_ROW = re.compile(
    r"\[ *\*?(?P<flow>[0-9]{1,9}|SUM)[^\]]*\] +(?P<start>\S{1,40}?) *- *(?P<end>\S{1,40}) sec"
    r" +(?P<moved>\S{1,40}) (?P<moved_in>[KMGT]?)Bytes"
    r" +(?P<rate>\S{1,40}) (?P<rate_in>[KMGT]?)(?P<rate_of>bits|Bytes)/sec(?P<rest>.*)",
    re.ASCII,
)
_UDP = re.compile(r" +(?P<jitter>\S+) ms +(?P<lost>[^\s/]+)/ *(?P<packets>\S+) ")
_RETRIES = re.compile(r" +[0-9]+/[0-9]+ +(?P<retries>[0-9]+)\b(?! pps)", re.ASCII)
_TOLERANCE = 0.02  # of sums, as numbers have three digits


@dataclass(frozen=True)
class IntervalRow:
    """Bytes of one connection from ``start_s`` to ``end_s``; of all of them without a flow.

    Retries are of TCP's senders (-e); jitter and datagrams of UDP's receivers.
    """

    flow: int | None
    start_s: float
    end_s: float
    bytes: float
    bps: float
    retries: int | None = None
    jitter_us: float | None = None
    datagrams: int | None = None
    lost: int | None = None


@dataclass(frozen=True)
class Moved:
    """Totals of every connection, and of all together.

    The total of one is itself. It is None of several that a server of UDP reported back, as iperf
    prints none.
    """

    flows: tuple[IntervalRow, ...]
    total: IntervalRow | None


@dataclass(frozen=True)
class Iperf2:
    """A run as one end reports it. ``intervals`` are the rows of -i."""

    side: str
    protocol: str
    reverse: bool
    sent: Moved | None
    received: Moved | None
    intervals: tuple[IntervalRow, ...]


@shows_tail
def read(text: str) -> Iperf2:
    """Read the output of one run at one end. Raises OutputError.

    That is so where it could not connect, where a connection is not reported, and where both ways
    were used at once. The end of an output that has -i must be there: else its first interval is
    taken for all.
    """
    refused = _FAILED.search(text)
    if refused:
        raise OutputError(f"iperf failed: {refused[1]}")
    if _BOTH_WAYS.search(text):
        raise OutputError("both directions at once can't be distinguished")
    head = of_one_run(_HEAD, text, "iperf 2")
    side = "client" if head[1].startswith("Client") else "server"
    sends = (side == "client") is not (_REVERSE in text)
    jittery, others = _rows(text)
    own, reported = (others, jittery) if sends or not jittery else (jittery, others)
    if jittery and all(row.flow is None for row in others):  # their sum has another head
        own, reported = [*jittery, *others], []
    flows = set(_CONNECTED.findall(text))
    here = _moved(own, len(flows))
    all_the_time = {*here.flows, here.total}
    if here.total is None:
        raise OutputError("iperf does not report the sum of the connections")
    there = _moved(reported, len(flows)) if reported else None
    return Iperf2(
        side=side,
        protocol=head[2].lower(),
        reverse=_REVERSE in text,
        sent=here if sends else there,
        received=there if sends else here,
        intervals=tuple(row for row in own if row not in all_the_time),
    )


def _rows(text: str) -> tuple[list[IntervalRow], list[IntervalRow]]:
    """Return the rows with jitter, which are of UDP's receivers, and the others.

    The head above tells nothing: a server's report may come before other connections have ended.
    """
    rows: list[IntervalRow] = []
    for number, line in enumerate(text.splitlines(), start=1):
        found = _ROW.fullmatch(line.rstrip())
        if found is None and not (line.startswith("[") and " sec " in line and "Bytes" in line):
            continue
        try:
            rows.append(_row(found))
        except OutputError as error:
            raise OutputError(error.message, line=number) from None
    jittery = [row for row in rows if row.jitter_us is not None]
    return jittery, [row for row in rows if row.jitter_us is None]


def _row(found: re.Match[str] | None) -> IntervalRow:
    if found is None:
        raise OutputError("this is no row of iperf 2")
    udp, retries = _UDP.match(found["rest"]), _RETRIES.match(found["rest"])
    unit = 8 * _BYTES[found["rate_in"]] if found["rate_of"] == "Bytes" else _BITS[found["rate_in"]]
    return IntervalRow(
        flow=None if found["flow"] == "SUM" else int(found["flow"]),
        start_s=amount(found["start"], "the start"),
        end_s=positive(found["end"], "the end"),
        bytes=_BYTES[found["moved_in"]] * amount(found["moved"], "what was moved"),
        bps=unit * amount(found["rate"], "the rate"),
        retries=whole(retries["retries"], "the retries") if retries else None,
        jitter_us=1e3 * amount(udp["jitter"], "the jitter") if udp else None,
        datagrams=whole(udp["packets"], "the datagrams") if udp else None,
        lost=whole(udp["lost"], "the lost datagrams") if udp else None,
    )


def _moved(rows: Sequence[IntervalRow], connections: int) -> Moved:
    """Return the rows of totals: the last of each connection that begins at 0."""
    last = {row.flow: row for row in rows if row.start_s == 0}
    total = last.pop(None, None)
    flows = tuple(last.values())
    if not flows or len(flows) != connections:
        raise OutputError(f"iperf reports {len(flows)} of {connections} connections")
    if total is None and len(flows) == 1:
        total = flows[0]
    moved = sum(flow.bytes for flow in flows)
    if total is not None and abs(total.bytes - moved) > _TOLERANCE * moved:
        raise OutputError("what iperf reports as the sum is not that of the connections")
    return Moved(flows, total)
