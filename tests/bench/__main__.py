"""``make bench``: the agent beside its peers, and what the controller costs, in one run.

Everything happens in namespaces of this machine. Repetitions are interleaved, and ratios are of
medians, since the machine's speed changes by the minute.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from rich.console import Console

from tests.bench.controller import bench_controller
from tests.bench.peers import bench_peers

INSIDE = "OSMEF_BENCH_INSIDE"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--repeat", type=int, default=5, help="repetitions of each measurement")
    parser.add_argument("--duration", type=float, default=2.0, help="seconds of each transfer")
    arguments = parser.parse_args()
    console = Console()
    if INSIDE not in os.environ:
        bench_controller(console)
        # The peers' namespaces hang in one of our own, which goes with this process.
        sys.stdout.flush()
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        flags = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        again = [sys.executable, "-m", "tests.bench", *sys.argv[1:]]
        os.execvpe("unshare", ["unshare", *user, *flags, *again], {**os.environ, INSIDE: "1"})
    agent = Path("osmef/agent/bin") / f"osmef-agent-{os.uname().machine}"
    bench_peers(console, agent.resolve(), arguments.repeat, arguments.duration)


if __name__ == "__main__":
    main()
