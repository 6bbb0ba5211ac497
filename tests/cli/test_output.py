"""Output that is closed, full, or without a reader decides nothing."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from osmef.cli.streams import LossyWriter, failure_of, stream_to
from osmef.engine.journal import Journal
from tests.cli.conftest import ROOT, Osmef
from tests.journals import read_notes

SAMPLE = str(ROOT / "tests/results/data/quickstart-20261121T031500Z-3f9a")
SHORT = "name: short\nworkload: {kind: btc, duration: 200ms, interval: 100ms}\nrepeat: 1\n"
LONG = SHORT.replace("200ms", "60s")
LeftBehind = Callable[[], list[str]]
FAULTS = pytest.mark.real("faults")


def to(redirection: str) -> tuple[str, ...]:
    """Return the prefix of a command whose output goes there."""
    return ("sh", "-c", f'exec "$@" {redirection}', "sh")


def events(run: Path) -> list[str]:
    return [note["event"] for note in read_notes(Journal(run / "journal.jsonl"))]


@pytest.mark.parametrize("where", [">&-", "<&- >&- 2>&-", ">/dev/full 2>/dev/full"])
def test_a_run_without_usable_output_streams_completes(
    osmef: Osmef, left_behind: LeftBehind, where: str
) -> None:
    ended = osmef("run", "-v", osmef.write(SHORT), prefix=to(where))
    assert ended.code == 0, ended.err
    assert "Traceback" not in ended.err
    assert events(osmef.run)[-2:] == ["gone", "end"]
    assert left_behind() == []


def test_a_run_outlives_the_room_for_its_log(osmef: Osmef, left_behind: LeftBehind) -> None:
    log = osmef.directory / "log"
    log.mkdir()
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    script = (
        f"mount -t tmpfs -o size=4k tmpfs {log} && head -c 4000 /dev/zero >log/log;"
        ' "$@" 2>>log/log; code=$?; stat -c %s log/log; exit $code'
    )
    prefix = ("unshare", "--mount", *user, "sh", "-c", script, "sh")
    ended = osmef("run", "-v", osmef.write(SHORT), prefix=prefix)
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[-1] == "4096"
    assert left_behind() == []


@pytest.mark.parametrize(
    "stage",
    [
        "tearing down",
        *(pytest.param(one, marks=FAULTS) for one in ("provisioning", "putting the agent")),
    ],
)
def test_a_run_outlives_its_reader(osmef: Osmef, left_behind: LeftBehind, stage: str) -> None:
    process = osmef.start("run", "-v", osmef.write(SHORT))
    osmef.until(process, stage)
    no_more_reading(process)
    assert process.wait(osmef.end_s) == 0
    assert events(osmef.run)[-2:] == ["gone", "end"]
    assert left_behind() == []


@pytest.mark.parametrize(
    ("text", "stage", "code"),
    [
        pytest.param(LONG, "measuring", 4, id="measuring"),
        pytest.param(SHORT, "tearing", 0, id="tearing"),
    ],
)
def test_ctrl_c_that_ends_the_reader_too_is_no_crash(
    osmef: Osmef, left_behind: LeftBehind, text: str, stage: str, code: int
) -> None:
    process = osmef.start("run", osmef.write(text))
    osmef.until(process, stage)
    no_more_reading(process)
    osmef.interrupt(process, signal.SIGINT)
    assert process.wait(osmef.end_s) == code
    assert "gone" in events(osmef.run)
    assert left_behind() == []


@pytest.mark.parametrize("words", [("-v",), pytest.param((), marks=FAULTS)])
def test_a_terminal_that_closes_stops_the_run(
    osmef: Osmef, left_behind: LeftBehind, words: tuple[str, ...]
) -> None:
    ours, terminal = pty.openpty()
    command = [sys.executable, "-m", "osmef", "run", "--no-figures", osmef.write(LONG), *words]
    process = subprocess.Popen(
        ["setsid", "--ctty", *command],
        cwd=osmef.directory,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"},
    )
    os.close(terminal)
    try:
        shown = b""
        while b"measuring" not in shown and b"left" not in shown:
            shown += os.read(ours, 1000)
    finally:
        os.close(ours)
    assert process.wait(osmef.end_s) == 4
    assert events(osmef.run)[-1] == "gone"
    assert left_behind() == []


def killed(osmef: Osmef) -> Path:
    """Return the directory of a run whose controller is dead, and has noted what it made."""
    process = osmef.start("run", osmef.write(SHORT))
    osmef.until(process, "putting the agent")
    process.kill()
    osmef.finish(process)
    assert Journal(osmef.run / "journal.jsonl").existing()
    return osmef.run


def test_leftover_resources_are_reaped_without_usable_output(osmef: Osmef) -> None:
    run = killed(osmef)
    assert osmef("reap", prefix=to(">/dev/full 2>/dev/full")).code == 1
    assert osmef("reap", "--yes", prefix=to(">&- 2>&-")).code == 0
    assert Journal(run / "journal.jsonl").existing() == []


def test_a_run_is_resumed(osmef: Osmef, left_behind: LeftBehind) -> None:
    run = killed(osmef)
    ended = osmef("resume", "-v", str(run), prefix=to("2>/dev/full"))
    assert ended.code == 0
    assert f"run: {run}" in ended.out
    assert events(run)[-2:] == ["gone", "end"]
    assert left_behind() == []


def test_a_terminal_that_closes_leaves_nothing_of_a_run_that_is_resumed(osmef: Osmef) -> None:
    run = killed(osmef)
    script = (
        "import signal, sys\n"
        "from osmef.providers.local.provider import LocalProvider\n"
        "destroy = LocalProvider.destroy\n"
        "def closing(*words):\n"
        "    signal.raise_signal(signal.SIGHUP)\n"
        "    destroy(*words)\n"
        "LocalProvider.destroy = closing\n"
        "sys.argv[0] = 'osmef'\n"
        "from osmef.__main__ import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", script, "resume", str(run)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run(command, env=environment, check=False).returncode == 4
    assert Journal(run / "journal.jsonl").existing() == []
    assert len(read_notes(Journal(run / "journal.jsonl"), "start")) == 1, "it did not go on"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_half_of_what_a_command_writes(
    osmef: Osmef, number: signal.Signals
) -> None:
    """It comes while the second of two runs is imported, where nothing looks for it.

    After one within exec(), which dataclasses use, ``python -m`` ends by SIGINT by itself.
    """
    rows = "".join(f"small,rate,Mbit/s,{platform},1,5\n" for platform in ("a", "b"))
    file = osmef.write(f"instance_class,metric,unit,platform,session,value\n{rows}", "s.csv")
    script = (
        "import signal, sys\n"
        "from osmef.importers import write\n"
        "summary = write._summary\n"
        "def stopped(run, *words):\n"
        "    if len(list(run.path.parent.iterdir())) == 2:\n"
        f"        exec('signal.raise_signal({int(number)})')\n"
        "    return summary(run, *words)\n"
        "write._summary = stopped\n"
        "sys.argv[0] = 'osmef'\n"
        "from osmef.__main__ import main\n"
        "main()\n"
    )
    osmef.write(script, "stopping.py")
    command = [sys.executable, "-m", "stopping", "import", "sessions", file, "--out", "imported"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, env=environment, check=False, cwd=osmef.directory, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (4, f"error: stopped by {number.name}\n")
    assert list((osmef.directory / "imported").iterdir()) == []


def test_the_exit_code_is_kept_when_output_fails_and_the_loss_is_reported(osmef: Osmef) -> None:
    ended = osmef("run", "nothing.yaml", "--json", prefix=to(">/dev/full"))
    assert ended.code == 2
    assert "nothing.yaml" in ended.err
    assert "note: standard output: can't be written: No space left on device" in ended.err
    assert osmef("validate", osmef.write(SHORT), prefix=to(">&- 2>&-")).code == 0
    assert osmef("validate", osmef.write("nam: x"), prefix=to(">&- 2>&-")).code == 2


@pytest.mark.parametrize(
    "words",
    [
        ("show", SAMPLE),
        ("show", SAMPLE, "--json"),
        ("schema",),
        ("image", "list", "--output", ".", "--json"),
        ("--version",),
    ],
)
def test_a_command_that_only_prints_fails_if_its_output_is_lost(
    osmef: Osmef, words: tuple[str, ...]
) -> None:
    for where, why in (
        (">/dev/full", "can't be written: No space left on device"),
        (">&-", "it is closed"),
    ):
        ended = osmef(*words, prefix=to(where))
        assert (ended.code, ended.out) == (4, "")
        assert ended.err.startswith(f"error: standard output: {why}\n  cure: ")
    process = osmef.start(*words)
    assert process.stdout is not None
    process.stdout.close()
    assert (osmef.finish(process).err, process.returncode) == ("", 0)


def test_no_file_takes_the_place_of_a_closed_stream() -> None:
    script = (
        "import os, sys; from osmef.cli.streams import set_up_streams; set_up_streams();"
        " sys.exit(os.open('/', os.O_RDONLY))"
    )
    command = [*to("<&- >&- 2>&-"), sys.executable, "-c", script]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run(command, env=environment, check=False).returncode == 3


def no_more_reading(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stderr.close()
    process.stdout = process.stderr = None


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    """Return both ends of a pipe that holds little."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 8192)
    try:
        yield reader, writer
    finally:
        for end in (reader, writer):
            os.close(end)


def test_a_slow_output_reader_loses_lines_and_does_not_block() -> None:
    with pipe() as (reader, writer):
        stream = stream_to(LossyWriter(writer, timeout_s=0.01), "utf-8")
        print("a" * 9000, file=stream)
        print("missed", file=stream)
        assert getattr(failure_of(stream), "errno", None) == errno.ETIMEDOUT
        assert os.read(reader, 9000) == b"a" * 8192
        print("seen", file=stream)
        assert os.read(reader, 9000) == b"\nseen\n"


def test_a_reader_of_results_may_take_its_time() -> None:
    text = "0123456789" * 50_000
    with pipe() as (reader, writer):
        os.set_blocking(writer, False)  # as another program may have left it
        stream = stream_to(LossyWriter(writer), "utf-8")
        thread = threading.Thread(target=stream.write, args=[text])
        thread.start()
        found = b""
        while len(found) < len(text):
            found += os.read(reader, 100_000)
        thread.join()
    assert found.decode() == text
    assert failure_of(stream) is None


def test_a_signal_handler_may_print_in_the_middle_of_a_print() -> None:
    count = 300
    with pipe() as (reader, writer):
        stream = stream_to(LossyWriter(writer), "utf-8")
        heard: list[int] = []

        def drain() -> None:
            left = b""
            while not left.endswith(b"over\n"):
                left = (left + os.read(reader, 9000))[-9000:]

        thread = threading.Thread(target=drain)
        thread.start()

        def handle(number: int, frame: object) -> None:
            heard.append(number)
            print("handler", file=stream)

        before = signal.signal(signal.SIGALRM, handle)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
            while len(heard) < count:
                print("main " * 100, file=stream)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        print("over", file=stream)
        thread.join()
    assert failure_of(stream) is None
