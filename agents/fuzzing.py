"""Fuzz the agent's readers of foreign bytes with libFuzzer, for as long as one likes.

    python agents/fuzzing.py [--seconds 60] [TARGET ...]

A target is a file of agents/fuzz; its seeds are in agents/fuzz/corpus. What is found stays in
``~/.cache/osmef-fuzz/TARGET``: ``crash-*`` and the like to give to the program beside them, and the
corpus that has grown. Needs clang with its sanitizers (Debian: clang and libclang-rt-14-dev).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from agents import build

FUZZ = build.ROOT / "agents" / "fuzz"
TARGETS = tuple(sorted(path.stem for path in FUZZ.glob("*.c")))
KEPT = Path.home() / ".cache" / "osmef-fuzz"

_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-pthread", '-DOSMEF_VERSION="fuzz"')
_SANITIZE = ("-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all")
_LONGEST_INPUT = 4096
_LONGEST_S = 10


class FuzzError(Exception):
    """Fuzzing isn't possible here; the message says why and what to do."""


def compile_target(target: str, out: Path) -> Path:
    """Link a target with the agent's sources but for main.c. Raises FuzzError."""
    compiler = shutil.which("clang")
    if compiler is None:
        raise FuzzError("no clang on this machine: apt install clang libclang-rt-14-dev")
    sources = [source for source in build.sources() if source.name != "main.c"]
    program = out / f"fuzz-{target}"
    argv = [compiler, *_FLAGS, *_SANITIZE, *map(str, sources), str(FUZZ / f"{target}.c")]
    argv += ["-lm", "-o", str(program)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if "libclang_rt" in done.stderr:
        raise FuzzError("clang lacks its sanitizers: apt install libclang-rt-14-dev")
    if done.returncode:
        raise FuzzError(f"the target {target} does not compile:\n{done.stderr}")
    return program


def fuzz(program: Path, target: str, kept: Path, seconds: int) -> subprocess.CompletedProcess[str]:
    """Give all seeds to the program, then what it makes of them; status 0 if nothing was found.

    With 0 seconds only the seeds, and what an earlier run has added to them.
    """
    grown = kept / "corpus"
    grown.mkdir(parents=True, exist_ok=True)
    bound = f"-max_total_time={seconds}" if seconds else "-runs=0"
    argv = [str(program), bound, f"-timeout={_LONGEST_S}", f"-max_len={_LONGEST_INPUT}"]
    argv += ["-print_final_stats=1", f"-artifact_prefix={kept}/", str(grown)]
    argv += [str(FUZZ / "corpus" / target)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Fuzz each target; the status says whether something was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument("target", nargs="*", choices=[[], *TARGETS], help="default: all")
    arguments = parser.parse_args(argv)
    found = 0
    for target in arguments.target or TARGETS:
        kept = KEPT / target
        kept.mkdir(parents=True, exist_ok=True)
        try:
            done = fuzz(compile_target(target, kept), target, kept, arguments.seconds)
        except FuzzError as error:
            print(f"error: {error}", file=sys.stderr)  # noqa: T201 - a command line tool
            return 2
        print(done.stderr)  # noqa: T201
        print(f"{target}: {'nothing' if done.returncode == 0 else f'see {kept}'}")  # noqa: T201
        found = found or done.returncode
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
