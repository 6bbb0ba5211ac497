"""Where a fact comes from, and the one shell script that reads all sources of an endpoint.

The script needs a POSIX shell and ``cat``. It is fixed but for the boundary, a random word that
stands before each part of its output. Small files are read by the shell itself, since starting a
program for each would take most of the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

EACH_INTERFACE = "$interface"
"""In a path or an argument: one source for each network interface but the loopback."""

MAX_INTERFACES = 32

_HEAD = """\
PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C
export PATH LC_ALL
exec 2>/dev/null
show() {
  limit=$1 mark=$2
  [ -r "$3" ] || return
  mark "$mark"
  while [ "$limit" -gt 0 ] && { IFS= read -r line || [ -n "$line" ]; }; do
    printf '%s\\n' "$line"
    limit=$((limit - 1)) line=
  done <"$3"
}
run() {
  command -v "$2" >/dev/null || return
  mark "$1"
  shift
  "$@" </dev/null
}
"""


@dataclass(frozen=True)
class File:
    """The first lines of a file; with ``lines`` None all of it, read by cat."""

    path: str
    lines: int | None = 1


@dataclass(frozen=True)
class Command:
    """What a program prints, where the endpoint has it."""

    argv: tuple[str, ...]


Source = File | Command


def script(sources: Sequence[Source], boundary: str) -> bytes:
    """Return the shell script that prints each source after a line "BOUNDARY NUMBER INTERFACE"."""
    single: list[str] = []
    each: list[str] = []
    for number, source in enumerate(sources):
        per_interface = EACH_INTERFACE in str(source)
        mark = f'"{number} $interface"' if per_interface else f'"{number} "'
        (each if per_interface else single).append(_line(source, mark))
    loop = [
        f"count={MAX_INTERFACES}",
        "for path in /sys/class/net/*; do",
        "interface=${path##*/}",
        'case $interface in lo | -* | "*") continue ;; esac',
        '[ "$count" -gt 0 ] || break',
        "count=$((count - 1))",
        *each,
        "done",
        "exit 0",
    ]
    mark = f"mark() {{ printf '\\n%s %s\\n' {boundary} \"$1\"; }}"
    return "\n".join([_HEAD + mark, *single, *loop, ""]).encode()


def _line(source: Source, mark: str) -> str:
    if isinstance(source, Command):
        return f"run {mark} " + " ".join(f'"{word}"' for word in source.argv)
    if source.lines is None:
        return f'[ -r "{source.path}" ] && mark {mark} && cat "{source.path}"'
    return f'show {source.lines} {mark} "{source.path}"'


def parts(output: bytes, boundary: str) -> dict[int, dict[str, str]]:
    """Return the text of each source by its number and interface ("" for the endpoint as a whole).

    Whatever the output is, this does not raise: a part that makes no sense is left out.
    """
    found: dict[int, dict[str, str]] = defaultdict(dict)
    text = output.decode(errors="replace")
    for part in text.split(f"\n{boundary} ")[1:]:
        mark, _newline, body = part.partition("\n")
        number, _space, interface = mark.partition(" ")
        if number.isascii() and number.isdigit() and len(number) < 6:
            found[int(number)][interface] = body
    return dict(found)
