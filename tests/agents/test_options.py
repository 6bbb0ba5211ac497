"""Options of the sockets, seen where they take effect."""

from __future__ import annotations

import socket
import struct
import sys
from pathlib import Path

import pytest

from tests.agents.lab import (
    TIMEOUT_S,
    Agent,
    Event,
    StartAgent,
    arm,
    connect,
    header,
    job,
    succeed,
    transfer,
    way,
)

SYSCTL = Path("/proc/sys/net")
# linux/in.h, linux/in6.h
IP_PKTOPTIONS = 9
IPV6_2292PKTOPTIONS = 6
ETH_P_IP = 0x0800
IPPROTO_MPTCP = 262


def flows_of(result: Event) -> list[Event]:
    flows: list[Event] = way(result)["flows"]
    return flows


def listen_error(agent: Agent, **changes: object) -> Event:
    agent.command("bulk", side="listen", bind="127.0.0.1", port=0, **job(**changes))
    error = agent.expect("error")
    agent.idle()
    return error


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_the_effective_window_is_reported(start: StartAgent, direction: str) -> None:
    for _, result in transfer(start(), start(), window=50_000, connections=2, direction=direction):
        for flow in flows_of(result):
            assert flow["tcp"]["send_buffer"] == 100_000
            assert flow["tcp"]["receive_buffer"] == 100_000


def test_a_window_that_the_kernel_caps_is_an_error(start: StartAgent) -> None:
    most = max(int((SYSCTL / "core" / f"{way}mem_max").read_text()) for way in "rw")
    if most >= 1 << 30:
        pytest.skip("this kernel caps no window that may be asked for")
    error = listen_error(start(), window=1 << 30)
    assert error["kind"] == "option"
    assert "net.core." in error["message"]


def test_the_segment_size_is_kept(start: StartAgent) -> None:
    for _, result in transfer(start(), start(), mss=1000):
        # Time stamps take 12 bytes of each segment.
        assert 900 <= flows_of(result)[0]["tcp"]["mss"] <= 1000


def test_the_path_mtu_is_reported(start: StartAgent) -> None:
    mtu = min(int(Path("/sys/class/net/lo/mtu").read_text()), 65535)  # what an IP packet can be
    for _, result in transfer(start(), start()):
        assert flows_of(result)[0]["tcp"]["path_mtu"] == mtu


def available() -> list[str]:
    text = (SYSCTL / "ipv4/tcp_allowed_congestion_control").read_text(encoding="ascii")
    return text.split()


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("name", available())
def test_congestion_control_is_set_at_both_ends(
    start: StartAgent, name: str, direction: str
) -> None:
    ends = transfer(start(), start(), congestion_control=name, direction=direction)
    for _, result in ends:
        assert flows_of(result)[0]["tcp"]["congestion_control"] == name


def test_unknown_congestion_control_is_an_option_error(start: StartAgent) -> None:
    error = listen_error(start(), congestion_control="nonesuch")
    assert error["kind"] == "option"
    assert "tcp_allowed_congestion_control" in error["message"]


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_pacing_bounds_each_flow(start: StartAgent, direction: str) -> None:
    bps = 20e6
    ends = transfer(
        start(), start(), pacing_bps=bps, connections=2, duration_s=1, direction=direction
    )
    for _, result in ends:
        for flow in flows_of(result):
            # The first segments leave unpaced; a busy machine may be slower, but never faster.
            assert 8 * flow["bytes"] < 1.3 * bps * flow["end_s"]
    sent = next(r["sending"] for _, r in ends if r["sending"])
    assert all(flow["tcp"]["pacing_rate_bps"] <= bps for flow in sent["flows"])


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_dscp_is_in_the_packets(
    start: StartAgent, family: socket.AddressFamily, address: str
) -> None:
    """The class of the connecting end's packets, as a listener of ours reads it."""
    try:
        server = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip("no IPv6 here")
    expedited = 46
    sender = start()
    with server:
        keys = {"side": "connect", "host": address, "port": server.getsockname()[1]}
        sender.command("bulk", **keys, **job(dscp=expedited))
        peer, _ = server.accept()
    with peer:
        peer.settimeout(TIMEOUT_S)
        assert peer.recv(48, socket.MSG_WAITALL) == header(0, 1)
        assert traffic_class(family, peer) >> 2 == expedited


def traffic_class(family: socket.AddressFamily, peer: socket.socket) -> int:
    """Return that of the last packet of the handshake, which the kernel keeps with the socket."""
    level, wanted, options = {
        socket.AF_INET: (socket.IPPROTO_IP, socket.IP_RECVTOS, IP_PKTOPTIONS),
        socket.AF_INET6: (socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, IPV6_2292PKTOPTIONS),
    }[family]
    peer.setsockopt(level, wanted, 1)
    found = peer.getsockopt(level, options, 256)
    header_size = struct.calcsize("Nii")
    length, cmsg_level, kind = struct.unpack("Nii", found[:header_size])
    assert cmsg_level == level
    assert kind in {socket.IP_TOS, socket.IPV6_TCLASS}
    return int.from_bytes(found[header_size:length], sys.byteorder)


def test_flows_have_marks_and_algorithms_in_turn(start: StartAgent) -> None:
    """As both ends send them, in each direction from the first again."""
    try:
        wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
    except PermissionError:
        pytest.skip("nobody but root sees packets")
    receiver, sender = start(), start()
    marks = {"each_dscp": ["8", "46", "0"], "each_congestion_control": ["reno", "cubic"]}
    with wire:
        wire.bind(("lo", 0))
        wire.settimeout(TIMEOUT_S)
        connect(sender, receiver, connections=3, direction="both", dscp=0, duration_s=0.1, **marks)
        sender.command("start", id="job-1")
        seen: dict[tuple[bytes, bytes], int] = {}
        while len(seen) < 6:
            packet = wire.recv(64)
            if packet[9] == socket.IPPROTO_TCP and int.from_bytes(packet[2:4]) > 1000:  # payload
                seen[packet[20:22], packet[22:24]] = packet[1] >> 2
    (_, one), (_, other) = succeed(sender, receiver)
    assert sorted(seen.values()) == [0, 0, 8, 8, 46, 46]
    for result in (one, other):
        algorithms = [flow["tcp"]["congestion_control"] for flow in result["sending"]["flows"]]
        assert algorithms == ["reno", "cubic", "reno"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"each_dscp": ["64"]}, "each_dscp"),
        ({"each_dscp": ["4x"]}, "each_dscp"),
        ({"each_dscp": ["1"] * 17}, "each_dscp"),
        ({"each_congestion_control": [""]}, "each_congestion_control"),
        ({"each_congestion_control": ["a" * 16]}, "each_congestion_control"),
    ],
)
def test_wrong_lists_are_named(start: StartAgent, changes: dict[str, object], named: str) -> None:
    agent = start()
    agent.command("bulk", side="listen", bind="127.0.0.1", port=0, **job(**changes))
    assert named in agent.expect("error")["message"]


def test_an_algorithm_that_is_not_there_is_named(start: StartAgent) -> None:
    agent, other = start(), start()
    port = arm(agent, each_congestion_control=["nosuch"])
    keys = job(each_congestion_control=["nosuch"])
    other.command("bulk", side="connect", host="127.0.0.1", port=port, **keys)
    event = other.expect("error")
    assert (event["kind"], "nosuch" in event["message"]) == ("option", True)


def has_mptcp() -> bool:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP).close()
    except OSError:
        return False
    return True


needs_mptcp = pytest.mark.skipif(not has_mptcp(), reason="this kernel has no MPTCP")


@needs_mptcp
@pytest.mark.parametrize("direction", ["forward", "both"])
def test_the_use_of_mptcp_is_reported(start: StartAgent, direction: str) -> None:
    ends = transfer(start(), start(), mptcp=True, connections=2, direction=direction)
    for _, result in ends:
        for name in ("sending", "receiving"):
            for flow in [] if result[name] is None else result[name]["flows"]:
                assert flow["mptcp"] in {True, None}  # None: before Linux 5.16


@needs_mptcp
@pytest.mark.parametrize("with_mptcp", ["sender", "receiver"])
def test_a_fallback_from_mptcp_to_tcp_is_reported(start: StartAgent, with_mptcp: str) -> None:
    sender, receiver = start(), start()
    port = arm(receiver, mptcp=with_mptcp == "receiver")
    keys = {"side": "connect", "host": "127.0.0.1", "port": port}
    sender.command("bulk", **keys, **job(mptcp=with_mptcp == "sender"))
    sender.expect("connected")
    receiver.expect("connected")
    sender.command("start", id="job-1")
    for _, result in succeed(sender, receiver):
        assert flows_of(result)[0]["mptcp"] in {False, None}
        assert flows_of(result)[0]["bytes"] > 0


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_all_options_together(start: StartAgent, address: str) -> None:
    receiver, sender = start(), start()
    keys = job(window=30_000, mss=600, dscp=8, pacing_bps=1e9, congestion_control="reno")
    receiver.command("bulk", side="listen", bind=address, port=0, **keys)
    answer = receiver.event()
    if answer["event"] == "error":
        pytest.skip(f"not here: {answer['message']}")
    sender.command("bulk", side="connect", host=address, port=answer["port"], **keys)
    sender.expect("connected")
    receiver.expect("connected")
    sender.command("start", id="job-1")
    for _, result in succeed(sender, receiver):
        assert flows_of(result)[0]["tcp"]["mss"] <= 600
