"""A conductor as a service of systemd, a cron job, or a background process.

The first two start ``osmef campaign run --until-idle``, which ends when no window is open or opens
soon. The state in the database says what is to be done, so nothing is lost when it is started late,
twice or not at all.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from osmef.errors import StorageError
from osmef.programs import start_in_new_session
from osmef.results.files import storage

# More openings than this, and a timer looks every few minutes instead.
_MOST_LINES = 3000
_OFTEN = "*:0/5"
_STATE = "OSMEF_STATE="
# A program that begins on a slow machine reads its files for some seconds.
_BEGINS_S = 60.0
_LOOK_S = 0.1
_LAST_WORDS = 2000


@dataclass(frozen=True)
class ConductorService:
    """The command of a conductor, without a shell, its working directory, and its database.

    ``openings`` are those of the campaign's windows, in UTC.
    """

    name: str
    command: Sequence[str]
    directory: Path
    state: str
    log: Path
    openings: Sequence[datetime]

    @property
    def unit(self) -> str:
        """The name of its units, without suffix."""
        return unit_of(self.name)


def unit_of(name: str) -> str:
    """Return the name of a campaign's units, without suffix."""
    return f"osmef-campaign-{name}"


def service(job: ConductorService, environment: Path, *, network: bool) -> str:
    """Return the service unit (systemd.service(5)). ``environment`` is its EnvironmentFile.

    Only the system's own services can wait for the ``network``.
    """
    program, *arguments = map(_quoted, job.command)
    # Only in arguments a dollar begins a variable.
    words = [program, *(one.replace("$", "$$") for one in arguments)]
    online = ["Wants=network-online.target", "After=network-online.target"] if network else []
    return _lines(
        "[Unit]",
        f"Description=OSMeF campaign {job.name}",
        *online,
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={' '.join(words)}",
        f"WorkingDirectory={_path(job.directory)}",
        f"EnvironmentFile={_path(environment)}",
        "# Killed, or without its database, it goes on; stopped, it takes its machines away first.",
        "Restart=on-abnormal",
        "RestartForceExitStatus=4",
        "RestartSec=60",
        "KillMode=mixed",
        "TimeoutStopSec=30min",
    )


def timer(job: ConductorService) -> str:
    """Return the timer unit (systemd.timer(5)): all openings, also those missed while off."""
    moments = sorted({f"{at:%Y-%m-%d %H:%M:%S} UTC" for at in job.openings})
    if len(moments) > _MOST_LINES:
        moments = [_OFTEN]
    return _lines(
        "[Unit]",
        f"Description=Openings of the windows of the OSMeF campaign {job.name}",
        "",
        "[Timer]",
        *(f"OnCalendar={one}" for one in moments),
        "Persistent=true",
        "AccuracySec=1s",
        "",
        "[Install]",
        "WantedBy=timers.target",
    )


def environment(job: ConductorService, old: str = "") -> str:
    """Return the EnvironmentFile, which only its owner may read.

    A user's additions to the ``old`` one stay.
    """
    value = (
        job.state.replace("\\", r"\\").replace('"', r"\"").replace("$", r"\$").replace("`", r"\`")
    )
    kept = [line for line in old.splitlines() if not line.startswith(_STATE)]
    return _lines(
        *(kept or ["# Add what your clouds need, such as OS_CLOUD."]), f'{_STATE}"{value}"'
    )


def cron_line(job: ConductorService, environment: Path) -> str:
    """Return the line of crontab(5), every five minutes, with a comment that names the campaign.

    The state and what the clouds need are in a file of ``environment``: all users can read a
    command line.
    """
    command = shlex.join(job.command)
    directory, log, secret = (
        shlex.quote(str(one)) for one in (job.directory, job.log, environment)
    )
    text = f"cd {directory} && set -a && . {secret} && {command} >>{log} 2>&1"
    return f"*/5 * * * * {text.replace('%', chr(92) + '%')} {crontab_comment(job.name)}"


def crontab_comment(name: str) -> str:
    """Return the comment that identifies a campaign's line in a crontab."""
    return f"# osmef campaign {name}"


def remove_crontab_line(crontab: str, name: str) -> str:
    """Return a crontab without the line of a campaign."""
    lines = crontab.splitlines(keepends=True)
    return "".join(
        line for line in lines if not line.rstrip().endswith(f" {crontab_comment(name)}")
    )


def _lines(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def _quoted(word: str) -> str:
    """Quote a word of a command (systemd.service(5), "Command lines")."""
    for plain, escaped in (("\\", r"\\"), ('"', r"\""), ("%", "%%")):
        word = word.replace(plain, escaped)
    return f'"{word}"'


def _path(path: Path) -> str:
    return str(path).replace("%", "%%")


def start_in_background(
    arguments: Sequence[str], more: Mapping[str, str], log: Path, begun: Callable[[int], bool]
) -> int:
    """Start ``osmef`` with these arguments in a session of its own; return the process's id.

    ``more`` goes into its environment, which only its user can read. What it prints goes to the end
    of ``log``. Returns once ``begun`` says so of its id. Raises StorageError if it ends before.
    """
    with storage("write the log of the campaign", log):
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab", opener=_through_no_link) as file:
            reported = file.tell()
            process = start_in_new_session(
                [sys.executable, "-m", "osmef", *arguments],
                env={**os.environ, **more},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
    end = time.monotonic() + _BEGINS_S
    while time.monotonic() < end and process.poll() is None and not begun(process.pid):
        time.sleep(_LOOK_S)
    if process.poll() is None:
        process.returncode = 0  # it outlives this process, which does not wait for it
    elif process.returncode != 0:
        text = log.read_bytes()[reported:].decode(errors="replace").strip()
        raise StorageError(
            f"it ended at once: {text[-_LAST_WORDS:]}",
            where=str(log),
            cure="fix the reported error",
        )
    return process.pid


def _through_no_link(path: str, flags: int) -> int:
    """Open a log without following links: its directory may be writable by others."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)
