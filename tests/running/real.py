"""``make test-real``: each part with its packages, one after the other."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.running.parts import PARTS, ROOT, Part, changed_files, parts_of

WORKERS = 3
"""Also on two CPUs: one of them mostly waits for a guest to boot or a trial to end."""
_GOOD = {os.EX_OK, 5}  # pytest's exit code where a part has no tests is 5


def run(part: Part, options: Sequence[str]) -> int:
    """Install what a part needs, make it ready, and run its tests; return pytest's exit code."""
    python = [sys.executable, "-m"]
    if part.debian:
        subprocess.run([ROOT / "tools/bootstrap", *part.debian], cwd=ROOT, check=False)
    subprocess.run([sys.executable, "tools/install.py", *part.extras], cwd=ROOT, check=False)
    if part.prepare:
        subprocess.run([*python, *part.prepare], cwd=ROOT, check=False)
    tier = ("--tier", "real", "--part", part.name, *options)
    workers = "0" if part.online else str(WORKERS)
    code = subprocess.run([*python, "pytest", "-n", workers, *tier], cwd=ROOT, check=False)
    return code.returncode


def main() -> int:
    """Run the wanted parts; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.running.real", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--changed", action="store_true", help="what files changed since a tag")
    parser.add_argument("--within", type=float, help="begin none that may take longer, in minutes")
    arguments, options = parser.parse_known_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    wanted = [PARTS[name] for name in arguments.parts or PARTS]
    if arguments.changed:
        wanted = [part for part in wanted if part in parts_of(changed_files())]
    if arguments.within:  # so as to have as many of them as there is time for
        wanted.sort(key=lambda part: part.minutes)
    end = time.monotonic() + 60 * arguments.within if arguments.within else float("inf")
    ended: dict[str, str] = {}
    for part in wanted:
        print(f"\n{part.name}:", flush=True)  # noqa: T201 - a command line tool
        if time.monotonic() + 60 * part.minutes > end:
            ended[part.name] = f"left out for time: make test-real PART={part.name}"
            continue
        began = time.monotonic()
        passed = "passed" if run(part, options) in _GOOD else "failed"
        ended[part.name] = f"{passed} in {time.monotonic() - began:.0f} s"
    for name, how in ended.items():
        print(f"{name:18} {how}")  # noqa: T201
    return int(any(how.startswith("failed") for how in ended.values()))


if __name__ == "__main__":
    sys.exit(main())
