"""Programs of the field by hand and through the controller, and what a trial adds to them."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typing_extensions import override

from osmef.agent.messages import ExecResult
from osmef.analysis.hypothesis_tests import paired_ratio
from osmef.engine.cancellation import stop_on_signals
from osmef.engine.events import Observer
from osmef.engine.plan import PlannedTrial, make_plan
from osmef.engine.run import Run
from osmef.kinds import WORKLOADS
from osmef.results.observations import EndpointUse
from osmef.results.rundir import RunDirectory
from osmef.results.trial import Trial
from osmef.scenario.load import load_text
from osmef.supply.bundle import HERE
from osmef.supply.program import this_architecture
from osmef.supply.supply import Supplier, make
from osmef.workloads.programs import EndedProgram
from osmef.workloads.reading import Printed
from osmef.workloads.tool import Tool
from tests.bench.contest import Spread
from tests.bench.report import Bench, Section, Table
from tests.bench.room import TIMEOUT_S, ProgramError, listens, wait

PORT = 5201
OVERHEAD_MS = 50.0
LEAST = 6
"""Turns of which an interval of 95 % can be had (paired_ratio)."""
SAME = 1e-3
"""A rate that a link sets is the same to some tens of a thousandth each time: less than this is
nobody's difference."""
CONTROL = "osmef-agent"
SCENARIO = """
name: programs
endpoints: {endpoints}
placement: different-host
workload: {{kind: {kind}, ways: [{way}], {keys}}}
repeat: {repeat}
"""
SLEEP = {
    "duration": "1s",
    "run": "[{on: loopback, argv: [sleep, 1]}]",
    "metrics": "{t: {pattern: '(1)', optional: true}}",
}
PAIR, ALONE = "{sender: {}, receiver: {}}", "{loopback: {}}"
_LOCAL = re.compile(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL")


@dataclass(frozen=True)
class Line:
    """A program with its settings; ``number`` is what it measures, divided by ``scale``."""

    kind: str
    keys: Mapping[str, str]
    number: str
    unit: str
    scale: float = 1.0
    endpoints: str = ALONE


def lines(duration_s: float) -> Sequence[Line]:
    """Return the programs that are measured both ways."""
    time_s = {"duration": f"{duration_s:g}s"}
    one = {**time_s, "threads": "1"}
    return (
        Line("iperf3", time_s, "goodput_bps", "Gbit/s", 1e9, PAIR),
        Line("iperf3", {**time_s, "connections": "8"}, "goodput_bps", "Gbit/s", 1e9, PAIR),
        Line("sysbench", one, "events_per_s", "events/s"),
        Line("openssl-speed", one, "processed_bytes_per_s", "GB/s", 1e9),
        Line("stress-ng", {**one, "stressor": "cpu", "method": "fft"}, "bogo_ops_per_s", "ops/s"),
        Line("tachyon", {"threads": "1", "resolution": "1024"}, "tracing_s", "s"),
    )


@dataclass
class Samples:
    """Repetitions of both ways: the number, and CPU time in percent of one CPU."""

    ours: list[float] = field(default_factory=list)
    by_hand: list[float] = field(default_factory=list)
    cpu_ours: list[float] = field(default_factory=list)
    cpu_by_hand: list[float] = field(default_factory=list)
    overheads_ms: list[float] = field(default_factory=list)


class _Turns(Observer):
    """Runs the program by hand after each trial, and notes what a trial takes beside it."""

    def __init__(self, line: Line | None) -> None:
        self.samples = Samples()
        self._line = line
        self._began = 0.0

    @override
    def trial_started(self, planned: PlannedTrial) -> None:
        self._began = time.monotonic()

    @override
    def trial_ended(self, trial: Trial) -> None:
        wall_s, found, told = time.monotonic() - self._began, self.samples, trial.metrics
        if trial.failure is not None:
            raise RuntimeError(f"a trial of the benchmark failed: {trial.failure}")
        found.overheads_ms.append(1000 * (wall_s - (told["program_s"] or 0.0)))
        if self._line is None:
            return
        values = [told[name] for name in (self._line.number, "program_cpu_percent")]
        found.ours.append((values[0] or 0.0) / self._line.scale)
        found.cpu_ours.append(values[1] or 0.0)
        number, cpu = by_hand(self._line)
        found.by_hand.append(number / self._line.scale)
        found.cpu_by_hand.append(cpu)


def by_hand(line: Line) -> tuple[float, float]:
    """Run a program on the endpoints of the run; return its number and its CPU in percent."""
    made = _tool(line)
    spaces = _namespaces()
    client, server = next(iter(spaces)), list(spaces)[-1]
    address = spaces[server]
    known = {"peer": address, "bind": address, "port": str(PORT), "cpus": str(os.cpu_count())}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as started:
        places = _unpacked(made, Path(folder))
        running = []
        for run in made.runs():
            words = [_filled(word, {**known, "dir": folder}, places) for word in run.argv[1:]]
            command = [*places[run.argv[0]], *words]
            where = server if run.ready else client
            running.append(started.enter_context(_started(command, where, Path(folder))))
            if run.ready:
                _until_it_listens(server)
        ended = [one.end() for one in reversed(running)][::-1]
    cpu = sum(100 * one.cpu_s / one.elapsed_s for one in ended)
    told = ended[-1]
    run = made.runs()[-1]
    result = _result(told.elapsed_s)
    number = made.parse(
        [EndedProgram(run, run.ends[0], "by hand", result, Printed(told.out, told.err))]
    )[line.number]
    if number is None:
        raise ProgramError(f"{line.kind} printed no {line.number}")
    return number, cpu


@dataclass(frozen=True)
class _Ended:
    out: bytes
    err: bytes
    elapsed_s: float
    cpu_s: float


class _Started:
    """A program by hand in a session of its own, as one over SSH has it: the kernel shares CPUs
    among sessions."""

    def __init__(self, command: Sequence[str], namespace: int, folder: Path) -> None:
        self._out, self._err = (folder / f"{time.monotonic_ns()}.{end}" for end in ("out", "err"))
        self._began = time.monotonic()
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                ["nsenter", "-t", str(namespace), "-n", *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=folder,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
                start_new_session=True,
            )
        self._alarm = threading.Timer(TIMEOUT_S, self._process.kill)
        self._alarm.daemon = True
        self._alarm.start()

    def end(self) -> _Ended:
        """Wait until it ends. Raises ProgramError when it fails."""
        _, status, use = os.wait4(self._process.pid, 0)
        elapsed_s = time.monotonic() - self._began
        self._alarm.cancel()
        self._process.returncode = os.waitstatus_to_exitcode(status)
        out, err = self._out.read_bytes(), self._err.read_bytes()
        if self._process.returncode:
            raise ProgramError(f"it ended with {self._process.returncode}: {(out + err)[-200:]!r}")
        return _Ended(out, err, elapsed_s, use.ru_utime + use.ru_stime)

    def kill(self) -> None:
        self._alarm.cancel()
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait()


@contextmanager
def _started(command: Sequence[str], namespace: int, folder: Path) -> Iterator[_Started]:
    started = _Started(command, namespace, folder)
    try:
        yield started
    finally:
        started.kill()


def _until_it_listens(namespace: int) -> None:
    tables = [Path(f"/proc/{namespace}/net/{name}") for name in ("tcp", "tcp6")]
    wait(lambda: any(listens(table, PORT) for table in tables))


def _namespaces() -> dict[int, str]:
    """Return a process in each endpoint's network namespace, with the address for data."""
    found: dict[str, tuple[int, str]] = {}
    own = Path("/proc/self/ns/net").readlink()
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (directory / "cmdline").read_bytes().split(b"\0")
            space = (directory / "ns/net").readlink()
            if CONTROL.encode() not in words[0] or space == own:
                continue
            local = _LOCAL.findall((directory / "net/fib_trie").read_text())
            # The first one is on the network by which the controller comes, the last on the data's.
            address = [one for one in local if not one.startswith("127.")][-1]
            found[str(space)] = (int(directory.name), address)
    return dict(found.values())


def _tool(line: Line) -> Tool[Any]:
    keys = ", ".join(f"{name}: {value}" for name, value in line.keys.items())
    text = SCENARIO.format(
        endpoints=line.endpoints, kind=line.kind, way="bundle", keys=keys, repeat=1
    )
    settings = load_text(text, Path("bench.yaml")).scenario.workload
    made: Tool[Any] = WORKLOADS.get(line.kind)(settings)
    return made


def _unpacked(made: Tool[Any], folder: Path) -> dict[str, list[str]]:
    """Unpack the bundles that a run takes; return what starts each, and where its files are."""
    places: dict[str, list[str]] = {}
    for program in made.programs:
        bundle = make("bundle", program, this_architecture(), Supplier())
        own = folder / program.name
        own.mkdir()
        for name in bundle.pushed:
            (own / name).write_bytes(bundle.contents[name])
            (own / name).chmod(0o700)
        places[program.name] = [word.replace(HERE, str(own)) for word in bundle.manifest.argv]
        for path, name in bundle.manifest.data.items():
            places[path] = [str(own / name)]
    return places


def _filled(word: str, known: Mapping[str, str], places: Mapping[str, list[str]]) -> str:
    if word in places:
        return places[word][-1]
    for name, value in known.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def _result(elapsed_s: float) -> ExecResult:
    use = {name: 0 for name, one in EndpointUse.model_fields.items() if one.is_required()}
    told = {
        "event": "result",
        "id": "1",
        "job": "exec",
        "start_realtime_ns": 1,
        "elapsed_s": elapsed_s,
        "status": 0,
        "signal": None,
        "stopped": False,
        "stdout_bytes": 0,
        "stderr_bytes": 0,
        "endpoint": use,
        "process": {"cpu_user_s": 0, "cpu_system_s": 0, "max_rss_kb": 1},
    }
    return ExecResult.model_validate(told)


def prepare() -> None:
    """Make the bundles that are measured with: the namespaces of the benchmark have no internet."""
    for line in lines(1):
        for program in _tool(line).programs:
            make("bundle", program, this_architecture(), Supplier())


def _measured(kind: str, keys: Mapping[str, str], turns: _Turns, **more: object) -> Samples:
    told = ", ".join(f"{name}: {value}" for name, value in keys.items())
    text = SCENARIO.format(kind=kind, keys=told, **{"way": "bundle", **more})
    plan = make_plan(load_text(text, Path("bench.yaml")), seed=1)
    with (
        tempfile.TemporaryDirectory() as out,
        stop_on_signals(lambda _text: None) as stop,
        RunDirectory.create(Path(out), "programs", text, ".yaml") as directory,
    ):
        Run(plan, directory, turns, stop).execute()
    return turns.samples


def _row(line: Line, found: Samples) -> tuple[str, ...]:
    ours, hand = Spread(tuple(found.ours)), Spread(tuple(found.by_hand))
    cpus = Spread(tuple(found.cpu_ours)), Spread(tuple(found.cpu_by_hand))
    ratio = paired_ratio(found.ours, found.by_hand)
    low, high = ratio.interval.low or 0.0, ratio.interval.high or 0.0
    is_same = low <= 1 + SAME and high >= 1 - SAME
    name = f"{line.kind} {' '.join(f'{key}={value}' for key, value in line.keys.items())}"
    return (
        name,
        line.unit,
        str(hand),
        str(ours),
        f"{ratio.value:.4f} [{low:.4f}, {high:.4f}]",
        *(f"{one} %" for one in reversed(cpus)),
        "same" if is_same else "**other**",
    )


def bench(bench: Bench) -> Section:
    """Measure programs both ways in turns, and the time of a trial beside its program's."""
    rows, overheads = [], []
    for line in lines(bench.duration_s):
        found = _measured(
            *(line.kind, line.keys, _Turns(line)),
            endpoints=line.endpoints,
            repeat=max(LEAST, bench.repeat),
        )
        rows.append(_row(line, found))
    for what, kind, keys, endpoints in (
        ("`sleep 1`", "program", SLEEP, ALONE),
        ("iperf3 of a bundle, 1 s", "iperf3", {"duration": "1s"}, PAIR),
    ):
        way = "present" if kind == "program" else "bundle"
        found = _measured(
            kind, keys, _Turns(None), endpoints=endpoints, repeat=2 * bench.repeat, way=way
        )
        spread = Spread(tuple(found.overheads_ms[1:]))  # the first trial starts the agents
        reached = "reached" if spread.median < OVERHEAD_MS else "**not reached**"
        overheads.append((what, f"{spread} ms", f"under {OVERHEAD_MS:g} ms", reached))
    header = ("", "unit", "by hand", "through us", "ratio", "CPU by hand", "CPU through us")
    return Section(
        "Programs of the field",
        "The same bundle of a program, run by hand on the endpoints of a run between its trials, in"
        " turns with them. CPU is user and system time of all its processes, in percent of one CPU."
        " The ratio is that of Hodges and Lehmann over six turns or more, with its interval of 95"
        " %; it is the same if that reaches 1 to a thousandth (of six lines in which nothing"
        " differs, one or more is reported as different in 17 % of runs, by the interval's 3 % a"
        " line). The time of a trial beside that of its program is from its begin to its end: the"
        " start of the server, the wait for the common start, and what is written.",
        [
            Table("By hand and through the controller", (*header, "verdict"), rows),
            Table("Overhead of a trial", ("", "median (min-max)", "wanted", "verdict"), overheads),
        ],
    )
