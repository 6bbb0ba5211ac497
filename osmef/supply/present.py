"""Lookup of a program on an endpoint, and its installation if allowed."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from osmef.errors import SupplyError
from osmef.supply.program import Program

if TYPE_CHECKING:  # paramiko takes long to import, and `osmef plan` connects to nothing
    from osmef.remote.session import Output, Session

_DEFAULT_VERSIONS = (("--version",), ("-V",))
_VERSION = re.compile(r"[0-9]+\.[0-9]")
_MOST_VERSION = 200
_CAN_T_RUN = {126, 127}
_TAIL_CHARACTERS = 500
_INSTALL_S = 600.0
# Fixed scripts for a POSIX shell; names and paths are arguments. Each part of what they print
# stands behind a random word, since a login may print something before.
_PLACES = """\
PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""
_LOOK = """\
mark=$1 name=$2
shift 2
IFS=:
for folder in $PATH; do
  if [ -n "$folder" ] && [ -f "$folder/$name" ] && [ -x "$folder/$name" ]; then
    printf '\\n%s %s' "$mark" "$folder/$name"
    for file; do [ -r "$file" ] || printf '\\n%s %s' "$mark" "$file"; done
    break
  fi
done
printf '\\n'
"""
# What hangs is killed after five seconds, with POSIX means: there may be no timeout(1).
_ASK = """\
mark=$1
shift
printf '\\n%s \\n' "$mark"
{
  "$@" </dev/null 2>&1 &
  asked=$!
  { sleep 5; kill -9 "$asked"; } >/dev/null 2>&1 &
  watch=$!
  wait "$asked"
  status=$?
  kill "$watch" 2>/dev/null
  printf '\\n%s %s\\n' "$mark" "$status"
} | dd bs=1 count=65536 2>/dev/null
"""


@dataclass(frozen=True)
class Present:
    """A program that is installed on an endpoint."""

    path: str
    version: str | None
    """The line in which it tells its version; None where none looks like that."""


def find(program: Program, session: Session) -> Present:
    """Find a program in PATH and in system directories, with its data files.

    Raises SupplyError that says what is missing, ReachError.
    """
    where = f"program {program.name!r} on {session.name}"
    mark = secrets.token_hex(16)
    argv = ["sh", "-c", _PLACES + _LOOK, "sh", mark, program.name, *program.files]
    found = _marked(session.run(argv), mark)
    if not found:
        raise SupplyError("the endpoint does not have it", where=where)
    path, *missing = found
    if missing:
        raise SupplyError(f"the endpoint has it, but no {missing[0]}", where=where)
    return Present(path, _version(program, path, session, where))


def _version(program: Program, path: str, session: Session, where: str) -> str | None:
    """Return the program's version. Raises SupplyError if it can't run there."""
    for words in (program.version,) if program.version else _DEFAULT_VERSIONS:
        mark = secrets.token_hex(16)
        said = session.run(["sh", "-c", _ASK, "sh", mark, path, *words])
        text = said.stdout.decode(errors="replace").partition(f"{mark} \n")[2]
        answer, _, end = text.partition(f"\n{mark} ")
        lines, status = [line.strip() for line in answer.splitlines()], end.strip()
        if status.isdigit() and int(status) in _CAN_T_RUN:
            told = next(filter(None, lines), f"exit status {status}")[:_MOST_VERSION]
            raise SupplyError(f"the endpoint has it, and can't run it: {told}", where=where)
        for line in lines:
            if _VERSION.search(line):
                return line[:_MOST_VERSION]
    return None


def _marked(output: Output, mark: str) -> list[str]:
    """Return the lines of a script's output with its marker."""
    lines = output.stdout.decode(errors="replace").splitlines()
    return [line.removeprefix(f"{mark} ") for line in lines if line.startswith(f"{mark} ")]


_APT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get")
_MANAGERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "apt-get": (
        (*_APT, "update"),
        (*_APT, "install", "--yes", "--no-install-recommends", "--"),
    ),
    "dnf": (("dnf", "install", "--assumeyes", "--"),),
    "apk": (("apk", "add", "--no-cache", "--"),),
    "zypper": (("zypper", "--non-interactive", "install", "--no-recommends", "--"),),
}
"""Package managers, and what has them install packages, which are appended to the last one."""


def install_commands(manager: str, program: Program, *, root: bool) -> list[list[str]]:
    """Return the commands that install a program's packages."""
    sudo = () if root else ("sudo", "-n")
    *before, last = _MANAGERS[manager]
    packages = (program.debian_package, *program.packages)
    return [*([*sudo, *command] for command in before), [*sudo, *last, *packages]]


def install(program: Program, session: Session) -> tuple[Present, list[list[str]]]:
    """Install a program by the endpoint's package manager; return it and the commands.

    Raises SupplyError, ReachError. What is installed stays there.
    """
    where = f"program {program.name!r} on {session.name}"
    manager = _manager(session, where)
    root = session.word(["id", "-u"]) == "0"
    if not root and session.run(["sudo", "-n", "true"]).status != 0:
        raise SupplyError(
            "it can't be installed: the login is not root, and has no sudo without a password",
            where=where,
        )
    commands = install_commands(manager, program, root=root)
    for argv in commands:
        done = session.run(argv, within_s=_INSTALL_S)
        if done.status != 0:
            said = (done.stdout + done.stderr).decode(errors="replace").strip()
            message = f"{manager} failed (exit status {done.status}): {said[-_TAIL_CHARACTERS:]}"
            raise SupplyError(message, where=where, cure="install it there yourself")
    return find(program, session), commands


def _manager(session: Session, where: str) -> str:
    for manager in _MANAGERS:
        mark = secrets.token_hex(16)
        argv = ["sh", "-c", _PLACES + _LOOK, "sh", mark, manager]
        if _marked(session.run(argv), mark):
            return manager
    raise SupplyError(f"the endpoint has none of {', '.join(_MANAGERS)}", where=where)
