"""Whatever goes wrong ends in one error event that names it, and the agent takes the next job."""

from __future__ import annotations

import fcntl
import resource
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.agents.lab import (
    TIMEOUT_S,
    Agent,
    Event,
    StartAgent,
    arm,
    closed_port,
    connect,
    dial,
    header,
    job,
    reset,
    succeed,
    way,
)
from tests.waiting import until

LONG_S = 60


def assert_works(receiver: Agent, sender: Agent) -> None:
    """Check that both agents are idle and do a job properly."""
    receiver.idle()
    sender.idle()
    connect(sender, receiver, duration_s=0.1)
    sender.command("start", id="job-1")
    succeed(sender, receiver)


def error_of(agent: Agent) -> Event:
    _, event = agent.ending()
    assert event["event"] == "error", event
    assert event["id"] == "job-1"
    assert event["message"]
    return event


def running(sender: Agent, receiver: Agent, **changes: object) -> None:
    """Bring both into the middle of a long transfer."""
    connect(sender, receiver, **{"duration_s": LONG_S, **changes})
    sender.command("start", id="job-1")
    sender.expect("interval")
    receiver.expect("interval")


def test_refused_connection_names_the_cure(start: StartAgent) -> None:
    sender = start()
    sender.command("bulk", side="connect", host="127.0.0.1", port=closed_port(), **job())
    event = error_of(sender)
    assert event["kind"] == "connect"
    assert "osmef-agent recv" in event["message"]
    assert_works(start(), sender)


def test_busy_port_is_a_bind_error(start: StartAgent) -> None:
    one, two = start(), start()
    port = arm(one)
    two.command("bulk", side="listen", bind="127.0.0.1", port=port, **job())
    assert error_of(two)["kind"] == "bind"
    assert_works(two, start())


@pytest.mark.parametrize("address", ["198.51.100.7", "nowhere.invalid", "no address"])
def test_foreign_address_is_a_bind_error(start: StartAgent, address: str) -> None:
    agent = start()
    agent.command("bulk", side="listen", bind=address, port=0, **job())
    event = error_of(agent)
    assert event["kind"] == "bind"
    assert address in event["message"]


def test_names_are_not_resolved_for_a_controller(start: StartAgent) -> None:
    agent = start()
    agent.command("bulk", side="connect", host="localhost", port=5210, **job())
    event = error_of(agent)
    assert event["kind"] == "connect"
    assert "numeric" in event["message"]


def test_wrong_cookie_is_not_admitted(start: StartAgent) -> None:
    receiver, sender = start(), start()
    port = arm(receiver)
    sender.command("bulk", side="connect", host="127.0.0.1", port=port, **job(cookie="ff" * 16))
    assert error_of(sender)["kind"] == "cookie"
    sender.command("bulk", side="connect", host="127.0.0.1", port=port, **job())
    sender.expect("connected")
    receiver.expect("connected")
    sender.command("start", id="job-1")
    assert receiver.ending()[1]["refused"] == 1


STRANGERS: list[tuple[str, bytes]] = [
    ("silent", b""),
    ("web browser", b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"),
    ("half a header", header(0, 2)[:-1]),
    ("garbage", bytes(range(256))),
    ("no such flow", header(2, 2)),
    ("another kind", header(0, 2)[:10] + b"\2" + header(0, 2)[11:]),
    ("another direction", header(0, 2)[:11] + b"\1" + header(0, 2)[12:]),
    ("other number of flows", header(0, 3)),
    ("wrong magic", b"OSMEF1" + header(0, 2)[6:]),
    ("wrong cookie", header(0, 2, "00" * 16)),
    ("almost the cookie", header(0, 2)[:-1] + b"\xee"),
]


@pytest.mark.parametrize("said", [said for _, said in STRANGERS], ids=[n for n, _ in STRANGERS])
def test_unrelated_connections_do_not_disturb_a_transfer(start: StartAgent, said: bytes) -> None:
    receiver, sender = start(), start()
    port = arm(receiver, connections=2)
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(dial(port)).sendall(said)
        sender.command("bulk", side="connect", host="127.0.0.1", port=port, **job(connections=2))
        sender.expect("connected")
        receiver.expect("connected")
        sender.command("start", id="job-1")
        result = receiver.ending()[1]
    assert result["event"] == "result"
    assert result["refused"] == 5


def test_a_crowd_of_half_open_connections_does_not_keep_a_flow_out(start: StartAgent) -> None:
    receiver, sender = start(), start()
    port = arm(receiver, connections=8)
    with ExitStack() as stack:
        for _ in range(400):
            stack.enter_context(dial(port))
        sender.command("bulk", side="connect", host="127.0.0.1", port=port, **job(connections=8))
        sender.expect("connected")
        sender.command("start", id="job-1")
        receiver.expect("connected")
        assert receiver.ending()[1]["refused"] == 400


def test_a_flow_is_admitted_before_unrelated_connections_time_out(start: StartAgent) -> None:
    port = arm(start(), connections=2)
    with ExitStack() as stack:
        strangers = [stack.enter_context(dial(port)) for _ in range(400)]
        flow = stack.enter_context(dial(port))
        flow.sendall(header(0, 2))
        assert flow.recv(1) == b"+"
        strangers[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            strangers[-1].recv(1)


def test_a_silent_connection_is_closed_after_two_seconds(start: StartAgent) -> None:
    port = arm(start())
    with dial(port) as stranger:
        began = time.monotonic()
        assert stranger.recv(1) == b""
        assert 1.5 < time.monotonic() - began < 5


def test_one_flow_number_is_admitted_once(start: StartAgent) -> None:
    receiver = start()
    port = arm(receiver, connections=2)
    with dial(port) as one, dial(port) as twin:
        one.sendall(header(0, 2))
        assert one.recv(1) == b"+"
        twin.sendall(header(0, 2))
        assert twin.recv(1) == b""


def test_the_port_is_closed_once_all_flows_are_there(start: StartAgent) -> None:
    receiver, sender = start(), start()
    port = arm(receiver)
    sender.command("bulk", side="connect", host="127.0.0.1", port=port, **job())
    receiver.expect("connected")
    with pytest.raises(ConnectionRefusedError):
        dial(port)


def test_a_receiver_waits_for_its_flows_until_the_deadline(start: StartAgent) -> None:
    receiver = start()
    arm(receiver, arm_timeout_s=0.2)
    assert error_of(receiver)["kind"] == "arm-timeout"
    assert_works(receiver, start())


def test_a_sender_waits_to_be_admitted_until_the_deadline(start: StartAgent) -> None:
    sender = start()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        sender.command(
            "bulk", side="connect", host="127.0.0.1", port=port, **job(arm_timeout_s=0.2)
        )
        assert error_of(sender)["kind"] == "arm-timeout"
    assert_works(start(), sender)


def test_waiting_for_the_start_has_a_deadline(start: StartAgent) -> None:
    receiver, sender = start(), start()
    connect(sender, receiver, arm_timeout_s=1)
    # Whichever gives up first resets the other.
    kinds = {error_of(receiver)["kind"], error_of(sender)["kind"]}
    assert "arm-timeout" in kinds
    assert kinds <= {"arm-timeout", "reset"}
    assert_works(sender, receiver)


def test_a_sender_that_leaves_while_arming_is_noticed(start: StartAgent) -> None:
    receiver = start()
    port = arm(receiver, connections=2)
    with dial(port) as one:
        one.sendall(header(1, 2))
        assert one.recv(1) == b"+"
    event = error_of(receiver)
    assert (event["kind"], event["flow"]) == ("reset", 1)


@pytest.mark.parametrize("victim", ["sender", "receiver"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("flows", [1, 8])
def test_killed_peer_is_a_reset(
    start: StartAgent, victim: str, number: signal.Signals, flows: int
) -> None:
    sender, receiver = start(), start()
    running(sender, receiver, connections=flows)
    dead, other = (sender, receiver) if victim == "sender" else (receiver, sender)
    dead.process.send_signal(number)
    began = time.monotonic()
    event = error_of(other)
    assert event["kind"] == "reset"
    assert event["flow"] in range(flows)
    assert time.monotonic() - began < 5
    assert_works(other, start())


@pytest.mark.parametrize("aborted", ["sender", "receiver"])
def test_abort_ends_both_sides(start: StartAgent, aborted: str) -> None:
    sender, receiver = start(), start()
    running(sender, receiver, connections=4)
    one, other = (sender, receiver) if aborted == "sender" else (receiver, sender)
    one.command("abort", id="job-1")
    assert error_of(one)["kind"] == "aborted"
    assert error_of(other)["kind"] == "reset"
    assert_works(receiver, sender)


def test_a_job_aborted_while_listening_leaves_the_agent_usable(start: StartAgent) -> None:
    receiver = start()
    arm(receiver)
    receiver.command("abort", id="job-1")
    assert error_of(receiver)["kind"] == "aborted"
    assert_works(receiver, start())


def test_a_job_aborted_while_connecting_leaves_the_agent_usable(start: StartAgent) -> None:
    sender = start()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sender.command(
            "bulk", side="connect", host="127.0.0.1", port=silent.getsockname()[1], **job()
        )
        sender.command("abort", id="job-1")
        assert error_of(sender)["kind"] == "aborted"
    assert_works(start(), sender)


def test_an_abort_before_the_start_ends_both_ends(start: StartAgent) -> None:
    sender, receiver = start(), start()
    connect(sender, receiver, connections=3)
    sender.command("abort", id="job-1")
    assert error_of(sender)["kind"] == "aborted"
    assert error_of(receiver)["kind"] == "reset"
    assert_works(receiver, sender)


def test_abort_of_a_job_that_has_ended_is_no_error(start: StartAgent) -> None:
    sender = start()
    sender.command("bulk", side="connect", host="127.0.0.1", port=closed_port(), **job())
    assert error_of(sender)["kind"] == "connect"
    sender.command("abort", id="job-1")
    sender.command("start", id="job-1")
    sender.idle()


@pytest.mark.parametrize("stage", ["idle", "listening", "running"])
def test_the_end_of_input_ends_the_agent(start: StartAgent, stage: str) -> None:
    agent, peer = start(), start()
    if stage == "listening":
        arm(agent)
    elif stage == "running":
        running(peer, agent)
    assert agent.close_input() == 0
    if stage == "running":
        assert error_of(peer)["kind"] == "reset"


def admitted_reader(start: StartAgent, **changes: object) -> tuple[Agent, socket.socket]:
    """Return a sender and the accepted connection of the receiver that we play."""
    sender = start()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        sender.command("bulk", side="connect", host="127.0.0.1", port=port, **job(**changes))
        peer, _ = server.accept()
    peer.settimeout(TIMEOUT_S)
    assert peer.recv(48, socket.MSG_WAITALL) == header(0, 1, duration_ms=LONG_S * 1000)
    peer.sendall(b"+")
    sender.expect("connected")
    return sender, peer


def test_a_receiver_that_never_reads_is_a_stall(start: StartAgent) -> None:
    sender, peer = admitted_reader(start, duration_s=LONG_S, stall_timeout_s=0.5)
    with peer:
        sender.command("start", id="job-1")
        event = error_of(sender)
        assert (event["kind"], event["flow"]) == ("stalled", 0)
    assert_works(start(), sender)


def admitted_writer(start: StartAgent, **changes: object) -> tuple[Agent, socket.socket]:
    """Return a receiver and the admitted connection of the sender that we play."""
    receiver = start()
    peer = dial(arm(receiver, **changes))
    peer.sendall(header(0, 1))
    assert peer.recv(1) == b"+"
    receiver.expect("connected")
    return receiver, peer


def send_nothing(_: socket.socket) -> None:
    pass


def end(peer: socket.socket) -> None:
    peer.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize(
    ("behave", "kind"), [(send_nothing, "stalled"), (end, "reset"), (reset, "reset")]
)
def test_a_sender_that_stops_early(
    start: StartAgent, behave: Callable[[socket.socket], None], kind: str
) -> None:
    receiver, peer = admitted_writer(start, duration_s=LONG_S, stall_timeout_s=0.5)
    with peer:
        peer.sendall(b"x" * 1000)
        behave(peer)
        event = error_of(receiver)
        assert (event["kind"], event["flow"]) == (kind, 0)
    assert_works(receiver, start())


def test_flows_that_do_not_overlap_are_an_error(start: StartAgent) -> None:
    receiver = start()
    port = arm(receiver, connections=2, duration_s=0.02)
    with dial(port) as one, dial(port) as two:
        for flow, sock in enumerate((one, two)):
            sock.sendall(header(flow, 2))
            assert sock.recv(1) == b"+"
        receiver.expect("connected")
        one.sendall(b"x")
        receiver.idle()
        threads = receiver.threads()
        began = time.monotonic()
        while time.monotonic() - began < 0.05:
            one.sendall(b"x")
        one.shutdown(socket.SHUT_WR)
        assert one.recv(1) == b""
        until(lambda: receiver.threads() < threads)  # the flow's end is noted after it was told
        two.sendall(b"x")
        two.shutdown(socket.SHUT_WR)
        assert error_of(receiver)["kind"] == "no-overlap"


@pytest.mark.parametrize(("limit", "flows"), [(20, 64), (200, 500)])
def test_too_few_descriptors_are_a_resource_error(
    start: StartAgent, limit: int, flows: int
) -> None:
    """With 500 flows some are admitted before the descriptors run out."""
    receiver, sender = start(), start()
    resource.prlimit(sender.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
    port = arm(receiver, connections=flows)
    sender.command("bulk", side="connect", host="127.0.0.1", port=port, **job(connections=flows))
    assert error_of(sender)["kind"] == "resource"
    sender.idle()


def test_a_slow_receiver_bounds_the_duration(start: StartAgent) -> None:
    """A sender whose buffers are full still stops at its deadline, and waits to be drained."""
    sender = start()
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender.command(
            "bulk",
            side="connect",
            host="127.0.0.1",
            port=server.getsockname()[1],
            **job(duration_s=0.3),
        )
        peer, _ = server.accept()
    with peer:
        peer.settimeout(TIMEOUT_S)
        assert peer.recv(48, socket.MSG_WAITALL)
        peer.sendall(b"+")
        sender.expect("connected")
        sender.command("start", id="job-1")
        sender.expect("interval")
        sender.expect("interval")
        sender.idle()
        count = 0
        while data := peer.recv(1 << 20):
            count += len(data)
        peer.close()
    result = sender.ending()[1]
    assert result["event"] == "result", result
    assert way(result)["flows"][0]["bytes"] == count


def test_a_controller_that_reads_no_more_ends_the_agent(start: StartAgent) -> None:
    """Nobody wants what it says: it gives up after some seconds instead of waiting for ever."""
    agent, peer = start(), start()
    running(peer, agent)
    assert agent.process.stdout is not None
    fcntl.fcntl(agent.process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    agent.write(b'{"cmd":"clock"}\n' * 200)
    assert agent.process.wait(TIMEOUT_S) == 1
    assert error_of(peer)["kind"] == "reset"
