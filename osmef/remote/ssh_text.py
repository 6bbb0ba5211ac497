"""Normalisation of OpenSSH's configuration files, so that paramiko reads them as ssh does.

paramiko leaves out included files, takes a Match by a word that it does not know for one that
holds, compares these words by case, hands those of ``exec`` to a shell, and knows of no comments
at the end of a line (ssh_config(5)).
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from osmef.errors import CredentialsError
from osmef.named_file import UnfitFileError, read_text_file

EVERYWHERE = "Host *"

_MOST_INCLUDES = 16
_MOST_BYTES = 1 << 20
_SETTING = re.compile(r"(\w+)(?:\s*=\s*|\s+)(.+)")
"""A line as paramiko takes it apart: what it would read as a word must be one here, too."""
_COMMENT = re.compile(r'\s#[^"]*$')
_COMMANDS = {"proxycommand", "localcommand", "remotecommand", "knownhostscommand"}
_MATCH_ALONE = {"all", "canonical", "final"}
_MATCH_BY = {"host", "originalhost", "user", "localuser"}


def read_config(file: Path) -> list[str]:
    """Return the lines of a file and of those it includes. Raises CredentialsError."""
    return _lines(file, file.parent, _MOST_INCLUDES)


def in_home(path: str) -> Path:
    """Expand ``~`` in a path; unchanged without such a home."""
    with contextlib.suppress(RuntimeError):
        return Path(path).expanduser()
    return Path(path)


def _lines(file: Path, folder: Path, left: int) -> list[str]:
    try:
        text = read_text_file(file, _MOST_BYTES, errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        message = f"can't be read: {error.strerror}"
        cure = error.cure if isinstance(error, UnfitFileError) else "check its permissions"
        raise CredentialsError(message, where=str(file), cure=cure) from None
    lines: list[str] = []
    inside = False
    for line in map(str.strip, text.splitlines()):
        setting = _SETTING.match(line)
        if line.startswith("#") or setting is None:
            lines.append(line)
            continue
        word, value = setting[1].lower(), setting[2]
        inside = inside or word in {"host", "match"}
        if word not in _COMMANDS:
            value = _COMMENT.sub("", value)
        if word != "include":
            lines.append(f"{word} {_match(value, file) if word == 'match' else value}")
            continue
        if inside or left == 0:
            raise CredentialsError(
                "has an Include inside a Host or Match, or too many one in the other",
                where=str(file),
                cure="move it before the first Host",
            )
        for path in (path for pattern in shlex.split(value) for path in _found(pattern, folder)):
            lines += [*_lines(path, folder, left - 1), EVERYWHERE]
    return lines


def _match(value: str, file: Path) -> str:
    """Return the conditions of a Match line. Raises CredentialsError, ValueError."""
    words = iter(shlex.split(value))
    told: list[str] = []
    for written in words:
        word = written.lower().removeprefix("!")
        if word not in _MATCH_ALONE | _MATCH_BY:
            what = "OSMeF runs no shell" if word == "exec" else "OSMeF does not know what that is"
            raise CredentialsError(
                f"has a Match {written[:40]}, and {what}",
                where=str(file),
                cure="match by host, originalhost, user or localuser instead",
            )
        told.append(written.lower())
        if word in _MATCH_BY:
            told.append(_after(words, written))
    return shlex.join(told)


def _after(words: Iterator[str], word: str) -> str:
    for value in words:
        return value
    raise ValueError(f"a Match {word} that names none")


def _found(pattern: str, folder: Path) -> list[Path]:
    path = folder / in_home(pattern)
    found = Path(path.anchor).glob(str(path.relative_to(path.anchor)))
    return sorted(path for path in found if path.is_file())
