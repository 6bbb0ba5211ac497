from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.layers.base import Counters, counters, counters_from
from tests.layers.machines import Machines

TOLD = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs
  eth1:    5000      7    0    0    0     0          0         0    6000       8    0    0
    lo:       0      0    0    0    0     0          0         0       0       0    0    0
Ip: Forwarding DefaultTTL InReceives InHdrErrors A B C D E F G
Ip: 2 64 1 2 3 4 5 6 7 8 9
Tcp: RtoAlgorithm MaxConn InSegs OutSegs RetransSegs
Tcp: 1 -1 100 200 3
Udp: InDatagrams
Udp: 9
TcpExt: SyncookiesSent TCPOFOQueue TCPAckCompressed
TcpExt: 0 5 2
IpExt: InNoRoutes
IpExt: 0
"""


def test_the_kernel_counters_are_parsed() -> None:
    found = counters_from(TOLD)
    eth1 = {"rx_bytes": 5000, "rx_packets": 7, "tx_bytes": 6000, "tx_packets": 8}
    assert found.interfaces == {"eth1": eth1, "lo": dict.fromkeys(eth1, 0)}
    assert found.tcp["MaxConn"] == -1
    assert {name: found.tcp[name] for name in ("InSegs", "TCPOFOQueue")} == {
        "InSegs": 100,
        "TCPOFOQueue": 5,
    }
    assert "InDatagrams" not in found.tcp


def test_this_kernel_s_own_files_are_read() -> None:
    names = ("dev", "snmp", "netstat")
    found = counters_from("".join(Path("/proc/net", name).read_text() for name in names))
    assert "lo" in found.interfaces
    assert {"InSegs", "OutSegs", "RetransSegs", "TCPOFOQueue", "TCPSACKReorder"} <= set(found.tcp)


numbers = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2**63))


@given(numbers, numbers)
def test_a_change_is_of_what_was_there_before(before: dict[str, int], now: dict[str, int]) -> None:
    change = Counters({}, now).since(Counters({}, before))
    assert change.tcp == {name: now[name] - before[name] for name in set(now) & set(before)}


@given(st.text())
def test_any_counter_text_is_parsed_or_ignored(text: str) -> None:
    assert isinstance(counters_from(text), Counters)


def test_counters_are_those_of_the_namespace(machines: Machines) -> None:
    host = machines.hosts["a"]
    space = host.new_space()
    assert set(counters(host.root, space).interfaces) == {"lo"}
    with pytest.raises(Exception, match="no-such"):
        counters(host.root, "no-such")
