"""Build the static agents with zig, from the command line or as a hook of hatchling.

    python agents/build.py [--target x86_64 ...]

The compiler is the ``ziglang`` package from PyPI, which carries musl and the Linux headers: no
system toolchain is needed and every architecture can be built on any. The same sources, version
and ``ziglang`` give the same bytes wherever and whenever they are built; the printed SHA-256 shows
it.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "agents" / "osmef-agent"
OUT = ROOT / "osmef" / "agent" / "bin"
# What `uname -m` says, and what the compiler calls it.
_TRIPLES = {
    "x86_64": "x86_64-linux-musl",
    "aarch64": "aarch64-linux-musl",
    "armv7l": "thumb-linux-musleabihf",
    "ppc64le": "powerpc64le-linux-musl",
    "riscv64": "riscv64-linux-musl",
    "s390x": "s390x-linux-musl",
}
TARGETS = tuple(_TRIPLES)

_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-static", "-s", "-pthread")
# Nearly all of a transfer's time is the kernel's; a small agent is sooner pushed to its endpoint.
# Nothing unwinds the stack of a stripped C program: the tables would only make it bigger.
_SMALL = (
    "-Os",
    "-flto",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    "-Wl,--gc-sections",
)
_OF_TARGET = {
    # Without NEON, which not every ARMv7 has (Debian's armhf does without, too).
    "armv7l": ("-mcpu=cortex_a9-neon-d32",),
    # zig takes -Oz for -Os. Instructions of POWER are long: this takes 4 kB off.
    "ppc64le": ("-Xclang", "-Oz"),
}
_REPRODUCIBLE = (f"-ffile-prefix-map={SOURCES}=.", "-Wl,--build-id=none")
_WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Wstrict-prototypes", "-Werror")


class BuildError(Exception):
    """The agents can't be built; the message says why and what to do."""


def build(out: Path = OUT, targets: Sequence[str] = TARGETS) -> list[Path]:
    """Compile the agent for each target (as ``uname -m`` names it); what is current is kept.

    Raises BuildError when there is no compiler or it fails.
    """
    out.mkdir(parents=True, exist_ok=True)
    built = {target: out / f"osmef-agent-{target}" for target in targets}
    stale = [target for target, path in built.items() if not _is_current(path)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_compile, stale, [built[target] for target in stale]))
    return list(built.values())


def version() -> str:
    """Return the project's version, which the agent reports as its own."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["project"]["version"])


def sources() -> list[Path]:
    """List the agent's C files."""
    return sorted(SOURCES.glob("*.c"))


def _is_current(path: Path) -> bool:
    inputs = [*SOURCES.glob("*.[ch]"), ROOT / "pyproject.toml", Path(__file__)]
    return path.exists() and path.stat().st_mtime > max(p.stat().st_mtime for p in inputs)


def _compile(target: str, path: Path) -> None:
    if importlib.util.find_spec("ziglang") is None:
        raise BuildError("no compiler for the agents: pip install ziglang")
    # Another process may be building or running the same file: it never sees half of one.
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=".osmef-agent-")
    os.close(handle)
    argv = [sys.executable, "-m", "ziglang", "cc", "-target", _TRIPLES[target]]
    argv += [*_FLAGS, *_SMALL, *_OF_TARGET.get(target, ()), *_REPRODUCIBLE, *_WARNINGS]
    argv += [f'-DOSMEF_VERSION="{version()}"']
    argv += [*(source.name for source in sources()), "-o", scratch]
    try:
        done = subprocess.run(argv, cwd=SOURCES, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"the agent for {target} does not compile:\n{done.stderr}")
        Path(scratch).chmod(0o755)
        Path(scratch).replace(path)
    finally:
        Path(scratch).unlink(missing_ok=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Build, and print each agent's SHA-256 and path."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", action="append", choices=TARGETS, help="default: all")
    arguments = parser.parse_args(argv)
    try:
        for path in build(OUT, arguments.target or TARGETS):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            print(digest, path, sep="  ")  # noqa: T201 - a command line tool
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


try:
    from hatchling.builders.config import BuilderConfig
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:
    pass  # the command line does without
else:

    class AgentBuildHook(BuildHookInterface[BuilderConfig]):
        """Builds the agents before hatchling packs a wheel or installs in place."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
            """Build all agents; hatchling picks them up as artifacts.

            Who installs in place gets the one that runs here and can build the others.
            """
            mine = [target for target in TARGETS if target == platform.machine()]
            try:
                build(targets=mine if version == "editable" else TARGETS)
            except BuildError as error:
                self.app.abort(str(error))


if __name__ == "__main__":
    sys.exit(main())
