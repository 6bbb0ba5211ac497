"""Install what pyproject.toml names: VENV/bin/python tools/install.py WHAT [WHAT ...].

WHAT is ``build`` (what builds the package), ``run`` (what a first measurement needs, with its
figures and campaigns), the name of an extra, or
``.`` (the package itself, in place). By uv, which takes a tenth of pip's time; by pip where uv
can't be had or does not get the packages.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
# Without byte code of what is never imported.
BY_PIP = [*PIP, "install", "--no-compile"]
UV = Path(sys.executable).with_name("uv")
UV_ITSELF = "uv>=0.5,<1"


def requirements(what: str) -> list[str]:
    """Return the arguments of pip that install it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if what == ".":
        return ["--no-deps", "--no-build-isolation", "-e", str(ROOT)]
    if what == "build":
        return [*project["build-system"]["requires"], "editables>=0.5,<1"]
    if what == "run":
        needed = [*project["project"]["dependencies"], "osmef[campaigns,local,report]"]
        return [name for one in needed for name in _expanded(one)]
    extras = project["project"]["optional-dependencies"]
    return [name for one in extras[what] for name in _expanded(one)]


def _expanded(requirement: str) -> list[str]:
    """Return what another extra of ours names in its stead: we are in no registry."""
    if not requirement.startswith("osmef["):
        return [requirement]
    names = requirement.removeprefix("osmef[").removesuffix("]").split(",")
    return [name for extra in names for name in requirements(extra)]


def uv_environment() -> dict[str, str]:
    """Return the environment of uv, which does not read pip's configuration: a mirror is there."""
    command = [*PIP, "config", "get", "global.index-url"]
    index = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return os.environ | ({"UV_DEFAULT_INDEX": index} if index else {})


def announce(what: str, arguments: list[str]) -> None:
    """Say what takes the next minutes."""
    about = {"build": "what builds the agent", "run": "what a measurement needs", ".": "OSMeF"}
    needed = sum(not one.startswith("-") and one != str(ROOT) for one in arguments)
    more = f": {needed} packages and what they need, from the package index" if needed else ""
    print(f"installing {about.get(what, f'what {what} needs')}{more}", flush=True)  # noqa: T201 - a command line tool


def by_uv(arguments: list[str]) -> bool:
    """Install by uv, which shows its progress on a terminal; tell whether it did."""
    if not UV.exists() and subprocess.run([*BY_PIP, UV_ITSELF], check=False).returncode:
        return False
    quiet = [] if sys.stderr.isatty() else ["--quiet"]
    command = [str(UV), "pip", "install", *quiet, "--python", sys.executable, *arguments]
    return not subprocess.run(command, env=uv_environment(), check=False).returncode


def main() -> int:
    """Install everything that is named."""
    for what in sys.argv[1:]:
        arguments = requirements(what)
        announce(what, arguments)
        if not by_uv(arguments) and subprocess.run([*BY_PIP, *arguments], check=False).returncode:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
