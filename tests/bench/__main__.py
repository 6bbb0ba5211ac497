"""``make bench``: the agent beside its peers, and what the controller costs, in one run.

Everything happens in namespaces of this machine, which go with this process. Programs are measured
in turns, and verdicts are of medians, since the machine's speed changes by the minute.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

from pyroute2 import IPRoute
from rich.console import Console

from tests.bench import (
    accuracy,
    campaigns,
    controller,
    frames,
    goodput,
    http,
    latency,
    memory,
    modes,
    programs,
    report,
    starts,
)
from tests.bench.room import Room

INSIDE = "OSMEF_BENCH_INSIDE"
PAGE = Path("docs/benchmarks.md")
GROUPS = {
    "goodput": goodput.bench,
    "modes": modes.bench,
    "latency": latency.bench,
    "http": http.bench,
    "accuracy": accuracy.bench,
    "memory": memory.bench,
    "controller": controller.bench,
    "programs": programs.bench,
    "starts": starts.bench,
    "campaigns": campaigns.bench,
    "analysis": frames.bench,
}
INTERRUPTED = 130


def whole_seconds(text: str) -> int:
    """Read a duration that all programs can run for; raises ArgumentTypeError."""
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(
        f"{text} is not a whole number of seconds: iperf3, wrk, ab and sockperf would round it, "
        "and the programs of a line are to run for the same time"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=GROUPS,
        default=list(GROUPS),
        metavar="GROUP",
        help=f"measure only these, other sections of the page stay: {', '.join(GROUPS)}",
    )
    parser.add_argument("--repeat", type=int, default=5, help="repetitions of each measurement")
    parser.add_argument(
        "--duration", type=whole_seconds, default=2, help="whole seconds of each measurement"
    )
    return parser.parse_args()  # fmt: skip


def _run_inside() -> int:
    """Run again in namespaces of its own; when either process ends, all that runs in there does."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    flags = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    again = [sys.executable, "-m", "tests.bench", *sys.argv[1:]]
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", *user, *flags, *again]
    with subprocess.Popen(command, env={**os.environ, INSIDE: "1"}) as process:
        try:
            return process.wait()
        finally:
            process.kill()


def _run(arguments: argparse.Namespace) -> None:
    with IPRoute() as ipr:  # a new network namespace has its loopback down
        (lo,) = ipr.link_lookup(ifname="lo")
        ipr.link("set", index=lo, state="up")
    console = Console()
    room = Room()
    binary = Path("osmef/agent/bin").resolve() / f"osmef-agent-{platform.machine()}"
    bench = report.Bench(console, room, binary, arguments.repeat, arguments.duration)
    try:
        for name in arguments.only:
            text = GROUPS[name](bench).text(bench)
            report.write(PAGE, [text])
            sys.stdout.write(f"\n{text}")
            sys.stdout.flush()
    finally:
        room.close()


def main() -> int:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if INSIDE not in os.environ:
            if "programs" in arguments.only:
                programs.prepare()
            return _run_inside()
        _run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
