"""Error of a failed trial: where, what, and the cure."""

from __future__ import annotations

import signal

from osmef.agent.messages import ErrorEvent, ExecResult, OutputEnded
from osmef.errors import AgentError, EndpointError, ProgramError
from osmef.scenario.fields import DATA_PORTS
from osmef.workloads.reading import Printed
from osmef.workloads.tasks import PROGRAM, Task

Fault = ErrorEvent | OutputEnded | ExecResult
"""An agent's report on a failed job; a result is that of a program that failed."""

_PORTS = f"{DATA_PORTS.start} to {DATA_PORTS.stop - 1}"
CLOSED_CURE = (
    f"are the ports {_PORTS} (TCP and UDP) open between both ends (firewall, security group,"
    " route)?"
)
ASKED_CURE = (
    "does the server answer there what is asked of it, and may the endpoint reach it (firewall,"
    " route)? try the URL there with curl;"
)
LATE_CURE = "raise the workload's deadline, or let it ask for less"

BIND_CURE = "is this an address of its own? behind NAT the inventory names it as listen_address"

# What one end sees when the other one fails.
_EFFECTS = ("reset", "aborted")
_CURES = {
    "stalled": "look at the path between both ends: links, MTU, firewall",
    "reset": "the other end closed early; look at its error, memory and kernel log",
    "connect": CLOSED_CURE,
    "arm-timeout": CLOSED_CURE,
    "bind": BIND_CURE,
    "directory": "does the directory exist there, and may this user write in it?",
    "room": "name a directory with more room, or let it write less",
    "resource": "the endpoint is short of memory, threads or file descriptors",
}
_PRINTED_CURE = "look at what it printed, all of which is in raw/"
_EXITS_CURE = "exits names the statuses that are no failure (kind: program)"
_KILLED_CURE = "did it take too much memory? the endpoint's kernel log shows it (dmesg)"
_CRASHED_CURE = "run it there by hand; the endpoint's kernel log may say more (dmesg)"
_READY_CURES = {
    "line": "is it what it prints? one that keeps back what it prints into a pipe needs stdbuf -oL",
    "tcp": "let it listen on {port}, at {bind} or at all addresses",
    "udp": "let it bind the UDP port {port}, at {bind} or at all addresses",
}
# Kinds of errors that agents report of programs, with the cure.
_PROGRAM_CURES = {
    "program": _PRINTED_CURE,
    "output": "raise most_output, or let it print less",
    "deadline": LATE_CURE,
    "arm-timeout": "is the endpoint overloaded?",
    "left": "end them there; OSMeF can't kill what belongs to another user, as with sudo",
}
_MISSING_CURE = "install it there, or name it in needs: that brings one for this kind of machine"
_RUNS_ON_CURE = f"write serves: true for a server that does not end by itself; or {LATE_CURE}"
_TAKEN_CURE = (
    f"ports before this one are taken, too: end what holds those of {_PORTS} there (ss -tulpn)"
)


def ended_badly(task: Task, result: ExecResult) -> bool:
    """Return whether a program has ended by itself, unsuccessfully."""
    return not result.stopped and result.status not in task.step.exits


def rank(fault: Fault) -> int:
    """Rank failures: a lost agent first, then a cause, then an effect."""
    if isinstance(fault, OutputEnded):
        return 0
    return 2 if isinstance(fault, ErrorEvent) and fault.kind in _EFFECTS else 1


def error_of(task: Task, fault: Fault) -> EndpointError:
    """Return the error of a failed job."""
    match fault:
        case OutputEnded():
            return task.agent.lost_error(fault.reason)
        case ExecResult():
            return _of_end(task, fault)
        case ErrorEvent() if task.step.command == PROGRAM and fault.kind in _PROGRAM_CURES:
            return _of_program(task, fault)
        case ErrorEvent():
            flow = "" if fault.flow is None else f" (connection {fault.flow})"
            taken = fault.kind == "bind" and task.step.command == PROGRAM
            asked = fault.kind == "connect" and "host" in task.step.parameters
            return AgentError(
                f"{fault.kind}{flow}: {fault.message}",
                where=task.host.name,
                cure=_TAKEN_CURE if taken else ASKED_CURE if asked else _CURES.get(fault.kind),
            )


def _of_end(task: Task, result: ExecResult) -> ProgramError:
    how, cure = f"ended with exit status {result.status}", f"{_PRINTED_CURE}; {_EXITS_CURE}"
    if result.signal is not None:
        how = f"was killed by {_signal_name(result.signal)}"
        cure = _KILLED_CURE if result.signal == signal.SIGKILL else _CRASHED_CURE
    printed = Printed(bytes(task.stdout), bytes(task.stderr))
    return ProgramError(f"{_name(task)} {how}", tail=printed.tail, where=task.host.name, cure=cure)


def _of_program(task: Task, event: ErrorEvent) -> ProgramError:
    """Return the error of a program that did not start or complete."""
    name, message, cure = _name(task), event.message, _PROGRAM_CURES[event.kind]
    if event.kind == "program" and message.startswith("can't run "):
        cure = _MISSING_CURE
    elif event.kind == "arm-timeout" and task.is_server:
        cure = _READY_CURES.get(str(task.step.parameters.get("ready")), cure)
    elif event.kind == "deadline" and task.is_server and not task.step.serves:
        cure = _RUNS_ON_CURE
    if not message.startswith(f"can't run {name}: "):
        message = f"{name}: {message}"
    return ProgramError(message, where=task.host.name, cure=cure)


def _name(task: Task) -> str:
    """Return the name of a step's program."""
    argv = task.step.parameters["argv"]
    return str(argv) if isinstance(argv, str | int | float) else argv[0]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
