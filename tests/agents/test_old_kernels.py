"""An agent on a kernel that lacks what came after Linux 3.10: it measures with what is there."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from osmef.agent.messages import BulkResult, IntervalEvent
from tests.agents import programs, two_ended_jobs, web
from tests.agents.compiling import WARNINGS, compile_with
from tests.agents.faulty import FaultyAgent
from tests.agents.lab import Agent, StartAgent, arm, closed_port, connect, job, succeed, way
from tests.agents.test_exec_server import TCP_SERVER, UDP_SERVER

HERE = Path(__file__).parent
MACHINES = ("x86_64", "aarch64")
# The size of struct tcp_info in linux/tcp.h of those releases.
LINUX_3_10, LINUX_3_15, LINUX_4_10 = 104, 120, 192
SINCE_3_15 = {"pacing_rate_bps", "max_pacing_rate_bps"}
SINCE_4_10 = {"rtt_min_us", "delivery_rate_bps", "busy_us", "receive_window_limited_us"}
SINCE_4_10 |= {"send_buffer_limited_us"}
SINCE_4_19 = {"retransmitted_bytes", "sent_bytes"}
SINCE_5_4 = {"send_window"}
OF_THE_SOCKET = {"congestion_control", "send_buffer", "receive_buffer"}


@pytest.fixture(scope="module")
def old_kernel(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs the shipped agent without the system calls and options of today."""
    if not binary.name.endswith(MACHINES):
        pytest.skip("the filter knows the system calls of x86_64 and aarch64 only")
    launcher = tmp_path_factory.mktemp("old") / "old_kernel"
    compile_with("gcc", launcher, ["-O1", *WARNINGS], [HERE / "c" / "old_kernel.c"])
    return [str(launcher), str(binary)]


@pytest.fixture
def start_old(old_kernel: list[str]) -> Iterator[StartAgent]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Agent(*old_kernel))


def test_the_filter_takes_new_things_away(old_kernel: list[str]) -> None:
    """Else the tests below would show nothing."""
    probe = (
        "import os, socket\n"
        "s = socket.socket()\n"
        "for level, option in ((socket.SOL_SOCKET, 47), (socket.IPPROTO_TCP, 25)):\n"
        "    try: s.setsockopt(level, option, 1)\n"
        "    except OSError as e: print(e.errno)\n"
        "try: socket.socket(proto=262)\n"
        "except OSError as e: print(e.errno)\n"
        "try: os.memfd_create('x')\n"
        "except OSError as e: print(e.errno)\n"
        "print(s.getsockopt(socket.IPPROTO_TCP, 24))\n"
    )
    argv = [old_kernel[0], "/usr/bin/env", "python3", "-c", probe]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.split()[:4] == [
        "92",
        "92",
        "93",
        "38",
    ]  # ENOPROTOOPT, EPROTONOSUPPORT, ENOSYS
    assert len(done.stdout.split()) == 5


@pytest.mark.parametrize(("kind", "server"), [("tcp", TCP_SERVER), ("udp", UDP_SERVER)])
@pytest.mark.parametrize(
    ("listens", "asked"),
    [
        ("127.0.0.1", {"bind": "127.0.0.1"}),
        ("0.0.0.0", {"bind": "127.0.0.1"}),  # noqa: S104
        ("127.0.0.1", {}),
    ],
)
def test_listening_sockets_are_found_in_proc_net(
    start_old: StartAgent, kind: str, server: str, listens: str, asked: programs.Keys
) -> None:
    agent, port = start_old(), closed_port()
    argv = programs.python(server, listens, str(port))
    programs.serve(agent, argv, ready=kind, port=port, **asked)
    agent.command("stop", id="job-1")
    assert programs.outputs(agent)[1]["stopped"]


@pytest.mark.parametrize("flows", [1, 8])
def test_a_transfer_needs_nothing_newer(start_old: StartAgent, flows: int) -> None:
    sender, receiver = start_old(), start_old()
    connect(sender, receiver, connections=flows)
    sender.command("start", id="job-1")
    (_, sent), (_, received) = succeed(sender, receiver)
    assert [f["bytes"] for f in way(sent)["flows"]] == [f["bytes"] for f in way(received)["flows"]]
    assert sender.close_input() == 0
    assert receiver.close_input() == 0


@pytest.mark.parametrize("mode", ["zerocopy", "discard", "zerocopy-discard"])
def test_the_modes_need_nothing_newer(start_old: StartAgent, mode: str) -> None:
    sender, receiver = start_old(), start_old()
    connect(sender, receiver, connections=2, mode=mode)
    sender.command("start", id="job-1")
    (_, sent), (_, received) = succeed(sender, receiver)
    counts = [[flow["bytes"] for flow in way(end)["flows"]] for end in (sent, received)]
    assert counts[0] == counts[1]
    assert min(counts[0]) > 0


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("exchange", {"rate_per_s": 100}),
        ("sizes", {"max_size": 9, "point_s": 0.001, "min_repetitions": 1, "mode": "both"}),
        ("udp", {"rate_bps": 4e5, "burst": 4}),
        ("udp", {}),
    ],
)
def test_the_other_kinds_need_nothing_newer(
    start_old: StartAgent, kind: str, keys: dict[str, object]
) -> None:
    one, other = start_old(), start_old()
    two_ended_jobs.join(kind, one, other, **keys)
    for agent in (one, other):
        assert two_ended_jobs.result(agent)[1]["event"] == "result"


def test_pong_ping_and_siege_need_nothing_newer(start_old: StartAgent) -> None:
    web.besiege_in_a_row(start_old(), start_old(), start_old())


def test_programs_need_nothing_newer(start_old: StartAgent) -> None:
    programs.try_all(start_old)


@pytest.mark.parametrize(("key", "value"), [("pacing_bps", 1e9), ("mptcp", True)])
def test_an_option_that_the_kernel_lacks_is_an_error_that_names_it(
    start_old: StartAgent, key: str, value: object
) -> None:
    sender, receiver = start_old(), start_old()
    port = arm(receiver)
    sender.command("bulk", side="connect", host="127.0.0.1", port=port, **job(), **{key: value})
    error = sender.ending()[1]
    assert error["kind"] == "option"
    assert "Linux" in error["message"]
    sender.idle()


@pytest.mark.parametrize(
    ("length", "missing"),
    [
        (LINUX_3_10, SINCE_3_15 | SINCE_4_10 | SINCE_4_19 | SINCE_5_4),
        (LINUX_3_15, SINCE_4_10 | SINCE_4_19 | SINCE_5_4),
        (LINUX_4_10, SINCE_4_19 | SINCE_5_4),
        (4, None),
    ],
)
def test_values_that_the_kernel_does_not_report_are_null(
    start_faulty: FaultyAgent, length: int, missing: set[str] | None
) -> None:
    sender, receiver = start_faulty(FAULT_TCP_INFO=length), start_faulty(FAULT_TCP_INFO=length)
    connect(sender, receiver)
    sender.command("start", id="job-1")
    (intervals, raw), _ = succeed(sender, receiver)
    for flow in BulkResult.model_validate(raw).way.flows:
        figures = flow.tcp.model_dump(exclude=OF_THE_SOCKET | {"lost"})
        null = {key for key, value in figures.items() if value is None}
        usual = {"receive_rtt_us", "pacing_rate_bps", "delivery_rate_bps", "rtt_min_us"}
        usual |= {"max_pacing_rate_bps"}
        expected = set(figures) if missing is None else missing
        assert expected <= null, f"read beyond what the kernel knows: {expected - null}"
        assert null <= expected | usual
        assert flow.tcp.congestion_control
    for event in intervals:
        retransmits = IntervalEvent.model_validate(event).retransmits
        assert retransmits is not None
        assert (retransmits[0] is None) == (missing is None)
