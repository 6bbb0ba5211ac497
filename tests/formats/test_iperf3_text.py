"""What iperf3 prints for people, of several versions, against its JSON and the units."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import OutputError
from osmef.importers.iperf3 import is_text, read_text

OLD = """\
Connecting to host 172.31.28.4, port 5201
[  4] local 172.31.26.183 port 48832 connected to 172.31.28.4 port 5201
[ ID] Interval           Transfer     Bandwidth       Retr  Cwnd
[  4]   0.00-1.00   sec   596 MBytes  5.00 Gbits/sec    2   1.40 MBytes
[  4]   1.00-2.00   sec   591 MBytes  4.96 Gbits/sec    0   1.96 MBytes
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bandwidth       Retr
[  4]   0.00-2.00   sec  1.16 GBytes  4.98 Gbits/sec    2             sender
[  4]   0.00-2.00   sec  1.16 GBytes  4.97 Gbits/sec                  receiver

iperf Done.
"""
TWO = """\
Connecting to host 127.0.0.1, port 5333
[  5] local 127.0.0.1 port 58268 connected to 127.0.0.1 port 5333
[  7] local 127.0.0.1 port 58270 connected to 127.0.0.1 port 5333
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec   481 MBytes  4.02 Gbits/sec    4   2.87 MBytes       (omitted)
[  7]   0.00-1.00   sec   485 MBytes  4.05 Gbits/sec    5   3.12 MBytes       (omitted)
[SUM]   0.00-1.00   sec   966 MBytes  8.07 Gbits/sec    9             (omitted)
- - - - - - - - - - - - - - - - - - - - - - - - -
[  5]   0.00-1.00   sec   525 MBytes  4.39 Gbits/sec    0   2.50 MBytes
[  7]   0.00-1.00   sec   511 MBytes  4.28 Gbits/sec    0   2.50 MBytes
[SUM]   0.00-1.00   sec  1.01 GBytes  8.67 Gbits/sec    0
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-1.00   sec  1.14 GBytes  4.89 Gbits/sec    3             sender
[  5]   0.00-1.00   sec  1.14 GBytes  4.88 Gbits/sec                  receiver
[  7]   0.00-1.00   sec  1.11 GBytes  4.79 Gbits/sec    4             sender
[  7]   0.00-1.00   sec  1.11 GBytes  4.78 Gbits/sec                  receiver
[SUM]   0.00-1.00   sec  2.25 GBytes  9.68 Gbits/sec    7             sender
[SUM]   0.00-1.00   sec  2.25 GBytes  9.66 Gbits/sec                  receiver

iperf Done.
"""
UDP_BACK = """\
Connecting to host 127.0.0.1, port 5334
Reverse mode, remote host 127.0.0.1 is sending
[  5] local 127.0.0.1 port 58378 connected to 127.0.0.1 port 5334
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-1.00   sec  1.22 MBytes  10.2 Mbits/sec  0.019 ms  0/39 (0%)
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-1.00   sec  1.22 MBytes  10.2 Mbits/sec  0.000 ms  0/40 (0%)  sender
[  5]   0.00-1.00   sec  1.19 MBytes  9.95 Mbits/sec  0.019 ms  1/40 (2.5%)  receiver

iperf Done.
"""
UDP_OLD = """\
Connecting to host 10.0.0.2, port 5201
[  4] local 10.0.0.1 port 40000 connected to 10.0.0.2 port 5201
[ ID] Interval           Transfer     Bandwidth       Total Datagrams
[  4]   0.00-1.00   sec   128 KBytes  1.05 Mbits/sec  16
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams
[  4]   0.00-1.00   sec   128 KBytes  1.05 Mbits/sec  0.017 ms  4/16 (25%)
[  4] Sent 16 datagrams

iperf Done.
"""
BOTH_WAYS = """\
Connecting to host 127.0.0.1, port 5336
[  5] local 127.0.0.1 port 42734 connected to 127.0.0.1 port 5336
[  7] local 127.0.0.1 port 42750 connected to 127.0.0.1 port 5336
[ ID][Role] Interval           Transfer     Bitrate         Retr  Cwnd
[  5][TX-C]   0.00-1.00   sec   724 MBytes  6.04 Gbits/sec    0   4.06 MBytes
[  7][RX-C]   0.00-1.00   sec   602 MBytes  5.03 Gbits/sec
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID][Role] Interval           Transfer     Bitrate         Retr
[  5][TX-C]   0.00-1.00   sec   724 MBytes  6.04 Gbits/sec    0             sender
[  5][TX-C]   0.00-1.01   sec   724 MBytes  6.03 Gbits/sec                  receiver
[  7][RX-C]   0.00-1.00   sec   608 MBytes  5.07 Gbits/sec   10             sender
[  7][RX-C]   0.00-1.01   sec   602 MBytes  5.02 Gbits/sec                  receiver

iperf Done.
"""
SERVER = """
Server output:
-----------------------------------------------------------
Server listening on 5201 (test #49)
-----------------------------------------------------------
Accepted connection from 127.0.0.1, port 47572
[  4] local 127.0.0.1 port 5201 connected to 127.0.0.1 port 47574
[ ID] Interval           Transfer     Bitrate
[  4]   0.00-2.00   sec  1.16 GBytes  4.97 Gbits/sec
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate
[  4]   0.00-2.00   sec  1.16 GBytes  4.97 Gbits/sec                  receiver


iperf Done.
"""
IN_BYTES = """\
Connecting to host 127.0.0.1, port 5201
[  5] local 127.0.0.1 port 33330 connected to 127.0.0.1 port 5201
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec   520 MBytes  0.51 GBytes/sec   16   2.87 MBytes
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-1.00   sec   520 MBytes  520 MBytes/sec   16             sender
[  5]   0.00-1.02   sec   519 MBytes  0.00 TBytes/sec                  receiver

iperf Done.
"""
INTERRUPT = "iperf3: interrupt - the client has terminated\n"
INTERRUPTED = """\
Connecting to host 127.0.0.1, port 5201
[  5] local 127.0.0.1 port 58424 connected to 127.0.0.1 port 5201
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec   588 MBytes  4.93 Gbits/sec   10   1023 KBytes
[  5]   1.00-1.59   sec   400 MBytes  5.66 Gbits/sec    7    767 KBytes
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-1.59   sec   987 MBytes  5.20 Gbits/sec   17             sender
[  5]   0.00-1.59   sec  0.00 Bytes  0.00 bits/sec                  receiver
"""
UDP_INTERRUPTED = UDP_BACK.replace(
    "1.22 MBytes  10.2 Mbits/sec  0.000 ms  0/40 (0%)  sender",
    "0.00 Bytes  0.00 bits/sec  0.000 ms  0/0 (0%)  sender",
).replace("\niperf Done.\n", "")
KILLED = OLD[: OLD.index("- - -")] + "[  4it took 2.000 seconds to empty the bucket\nTraceback\n"
REFUSED = "Connecting to host 10.0.0.2, port 5201\niperf3: error - unable to connect: refused\n"
NOT_CONNECTED = "iperf3: error - unable to connect to server: Connection refused\n"


def test_one_connection() -> None:
    (run,) = read_text(OLD).found
    assert (run.client, run.server, run.streams) == ("172.31.26.183", "172.31.28.4", 1)
    assert (run.protocol, run.direction, run.error, run.wall_s) == ("tcp", "forward", None, 2.0)
    assert run.forward is not None
    assert (run.forward.sent_bps, run.forward.received_bps) == (4.98e9, 4.97e9)
    assert run.forward.retransmits == 2
    assert run.forward.received_bytes == 1.16 * 2**30
    assert [one.bytes for one in run.intervals] == [625_000_000, 620_000_000]
    assert [one.retransmits for one in run.intervals] == [2, 0]
    assert all(one.sends and not one.omitted for one in run.intervals)


def test_two_connections_are_added_up_without_the_sums() -> None:
    (run,) = read_text(TWO).found
    assert run.streams == 2
    assert run.forward is not None
    assert run.forward.received_bps == pytest.approx(9.66e9)
    assert run.forward.retransmits == 7
    assert [(one.flow, one.omitted) for one in run.intervals] == [
        (0, True), (1, True), (0, False), (1, False)
    ]  # fmt: skip


def test_datagrams_from_the_server() -> None:
    (run,) = read_text(UDP_BACK).found
    assert (run.protocol, run.direction) == ("udp", "reverse")
    assert run.forward is not None
    assert (run.forward.sent_bps, run.forward.received_bps) == (10.2e6, 9.95e6)
    assert (run.forward.packets, run.forward.lost, run.forward.jitter_us) == (40, 1, 19.0)
    (interval,) = run.intervals
    assert (interval.sends, interval.packets, interval.lost) == (False, 39, 0)


def test_datagrams_of_an_old_version_are_received_less_what_was_lost() -> None:
    (run,) = read_text(UDP_OLD).found
    assert run.forward is not None
    assert run.forward.sent_bps == 1.05e6
    assert run.forward.received_bps == pytest.approx(0.75 * 1.05e6)
    assert run.intervals[0].packets == 16


def test_bidirectional_output_is_parsed() -> None:
    (run,) = read_text(BOTH_WAYS).found
    assert (run.direction, run.streams) == ("both", 1)
    assert run.forward is not None
    assert run.backward is not None
    assert (run.forward.received_bps, run.backward.received_bps) == (6.03e9, 5.02e9)
    assert [one.sends for one in run.intervals] == [True, False]


@pytest.mark.parametrize(
    ("text", "why", "intervals"),
    [
        (KILLED, "killed", 2),
        (REFUSED, "refused", 0),
        (NOT_CONNECTED, "refused", 0),
        (INTERRUPTED, "interrupted", 2),
        (INTERRUPTED + INTERRUPT, "client has terminated", 2),
        (INTERRUPT + INTERRUPTED, "client has terminated", 2),  # as in a file: by buffering
        (UDP_INTERRUPTED, "interrupted", 1),
    ],
)
def test_a_run_that_did_not_end_has_an_error_and_keeps_its_series(
    text: str, why: str, intervals: int
) -> None:
    (run,) = read_text(text).found
    assert run.error is not None
    assert why in run.error
    assert (run.forward, len(run.intervals)) == (None, intervals)


def test_an_error_is_of_the_run_that_did_not_end() -> None:
    texts = (NOT_CONNECTED, OLD, INTERRUPT, INTERRUPTED, NOT_CONNECTED, NOT_CONNECTED, UDP_BACK)
    found = read_text("".join(texts)).found
    errors = [run.error and run.error.rpartition(" ")[2] for run in found]
    assert errors == ["refused", None, "terminated", "refused", "refused", None]
    lines = INTERRUPTED.splitlines(keepends=True)
    torn = "".join([*lines[:4], INTERRUPT, *lines[4:]])  # as by a buffer that was full
    errors = [
        run.error for run in read_text(f"{torn}{NOT_CONNECTED}{INTERRUPTED}{INTERRUPT}").found
    ]
    assert [str(error)[-10:] for error in errors] == ["terminated", "on refused", "terminated"]
    errors = [run.error for run in read_text(f"{OLD}{NOT_CONNECTED}{NOT_CONNECTED}{OLD}").found]
    assert [error is None for error in errors] == [True, False, False, True]


def test_an_output_that_was_pasted_without_its_last_line_is_whole() -> None:
    lost_all = UDP_BACK.replace("1.19 MBytes  9.95 Mbits/sec", "0.00 Bytes  0.00 bits/sec")
    for text in (OLD, lost_all.replace("1/40 (2.5%)", "40/40 (1e+02%)")):
        (run,) = read_text(text.replace("iperf Done.\n", "")).found
        assert run.error is None


@pytest.mark.parametrize("text", [OLD, TWO, UDP_BACK, UDP_OLD, BOTH_WAYS])
def test_a_run_of_which_a_part_is_missing_has_no_other_numbers(text: str) -> None:
    (whole,) = read_text(text).found
    for cut in range(len(text)):
        try:
            found = read_text(text[:cut]).found
        except OutputError:
            continue
        ways = [(run.forward, run.backward) for run in found if run.error is None]
        assert ways in ([], [(whole.forward, whole.backward)]), text[:cut]


def test_server_output_is_not_counted_twice() -> None:
    (alone,) = read_text(OLD).found
    with_server = OLD.replace("\niperf Done.\n", SERVER)
    assert read_text(with_server + OLD).found[0] == alone


def test_a_rate_in_bytes_and_one_of_few_digits() -> None:
    (run,) = read_text(IN_BYTES).found
    assert run.forward is not None
    assert run.forward.sent_bps == 520 * 2**20 * 8
    assert run.forward.received_bps == pytest.approx(519 * 2**20 * 8 / 1.02)
    assert [one.bytes for one in run.intervals] == [520 * 2**20]


@pytest.mark.parametrize("before", ["Fri Nov 27 01:18:02 2026 ", "run { A:  ", "[  5] "])
def test_prefixes_before_each_line_are_ignored(before: str) -> None:
    (alone,) = read_text(TWO).found
    text = "".join(f"{before}{line}\n" for line in TWO.splitlines())
    assert is_text(text)
    assert read_text(f"run 1: Connecting to host mine, port 22\n{text}").found == (
        dataclasses.replace(alone, line=2),
    )


def test_verbose_has_the_cpu() -> None:
    verbose = "CPU Utilization: local/{} 19.6% (0.2%u/19.4%s), remote/{} 18.7% (0.1%u/18.6%s)\n"
    for roles, told in (
        (("sender", "receiver"), (19.6, 18.7)),
        (("receiver", "sender"), (18.7, 19.6)),
    ):
        (run,) = read_text(
            OLD.replace("\niperf Done", verbose.format(*roles) + "\niperf Done")
        ).found
        assert (run.cpu_sender_percent, run.cpu_receiver_percent) == told


def test_iperf3_output_with_a_null_unit_for_terabytes_is_parsed() -> None:
    sum_line = "[  4]   0.00-3600.00 sec  0.00 (null)s  4.97 Gbits/sec"
    text = re.sub(r"\[  4\]   0.00-2.00   sec  1.16 GBytes  4.9[78] Gbits/sec", sum_line, OLD)
    (run,) = read_text(text).found
    assert run.forward is not None
    assert run.forward.received_bytes == pytest.approx(4.97e9 * 3600 / 8)


def test_one_after_the_other() -> None:
    found = read_text(OLD + KILLED + UDP_BACK).found
    assert [(run.protocol, run.error is None) for run in found] == [
        ("tcp", True), ("tcp", False), ("udp", True)
    ]  # fmt: skip
    assert found[1].line == OLD.count("\n") + 1


def test_unparsable_input_is_rejected() -> None:
    assert is_text(OLD)
    assert not is_text('{"start": {}}')
    with pytest.raises(OutputError):
        read_text("[ ID] Interval\n")
    with pytest.raises(OutputError, match="interval from"):
        read_text(OLD.replace("1.00-2.00", "3.00-2.00"))


@given(text=st.text(max_size=200), cut=st.integers(0, len(TWO)))
def test_anything_is_read_or_refused(text: str, cut: int) -> None:
    digits = re.sub(r"\d", lambda _: text[:1] or "9", TWO)
    titled = "".join(f"{text[:9]}{line}\n" for line in TWO.splitlines())
    for one in (text, TWO[:cut] + text + TWO[cut:], digits, titled + INTERRUPTED[:cut]):
        try:
            read_text(one)
        except OutputError as error:
            assert error.message  # noqa: PT017 - others are bugs
