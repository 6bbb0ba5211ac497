"""Parts of several pairs with real agents, as they should be and with one end failing."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from osmef.agent.messages import BulkResult
from osmef.errors import AgentError, Interrupted
from osmef.results.observations import Purpose
from osmef.scenario.fields import DATA_PORTS
from osmef.scenario.workload import WorkloadSettings
from osmef.workloads.base import Part, PartResult, Step
from osmef.workloads.kinds.btc import BtcSettings, BulkTransfer
from osmef.workloads.kinds.pingpong import PingPongSettings
from osmef.workloads.kinds.udp import UdpSettings
from osmef.workloads.tasks import Pair, TaskTimeouts
from osmef.workloads.trial_runner import TrialJob, run_parts
from osmef.workloads.trial_workload import workload_for
from tests.workloads.conftest import MakeHosts, MakeScript, Victim, pairs


def parts(**settings: Any) -> tuple[Part, ...]:
    wanted = {"duration": "300ms", "interval": "100ms", **settings}
    return BulkTransfer(BtcSettings.model_validate(wanted)).parts()


def start_ns(ran: PartResult) -> int:
    """Return when the end that connects started, by this machine's one clock."""
    result = ran.results[-1]
    assert isinstance(result, BulkResult)
    return result.start_realtime_ns


def received(ran: PartResult) -> int:
    (result,) = (r for r in ran.results if isinstance(r, BulkResult) and r.role == "receiver")
    return sum(flow.bytes for flow in result.way.flows)


def test_a_later_transfer_s_times_follow_the_first_s_though_a_clock_was_set(
    hosts: MakeHosts,
) -> None:
    job = TrialJob(7, pairs(hosts("s1"), hosts("r1")))
    first = run_parts(job, parts())
    later = run_parts(job, parts())
    ((before,),), ((after,),) = first.ran, later.ran
    set_back = [
        one.model_copy(update={"start_realtime_ns": start_ns(after) - 3600 * 10**9})
        for one in after.results
    ]
    ((one, other),) = first.then(
        replace(later, ran=[[replace(after, results=tuple(set_back))]])
    ).ran
    assert one == before
    apart_s = (start_ns(after) - start_ns(before)) / 1e9
    assert before.results[-1].elapsed_s < other.start_s < apart_s + 60
    assert {interval.began_s for interval in other.intervals} == {other.start_s}


def test_every_sender_sends_to_every_receiver_at_one_time(hosts: MakeHosts) -> None:
    senders, receivers = hosts("s1", "s2"), hosts("r1", "r2")
    rates: list[float] = []
    job = TrialJob(7, pairs(senders, receivers), progress=rates.append)
    done = run_parts(job, parts(duration="1s", connections=2))
    ran = [one for (one,) in done.ran]
    assert [(one.sender, one.receiver) for one in ran] == [
        ("s1", "r1"), ("s1", "r2"), ("s2", "r1"), ("s2", "r2"),
    ]  # fmt: skip
    assert all(received(one) > 0 for one in ran)
    assert max(map(start_ns, ran)) - min(map(start_ns, ran)) < 1e9, "all ran together"
    starts = sorted(one.start_s for one in ran)
    assert starts[0] == 0
    assert done.start_spread_s == pytest.approx(starts[-1])
    assert done.start_uncertainty_s is not None
    assert 0 < done.start_uncertainty_s < 5
    assert max(rates) > 0
    for one in ran:
        assert {(i.endpoint, i.peer, i.role) for i in one.intervals} == {
            (one.sender, one.receiver, "sender"),
            (one.receiver, one.sender, "receiver"),
        }
        assert {(i.trial, i.purpose) for i in one.intervals} == {(7, "measured")}


def test_one_endpoint_can_be_both_ends_and_a_single_start_waits_for_no_clock(
    hosts: MakeHosts,
) -> None:
    (loopback,) = hosts("here")
    done = run_parts(TrialJob(1, pairs([loopback], [loopback])), parts())
    assert received(done.ran[0][0]) > 0
    assert done.start_spread_s is None


def test_a_part_starts_later_by_its_delay(hosts: MakeHosts) -> None:
    senders, receivers = hosts("s1"), hosts("r1")
    (first,) = parts()
    (ran,) = run_parts(
        TrialJob(1, pairs(senders, receivers)), [first, replace(first, delay_s=1.0)]
    ).ran
    assert start_ns(ran[1]) - start_ns(ran[0]) > 0.3e9


def test_the_same_agents_take_one_trial_after_the_other(hosts: MakeHosts) -> None:
    senders, receivers = hosts("s1"), hosts("r1")
    before = senders[0].agent("job-0")
    for trial in (1, 2):
        run_parts(TrialJob(trial, pairs(senders, receivers)), parts())
    assert senders[0].agent("job-0") is before


def hold_next_port(host: Victim) -> socket.socket:
    """Let another program listen on the port that the endpoint's next job would get."""
    while True:
        port = host.data_ports(1) + 1
        if port in DATA_PORTS:
            with suppress(OSError):  # another test's job has it
                return socket.create_server(("127.0.0.1", port))


@pytest.mark.parametrize(
    "settings", [BtcSettings(), UdpSettings(connections=3), PingPongSettings()]
)
def test_a_port_that_another_program_holds_is_passed_over(
    hosts: MakeHosts, settings: WorkloadSettings
) -> None:
    senders, receivers = hosts("s1"), hosts("r1")
    quick = settings.model_copy(update={"duration": 0.3, "interval": 0.1, "repetitions": 1})
    with hold_next_port(receivers[0]), hold_next_port(senders[0]):
        done = run_parts(
            TrialJob(1, pairs(senders, receivers)), workload_for(quick, background=False).parts()
        )
    assert len(done.ran[0][0].results) >= 2


def test_a_missing_address_is_reported_after_retries(hosts: MakeHosts) -> None:
    (host,) = hosts("s1")
    with pytest.raises(AgentError, match=r"bind: .*192\.0\.2\.1") as caught:
        run_parts(TrialJob(1, [Pair(host, host, "192.0.2.1", "192.0.2.1")]), parts())
    assert caught.value.where == "s1"


# --- one end fails


Fault = Callable[[Victim, TrialJob], TrialJob]


def killed_before_it_is_armed(victim: Victim, job: TrialJob) -> TrialJob:
    victim.doomed = True
    return job


def killed_while_all_are_armed(victim: Victim, job: TrialJob) -> TrialJob:
    waits: list[None] = []

    def check() -> None:
        waits.append(None)
        if len(waits) == 1:
            victim.signal()

    return replace(job, check=check)


def killed_while_it_runs(victim: Victim, job: TrialJob) -> TrialJob:
    dead: list[float] = []

    def progress(rate: float) -> None:
        if not dead:
            dead.append(rate)
            victim.signal()

    return replace(job, progress=progress)


@pytest.mark.parametrize(
    "fault", [killed_before_it_is_armed, killed_while_all_are_armed, killed_while_it_runs]
)
@pytest.mark.parametrize("end", ["sender", "receiver"])
def test_the_end_that_is_killed_is_blamed_and_the_next_trial_is_well(
    hosts: MakeHosts, fault: Fault, end: str
) -> None:
    senders, receivers = hosts("s1", "s2"), hosts("r1")
    victim = senders[0] if end == "sender" else receivers[0]
    job = fault(victim, TrialJob(1, pairs(senders, receivers)))
    started = time.monotonic()
    with pytest.raises(AgentError, match=r"the agent is gone: .*(killed|KILL)") as caught:
        run_parts(job, parts(duration="20s"))
    assert caught.value.where == victim.name
    assert "background" not in caught.value.message
    assert time.monotonic() - started < 15
    done = run_parts(TrialJob(2, pairs(senders, receivers)), parts())
    assert all(received(ran) > 0 for (ran,) in done.ran)


def test_a_background_that_dies_fails_the_trial_and_is_named(hosts: MakeHosts) -> None:
    senders, receivers = hosts("s1"), hosts("r1")
    (measured,) = parts(duration="20s")
    beside = replace(measured, purpose=Purpose.BACKGROUND)
    job = killed_while_it_runs(receivers[0], TrialJob(1, pairs(senders, receivers)))
    with pytest.raises(AgentError, match=r"the background: the agent is gone") as caught:
        run_parts(job, [beside, measured])
    assert caught.value.where == "r1"


def test_a_stop_ends_all_of_it(hosts: MakeHosts) -> None:
    senders, receivers = hosts("s1", "s2"), hosts("r1")
    running: list[float] = []

    def check() -> None:
        if running:
            raise Interrupted("stopped by the test")

    started = time.monotonic()
    job = TrialJob(1, pairs(senders, receivers), running.append, check)
    with pytest.raises(Interrupted):
        run_parts(job, parts(duration="20s"))
    assert time.monotonic() - started < 15
    run_parts(TrialJob(2, pairs(senders, receivers)), parts())


def test_an_agent_that_hangs_is_named_and_ended(hosts: MakeHosts) -> None:
    senders, receivers = hosts("s1"), hosts("r1")
    hanging = receivers[0].agent("job-0")
    receivers[0].signal(signal.SIGSTOP)
    waits = TaskTimeouts(arm_s=0.2, grace_s=0.2, abort_s=0.2)
    with pytest.raises(AgentError, match="missed every deadline") as caught:
        run_parts(TrialJob(1, pairs(senders, receivers), waits=waits), parts())
    assert caught.value.where == "r1"
    assert hanging.gone is not None
    run_parts(TrialJob(2, pairs(senders, receivers)), parts())


def test_agents_that_hang_are_ended_at_once_on_all_endpoints(hosts: MakeHosts) -> None:
    senders, receivers = hosts("s1"), hosts("r1", "r2", "r3", "r4", "r5", "r6")
    for host in receivers:
        host.agent("job-0")
        host.signal(signal.SIGSTOP)
    waits = TaskTimeouts(arm_s=0.1, grace_s=0.1, abort_s=0.1)
    began = time.monotonic()
    with pytest.raises(AgentError, match="missed every deadline"):
        run_parts(TrialJob(1, pairs(senders, receivers), waits=waits), parts())
    assert time.monotonic() - began < 4


def test_an_agent_without_a_clock_is_named_and_ended(hosts: MakeHosts) -> None:
    senders, receivers = hosts("s1", "s2"), hosts("r1")
    for host in (*senders, *receivers):
        host.agent("job-0")
    receivers[0].agent("job-1")
    senders[1].signal(signal.SIGSTOP)
    with pytest.raises(AgentError, match="no clock within") as caught:
        run_parts(TrialJob(1, pairs(senders, receivers), waits=TaskTimeouts(clock_s=0.5)), parts())
    assert caught.value.where == "s2"
    run_parts(TrialJob(2, pairs(senders, receivers)), parts())


# --- agents that are not ours


def test_an_agent_that_does_not_understand_is_quoted_at_once(scripted: MakeScript) -> None:
    refusal = {"event": "error", "id": None, "kind": "protocol", "message": "not my thing"}
    script = f"read command\necho '{json.dumps(refusal)}'\ncat >/dev/null"
    host = scripted({"job-0": script, "job-1": script})
    started = time.monotonic()
    with pytest.raises(AgentError, match="not my thing"):
        run_parts(TrialJob(1, [Pair(host, host, "127.0.0.1", "127.0.0.1")]), parts())
    assert time.monotonic() - started < 10


USE = {"cpu_user_s": 0, "cpu_system_s": 0}
STAT = dict.fromkeys(
    ("elapsed_s", "user_s", "nice_s", "system_s", "idle_s", "iowait_s", "irq_s", "softirq_s",
     "steal_s", "guest_s"), 0,
)  # fmt: skip


def said(step: int, event: str, **values: object) -> str:
    """Return the shell's line that says an event of a step of the first part of trial 3."""
    return f"echo '{json.dumps({'event': event, 'id': f'3.0.0.{step}', **values})}'"


def result(step: int) -> str:
    used = {"process": USE, "endpoint": {"cpus": 1, **STAT}}
    values = {"job": "bulk", "direction": "forward", "start_realtime_ns": 1, "elapsed_s": 1}
    ends: dict[str, object] = {"sending": {"mode": "copy", "flows": []}}
    ends |= {"measured": {"start_s": 0, "length_s": 1, **used}}
    return said(step, "result", **values, **ends, **used)


SERVER = f"read command\n{said(0, 'listening', port=4711)}\nread stop"
CLIENT = f"read command\n{said(1, 'connected')}\nread start\n{result(1)}\ncat >/dev/null"
SERVED = Part(
    (
        Step("receiver", "pong", {}, listens=True, serves=True),
        Step("sender", "siege", {"requests": 1}),
    ),
    duration_s=0.1,
)


def test_a_server_is_stopped_when_the_others_have_their_results(scripted: MakeScript) -> None:
    server = f'{SERVER}\ncase $stop in *\\"stop\\"*) {result(0)};; esac\ncat >/dev/null'
    host = scripted({"job-0": server, "job-1": CLIENT})
    ((ran,),) = run_parts(TrialJob(3, [Pair(host, host, "127.0.0.1", "127.0.0.1")]), [SERVED]).ran
    assert [one.id for one in ran.results] == ["3.0.0.0", "3.0.0.1"]


def test_the_requests_a_second_of_all_pairs_are_shown(scripted: MakeScript) -> None:
    progress = said(1, "progress", elapsed_s=2.0, requests=500)
    client = CLIENT.replace("read start\n", f"read start\n{progress}\n")
    host = scripted({"job-0": f"{SERVER}\n{result(0)}\ncat >/dev/null", "job-1": client})
    shown: list[float] = []
    job = TrialJob(3, [Pair(host, host, "127.0.0.1", "127.0.0.1")], request_rate=shown.append)
    run_parts(job, [SERVED])
    assert shown == [250]


def test_a_relay_listens_and_connects(scripted: MakeScript) -> None:
    def checked(step: int, wanted: str, rest: str) -> str:
        refusal = said(step, "error", kind="protocol", message="not what was wanted")
        return f"read command\ncase $command in {wanted}) ;; *) {refusal};; esac\n{rest}"

    wants_both = r"*\"bind\":\ \"192.0.2.1\"*\"listen_port\":\ 20000*\"port\":\ 4711*"
    relay = f"{said(1, 'listening', port=4712)}\nread stop\n{result(1)}\ncat >/dev/null"
    client = f"{said(2, 'connected')}\nread start\n{result(2)}\ncat >/dev/null"
    host = scripted(
        {
            "job-0": f"{SERVER}\n{result(0)}\ncat >/dev/null",
            "job-1": checked(1, wants_both, relay),
            "job-2": checked(2, r"*\"host\":\ \"192.0.2.1\"*\"port\":\ 4712*", client),
        }
    )
    steps = (
        Step("receiver", "pong", {}, listens=True, serves=True),
        Step("sender", "ping", {}, listens=True, serves=True),
        Step("sender", "siege", {}),
    )
    pair = Pair(host, host, sender_address="192.0.2.1", receiver_address="192.0.2.2")
    ((ran,),) = run_parts(TrialJob(3, [pair]), [Part(steps, duration_s=0.1)]).ran
    assert len(ran.results) == 3


def test_a_server_that_does_not_stop_fails_the_trial_and_is_ended(
    scripted: MakeScript,
) -> None:
    host = scripted({"job-0": f"{SERVER}\ncat >/dev/null", "job-1": CLIENT})
    pair, waits = Pair(host, host, "127.0.0.1", "127.0.0.1"), TaskTimeouts(stop_s=0.2, abort_s=0.2)
    with pytest.raises(AgentError, match="missed every deadline") as caught:
        run_parts(TrialJob(3, [pair], waits=waits), [SERVED])
    assert caught.value.where == host.name
    assert host.started[0].gone is not None
