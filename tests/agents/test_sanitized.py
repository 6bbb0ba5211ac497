"""The main cases once more in builds that watch memory, undefined behaviour and data races."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents import build
from tests.agents.lab import Agent, StartAgent, arm, connect, dial, header, job, succeed


@pytest.fixture(scope="module", params=["address,undefined", "thread"])
def sanitized(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc on this machine")
    path = tmp_path_factory.mktemp("sanitized") / "osmef-agent"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-pthread", f"-fsanitize={request.param}"]
    flags += ["-fno-sanitize-recover=all", '-DOSMEF_VERSION="test"']
    argv = [compiler, *flags, *map(str, build.sources()), "-lm", "-o", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if "cannot find" in done.stderr:
        pytest.skip(f"gcc has no {request.param} sanitizer")
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture
def start(sanitized: Path) -> Iterator[StartAgent]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Agent(sanitized))


def test_transfers(start: StartAgent) -> None:
    sender, receiver = start(), start()
    for flows in (1, 8, 32):
        connect(sender, receiver, flows=flows, duration_s=1)
        sender.command("start", id="job-1")
        succeed(sender, receiver)
    assert sender.close_input() == 0
    assert receiver.close_input() == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"direction": "both", "warmup_s": 0.3, "mode": "zerocopy-discard"},
        {"direction": "both", "threads": 2, "warmup_s": 0.3},
        {"direction": "reverse", "threads": 2, "bytes": 1_000_003, "mode": "zerocopy"},
        {"active_s": 0.1, "idle_s": 0.2, "pacing_bps": 1e9, "dscp": 8, "window": 30_000},
    ],
)
def test_every_path(start: StartAgent, changes: dict[str, object]) -> None:
    sender, receiver = start(), start()
    connect(sender, receiver, **({"flows": 8, "duration_s": 1} | changes))
    sender.command("start", id="job-1")
    succeed(sender, receiver)
    assert sender.close_input() == 0
    assert receiver.close_input() == 0


def test_strangers_and_nonsense(start: StartAgent) -> None:
    receiver = start()
    receiver.write(b'{"cmd":"bulk","id":"\\u0041\n\n{}\n' + b"x" * 40000 + b"\n")
    for _ in range(4):
        receiver.expect("error")
    port = arm(receiver, arm_timeout_s=1)
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(dial(port)).sendall(header(7, 3))
        assert receiver.ending()[1]["kind"] == "arm-timeout"
    assert receiver.close_input() == 0


@pytest.mark.parametrize("victim", ["sender", "receiver"])
def test_abort_and_loss_in_a_transfer(start: StartAgent, victim: str) -> None:
    sender, receiver = start(), start()
    one, other = (sender, receiver) if victim == "sender" else (receiver, sender)
    for _ in range(2):
        connect(sender, receiver, flows=16, duration_s=60)
        sender.command("start", id="job-1")
        sender.expect("interval")
        one.command("abort", id="job-1")
        assert one.ending()[1]["kind"] == "aborted"
        assert other.ending()[1]["kind"] == "reset"
    one.command("bulk", side="listen", bind="127.0.0.1", port=0, **job())
    one.expect("listening")
    assert one.close_input() == 0
    assert other.close_input() == 0
