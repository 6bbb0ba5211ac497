"""Processes of one job that find each other through the controller."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import AgentError, EndpointError, ProgramError
from osmef.workloads.base import Part, Step, Value
from osmef.workloads.tasks import KeyValueSpace, TaskTimeouts
from osmef.workloads.trial_runner import TrialJob, TrialResults, run_parts
from tests.workloads.conftest import MakeHosts, Victim, pairs


def told(exchange: KeyValueSpace, rank: int, *lines: str) -> list[tuple[int, str]]:
    return list(exchange.take(rank, "".join(f"{line}\n" for line in lines).encode()))


def test_a_value_that_one_process_puts_can_be_read_by_another() -> None:
    exchange = KeyValueSpace(["a", "b"])
    assert told(exchange, 0, "cmd=put kvsname=osmef key=card-0 value=10.0.0.1#20000") == [
        (0, "cmd=put_result rc=0 msg=success\n")
    ]
    assert told(exchange, 1, "cmd=get kvsname=osmef key=card-0") == [
        (1, "cmd=get_result rc=0 msg=success value=10.0.0.1#20000\n")
    ]
    assert told(exchange, 1, "cmd=get kvsname=osmef key=card-7")[0][1].startswith(
        "cmd=get_result rc=-1 "
    )


def test_a_barrier_waits_for_all_and_can_be_used_again() -> None:
    exchange = KeyValueSpace(["a", "b", "b"])
    for _ in range(2):
        assert told(exchange, 2, "cmd=barrier_in") == []
        assert told(exchange, 0, "cmd=barrier_in") == []
        everybody = [(rank, "cmd=barrier_out\n") for rank in range(3)]
        assert told(exchange, 1, "cmd=barrier_in") == everybody


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init"),
        ("cmd=get_maxes", "maxes kvsname_max=256 keylen_max=64 vallen_max=1024"),
        ("cmd=get_appnum", "appnum appnum=0"),
        ("cmd=get_my_kvsname", "my_kvsname kvsname=osmef"),
        ("cmd=get_universe_size", "universe_size size=2"),
        ("cmd=finalize", "finalize_ack"),
    ],
)
def test_each_question_has_its_answer(line: str, answer: str) -> None:
    ((rank, said),) = told(KeyValueSpace(["a", "b"]), 1, line)
    assert rank == 1
    assert said.startswith(f"cmd={answer}")


@pytest.mark.parametrize(
    ("nodes", "mapping"),
    [
        (["a"], "(vector,(0,1,1))"),
        (["a", "b"], "(vector,(0,2,1))"),
        (["a", "a", "b", "b"], "(vector,(0,2,2))"),
        (["a", "a", "b", "c", "c"], "(vector,(0,1,2),(1,1,1),(2,1,2))"),
    ],
)
def test_processes_know_which_others_share_their_endpoint(
    nodes: Sequence[str], mapping: str
) -> None:
    ((_, said),) = told(KeyValueSpace(nodes), 0, "cmd=get kvsname=osmef key=PMI_process_mapping")
    assert said.endswith(f"value={mapping}\n")


@given(st.lists(st.integers(1, 40), max_size=20))
def test_lines_may_come_in_any_pieces(sizes: list[int]) -> None:
    lines = b"cmd=put kvsname=k key=a value=b\ncmd=get kvsname=k key=a\ncmd=finalize\n"
    whole = list(KeyValueSpace(["a"]).take(0, lines))
    exchange, at = KeyValueSpace(["a"]), 0
    found: list[tuple[int, str]] = []
    for size in [*sizes, len(lines)]:
        found += exchange.take(0, lines[at : at + size])
        at += size
    assert found == whole


@given(st.binary(max_size=300))
def test_any_input_of_a_process_is_answered_or_an_error_of_its_endpoint(data: bytes) -> None:
    where, answers = "b", []
    try:
        answers = list(KeyValueSpace(["a", "b"]).take(1, data))
    except ProgramError as error:
        where = str(error.where)
    assert where == "b"
    assert all(rank == 1 and text.startswith("cmd=") for rank, text in answers)


@pytest.mark.parametrize(
    "line",
    [
        "cmd=spawn",
        "mcmd=spawn",
        "",
        "hello",
        f"cmd=put key=a value={'x' * 1025}",
        f"cmd=put key={'x' * 65} value=a",
        "cmd=put key= value=a",
        "x" * 5000,
    ],
)
def test_an_unknown_pmi_command_is_an_error(line: str) -> None:
    with pytest.raises(ProgramError) as caught:
        told(KeyValueSpace(["a", "b"]), 1, line)
    assert caught.value.where == "b"
    assert caught.value.cure


def test_a_line_without_end_is_an_error() -> None:
    exchange = KeyValueSpace(["a"])
    for _ in range(4):
        assert list(exchange.take(0, b"x" * 1000)) == []
    with pytest.raises(ProgramError):
        list(exchange.take(0, b"x" * 1000))


def test_the_key_value_space_is_limited_in_size() -> None:
    exchange = KeyValueSpace(["a"])
    lines = [f"cmd=put key={number} value=x" for number in range(10_000)]
    with pytest.raises(ProgramError, match="more than"):
        told(exchange, 0, *lines)


# --- with real agents -------------------------------------------------------------------------

PROCESS = """
import os, socket, sys
rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
channel = socket.socket(fileno=int(os.environ["PMI_FD"]))
lines = channel.makefile("r", newline="\\n")

def ask(line):
    channel.sendall(line.encode() + b"\\n")
    return lines.readline().strip()

ask("cmd=init pmi_version=1 pmi_subversion=1")
if sys.argv[1:] == [str(rank)]:
    print("it has its reasons", file=sys.stderr)
    sys.exit(7)
ask("cmd=put kvsname=k key=of-%d value=%d" % (rank, rank * rank))
ask("cmd=barrier_in")
print([ask("cmd=get kvsname=k key=of-%d" % one).rpartition("=")[2] for one in range(size)])
ask("cmd=finalize")
"""


def processes(count: int, *arguments: str, argv: Sequence[str] = ()) -> tuple[Part, ...]:
    """Return so many processes of one job at each sender."""
    program = [*(argv or ["python3", "-c", PROCESS, *arguments])]
    parameters: dict[str, Value] = {
        "argv": program,
        "env": ["WHERE={interface}"],
        "deadline_s": 20.0,
    }
    step = Step("sender", "exec", parameters, output_bytes=10_000, stoppable=True, rank=True)
    return tuple(Part((step,), duration_s=1.0, deadline_s=20.0) for _ in range(count))


def run(hosts: list[Victim], parts: Sequence[Part]) -> TrialResults:
    return run_parts(TrialJob(3, pairs(hosts, hosts[:1]), waits=TaskTimeouts(grace_s=1.0)), parts)


def test_all_processes_of_all_endpoints_are_one_job(hosts: MakeHosts) -> None:
    done = run(hosts("one", "two", "three"), processes(2))
    ran = [part for pair in done.ran for part in pair]
    printed = [part.printed[0].text_of_stdout.strip() for part in ran]
    assert printed == [str([str(rank * rank) for rank in range(6)])] * 6
    assert {part.interfaces for part in ran} == {("lo",)}


def test_a_failed_process_ends_the_others(hosts: MakeHosts) -> None:
    with pytest.raises(ProgramError, match="exit status 7") as caught:
        run(hosts("one", "two"), processes(1, "1"))
    assert caught.value.where == "two"
    assert "it has its reasons" in caught.value.tail


def test_a_process_that_was_killed_is_reported_and_not_one_that_aborts_for_that(
    hosts: MakeHosts,
) -> None:
    program = """
import os, select, signal
rank, channel = int(os.environ["PMI_RANK"]), open(int(os.environ["PMI_FD"]), "r+b", buffering=0)
def ask(line):
    channel.write(line.encode() + b"\\n")
    return channel.readline().decode()
ask("cmd=put kvsname=k key=pid-%d value=%d" % (rank, os.getpid()))
ask("cmd=barrier_in")
other = os.pidfd_open(int(ask("cmd=get kvsname=k key=pid-1").rpartition("=")[2]))
ask("cmd=barrier_in")
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
select.select([other], [], [])
ask("cmd=abort exitcode=15")
"""
    with pytest.raises(ProgramError, match="killed by SIGKILL") as caught:
        run(hosts("one", "two"), processes(1, argv=["python3", "-c", program]))
    assert caught.value.where == "two"


def test_an_unknown_pmi_command_is_reported_with_the_output_of_the_process(
    hosts: MakeHosts,
) -> None:
    talk = (
        "import os, time; print('its words', flush=True);"
        " os.write(int(os.environ['PMI_FD']), b'hello\\n'); time.sleep(60)"
    )
    with pytest.raises(ProgramError, match="not known here: 'hello'") as caught:
        run(hosts("one", "two"), processes(1, argv=["python3", "-c", talk]))
    assert "its words" in caught.value.tail


def test_a_process_that_aborts_the_job_ends_it_at_once(hosts: MakeHosts) -> None:
    # As MPICH does: the reason on standard error, then the request, which nothing ever answers.
    abort = (
        "import os, socket, sys; sys.stderr.write('Fatal error in internal_Init\\n');"
        " channel = socket.socket(fileno=int(os.environ['PMI_FD']));"
        " channel.sendall(b'cmd=abort exitcode=15\\n'); channel.recv(1)"
    )
    with pytest.raises(ProgramError, match="aborted the job, with exit code 15") as caught:
        run(hosts("one", "two"), processes(1, argv=["python3", "-c", abort]))
    assert "of 2 aborted" in caught.value.message
    assert "Fatal error in internal_Init" in caught.value.tail


def test_a_killed_agent_ends_the_trial(hosts: MakeHosts) -> None:
    victims = hosts("one", "two")
    victims[1].doomed = True
    with pytest.raises(AgentError) as caught:
        run(victims, processes(1))
    assert caught.value.where == "two"


def test_an_address_without_an_interface_is_an_error(hosts: MakeHosts) -> None:
    (one,) = hosts("one")
    there = [pair.__class__(one, one, "192.0.2.9", "192.0.2.9") for pair in pairs([one], [one])]
    with pytest.raises(EndpointError, match="no network interface"):
        run_parts(TrialJob(3, there), processes(1))
