"""A campaign as units of systemd, or as a line of crontab: conducted while a window is open.

Both start ``osmef campaign run --until-idle``, which ends when no window is open or opens soon. The
state in the database says what is to be done, so nothing is lost when it is started late, twice or
not at all.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

# More openings than this, and a timer looks every few minutes instead.
_MOST_LINES = 3000
_OFTEN = "*:0/5"
_STATE = "OSMEF_STATE="


@dataclass(frozen=True)
class Job:
    """What is started: the command, without a shell, in which directory, and with which database.

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
        """The name of its units, without their ends."""
        return unit_of(self.name)


def unit_of(name: str) -> str:
    """Return the name of a campaign's units, without their ends."""
    return f"osmef-campaign-{name}"


def service(job: Job, environment: Path, *, network: bool) -> str:
    """Return the service (systemd.service(5)). ``environment`` is a file that holds the state.

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


def timer(job: Job) -> str:
    """Return the timer (systemd.timer(5)): all openings, and what was missed while it was off."""
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


def environment(job: Job, old: str = "") -> str:
    """Return the file of environment variables, which only its owner may read.

    What somebody has added to the ``old`` one stays.
    """
    value = (
        job.state.replace("\\", r"\\").replace('"', r"\"").replace("$", r"\$").replace("`", r"\`")
    )
    kept = [line for line in old.splitlines() if not line.startswith(_STATE)]
    return _lines(
        *(kept or ["# Add what your clouds need, such as OS_CLOUD."]), f'{_STATE}"{value}"'
    )


def cron_line(job: Job, environment: Path) -> str:
    """Return the line (crontab(5)), which looks every five minutes; its end names the campaign.

    The state and what the clouds need are in a file of ``environment``: anybody can read a command.
    """
    command = shlex.join(job.command)
    place, log, secret = (shlex.quote(str(one)) for one in (job.directory, job.log, environment))
    text = f"cd {place} && set -a && . {secret} && {command} >>{log} 2>&1"
    return f"*/5 * * * * {text.replace('%', chr(92) + '%')} {mark(job.name)}"


def mark(name: str) -> str:
    """Return the comment by which a line of crontab is found again."""
    return f"# osmef campaign {name}"


def without(crontab: str, name: str) -> str:
    """Return a crontab without the line of a campaign."""
    lines = crontab.splitlines(keepends=True)
    return "".join(line for line in lines if not line.rstrip().endswith(f" {mark(name)}"))


def _lines(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def _quoted(word: str) -> str:
    """Quote a word of a command (systemd.service(5), "Command lines")."""
    for plain, escaped in (("\\", r"\\"), ('"', r"\""), ("%", "%%")):
        word = word.replace(plain, escaped)
    return f'"{word}"'


def _path(path: Path) -> str:
    return str(path).replace("%", "%%")
