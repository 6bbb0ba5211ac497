"""Whatever happens to the controller or the sandbox, nothing stays and nothing else is touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from osmef.providers.base import EndpointRequest, Ledger, Resource
from osmef.providers.local import sandbox
from osmef.providers.local.provider import LocalProvider
from osmef.providers.local.wire import MODULE
from osmef.scenario import location
from osmef.scenario.clouds.local import LocalSettings

Start = Callable[..., subprocess.Popen[str]]
Gone = Callable[[str], None]
Vm = Callable[..., EndpointRequest]

WAIT_FOR_INPUT = "import sys; print('up', flush=True); sys.stdin.read()"


def ignored(_gone: Resource) -> None:
    pass


def daemon_of(run: str) -> int:
    """The process that is the first in the sandbox: the child of the one that is owned."""
    found = [process for process in sandbox.marked() if process.run == run]
    pids = {process.pid for process in found}
    return next(process.pid for process in found if process.parent in pids)


@pytest.fixture
def start_python() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", WAIT_FOR_INPUT, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_an_ordinary_end_leaves_nothing(start_controller: Start, run_name: str) -> None:
    controller = start_controller()
    out, _ = controller.communicate()
    assert out.split() == ["ready", "destroyed"]
    assert LocalProvider.owned({}, run_name) == []


def test_kill_9_of_the_controller_leaves_nothing(
    start_controller: Start, run_name: str, wait_all_gone: Gone
) -> None:
    controller = start_controller()
    assert controller.stdout
    assert controller.stdout.readline() == "ready\n"
    inside = sorted(children(daemon_of(run_name)))
    assert len(inside) == 2
    controller.kill()
    wait_all_gone(run_name)
    assert not [pid for pid in inside if Path(f"/proc/{pid}/exe").exists()]


def children(parent: int) -> list[int]:
    text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(pid) for pid in text.split()]


@pytest.mark.parametrize("step", ["intend", "created", "networks", "endpoints"])
def test_kill_9_in_the_middle_of_creation_leaves_nothing(
    start_controller: Start, run_name: str, wait_all_gone: Gone, step: str
) -> None:
    controller = start_controller(step)
    assert controller.wait(30) == -signal.SIGKILL
    wait_all_gone(run_name)
    assert LocalProvider.owned({}, run_name) == []


def test_a_signal_to_the_terminals_group_does_not_reach_the_sandbox(
    start_controller: Start, run_name: str
) -> None:
    controller = start_controller()
    assert controller.stdout
    assert controller.stdout.readline() == "ready\n"
    groups = {os.getpgid(process.pid) for process in sandbox.marked() if process.run == run_name}
    assert os.getpgid(controller.pid) not in groups


def test_a_stopped_sandbox_can_be_destroyed_by_its_id(
    start_controller: Start, run_name: str, wait_all_gone: Gone
) -> None:
    controller = start_controller()
    assert controller.stdout
    assert controller.stdout.readline() == "ready\n"
    os.kill(daemon_of(run_name), signal.SIGSTOP)
    controller.kill()
    controller.wait()
    (resource,) = LocalProvider.owned({}, run_name)
    assert resource.id in {other.id for other in LocalProvider.owned({})}
    LocalProvider.destroy([resource], ignored)
    assert LocalProvider.owned({}, run_name) == []
    LocalProvider.destroy([resource], ignored)  # gone already is success


def test_a_stopped_sandbox_can_be_destroyed_by_its_mark(
    start_controller: Start, run_name: str
) -> None:
    controller = start_controller()
    assert controller.stdout
    assert controller.stdout.readline() == "ready\n"
    os.kill(daemon_of(run_name), signal.SIGSTOP)
    controller.kill()
    controller.wait()
    LocalProvider.destroy([Resource("local", "sandbox", f"osmef-{run_name}", run_name)], ignored)
    assert LocalProvider.owned({}, run_name) == []


def test_close_ends_a_stopped_sandbox(
    make_cloud: Any, vm: Vm, ledger: Ledger, run_name: str
) -> None:
    with make_cloud(run_name, [vm("vm-1", "host-1")], LocalSettings(), ledger) as cloud:
        os.kill(daemon_of(run_name), signal.SIGSTOP)
        cloud.provider.close()
        assert LocalProvider.owned({}, run_name) == []


def test_a_dead_sandbox_is_reported_and_closed(
    make_cloud: Any, vm: Vm, ledger: Any, run_name: str, wait_all_gone: Gone
) -> None:
    with make_cloud(run_name, [vm("vm-1", "host-1")], LocalSettings(), ledger) as cloud:
        (resource,) = LocalProvider.owned({}, run_name)
        pid = int(str(resource.id).split(":")[1])
        os.kill(pid, signal.SIGKILL)  # the outer process; the inner one must not outlive it
        wait_all_gone(run_name)
        assert cloud.provider.describe([cloud.endpoints["vm-1"]]) == [location.Gone()]
        with pytest.raises(ConnectionError, match="sandbox has ended"):
            cloud.endpoints["vm-1"].login.connect()
    assert [event for event, _ in ledger.events][-1] == "destroyed"


def test_a_dead_endpoint_is_reported(
    make_cloud: Any, vm: Vm, ledger: Ledger, run_name: str
) -> None:
    requests = [vm("vm-1", "host-1"), vm("vm-2", "host-1")]
    with make_cloud(run_name, requests, LocalSettings(), ledger) as cloud:
        first = children(daemon_of(run_name))[0]
        handle = os.pidfd_open(first)
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        sandbox.wait_gone(handle, "vm-1")
        os.close(handle)
        assert cloud.provider.describe([cloud.endpoints["vm-1"]]) == [location.Gone()]
        with pytest.raises(OSError, match="refused"):
            cloud.endpoints["vm-1"].login.connect()
        assert cloud.provider.describe([cloud.endpoints["vm-2"]])[0].host == "host-1"


def test_another_runs_look_alike_is_not_touched(
    start_python: Callable[..., subprocess.Popen[str]], run_name: str
) -> None:
    other = start_python("-m", MODULE, "--run", f"{run_name}0", "--deadline", "1")
    (found,) = LocalProvider.owned({}, f"{run_name}0")
    LocalProvider.destroy([Resource("local", "sandbox", "x", run_name)], ignored)
    LocalProvider.destroy([replace(found, run=run_name)], ignored)
    assert other.poll() is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("-m", MODULE, "--run", "{run}", "--deadline", "1", "more"),
        ("-m", MODULE, "--run", "{run}", "--deadline", "soon"),
        ("-m", MODULE, "--run", "{run}", "--deadline", "²"),
        ("-m", MODULE, "--run", "{run}", "--deadline", "9" * 400),
        ("-m", MODULE, "--run", "{run}", "--deadline", "1", "x" * 100_000),
        ("-m", MODULE, "--run", "{run}"),
        (f"-m {MODULE} --run {{run}} --deadline 1",),
        (MODULE, "{run}"),
    ],
)
def test_a_process_that_only_mentions_a_sandbox_is_not_taken_for_one(
    start_python: Callable[..., subprocess.Popen[str]], run_name: str, arguments: tuple[str, ...]
) -> None:
    start_python(*(argument.format(run=run_name) for argument in arguments))
    assert LocalProvider.owned({}, run_name) == []


def test_an_unreadable_mark_is_reported_and_hides_no_other_resource(
    start_python: Callable[..., subprocess.Popen[str]], run_name: str
) -> None:
    odd = start_python("-m", MODULE, "--run", run_name, "--deadline", "²")
    start_python("-m", MODULE, "--run", run_name, "--deadline", "1")
    lines: list[str] = []
    assert len(LocalProvider.owned({}, run_name, lines.append)) == 1
    (told,) = (line for line in lines if f"process {odd.pid}:" in line)
    assert "its mark can't be read: " in told
    assert "'\\xb2'" in told


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_the_arguments_of_another_users_process_are_not_read(
    start_python: Callable[..., subprocess.Popen[str]], run_name: str
) -> None:
    """Root looks at all processes; a user at his own, whatever others have in their arguments."""
    look = (
        "import os\n"
        "from osmef.providers.local.provider import LocalProvider\n"
        "os.setuid(65534)\n"
        "print(LocalProvider.owned({}, None, print))\n"
    )
    start_python("-m", MODULE, "--run", run_name, "--deadline", "²")
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def test_a_process_with_a_reused_number_is_not_touched(
    start_python: Callable[..., subprocess.Popen[str]], run_name: str
) -> None:
    process = start_python("-m", MODULE, "--run", run_name, "--deadline", "1")
    (found,) = LocalProvider.owned({}, run_name)
    kind, pid, start = str(found.id).split(":")
    LocalProvider.destroy([replace(found, id=f"{kind}:{pid}:{int(start) + 1}")], ignored)
    assert process.poll() is None
    LocalProvider.destroy([found], ignored)
    assert process.wait(10) == -signal.SIGKILL
