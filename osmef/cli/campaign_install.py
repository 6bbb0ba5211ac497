"""``osmef campaign install`` and ``uninstall``: a campaign conducted by systemd or cron."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from osmef.campaigns.conductor.service import (
    ConductorService,
    cron_line,
    environment,
    remove_crontab_line,
    service,
    timer,
    unit_of,
)
from osmef.campaigns.schedule.calendar import slots
from osmef.campaigns.schedule.load import read_campaign
from osmef.campaigns.schedule.plan import plan_campaign
from osmef.campaigns.state import default_url, open_store, state_home
from osmef.campaigns.state.rows import CampaignPhase
from osmef.cli.campaign_options import (
    CampaignName,
    ExecutorKind,
    ExecutorOption,
    Metrics,
    Parallel,
    Scheduler,
    StateUrl,
    check_executor,
    options_of,
)
from osmef.cli.console import CampaignFile, out, reporting
from osmef.errors import InputError, StorageError
from osmef.files import exists, make_private_directory, read_text_file, real_path
from osmef.results.files import storage, write_atomically

_MOST_BYTES = 1 << 20
_TIMEOUT_S = 60.0


def install(  # noqa: PLR0913, PLR0917 - its options
    file: CampaignFile,
    directory: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Its runs go into DIR/NAME.")
    ] = Path("results"),
    cron: Annotated[
        bool, typer.Option("--cron", help="Add a line to your crontab instead of units of systemd.")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Only write the units into DIR, and start nothing."),
    ] = None,
    parallel: Parallel = 8,
    executor: ExecutorOption = ExecutorKind.THREADS,
    scheduler: Scheduler = "",
    metrics: Metrics = None,
    state: StateUrl = "",
) -> None:
    """Have systemd or cron conduct a campaign while its windows are open, also after a reboot."""
    with reporting():
        loaded = read_campaign(file)
        check_executor(executor, loaded)
        plan_campaign(loaded)
        name = loaded.campaign.name
        into = real_path(directory)
        how = ["--until-idle", *options_of(executor, parallel, scheduler, metrics)]
        run = ["run", str(file.resolve()), "--out", str(into), *how]
        job = ConductorService(
            name=name,
            command=[sys.executable, "-m", "osmef", "campaign", *run],
            directory=Path.cwd(),
            state=_absolute(state) or default_url(),
            log=into / name / "campaign.log",
            openings=[one.opens for one in slots(loaded.campaign) if one.closes > _now()],
        )
        _check(job, to)
        if to is None:
            _go_on(job)
        if cron:
            _add_to_crontab(job)
        else:
            _add_units(job, to)


def uninstall(
    name: CampaignName,
    cron: Annotated[
        bool, typer.Option("--cron", help="Remove the line in your crontab instead of the units.")
    ] = False,
) -> None:
    """Remove what `install` created. A session that runs is stopped; results and state stay.

    The file with the environment variables that your clouds need is deleted, too.
    """
    with reporting():
        if cron:
            old = _crontab()
            new = remove_crontab_line(old, name)
            if new == old:
                raise InputError(f"crontab has no campaign {name!r}", where="NAME")
            _write_crontab(new)
            secret = _cron_environment(name)
            with storage("remove", secret):
                secret.unlink(missing_ok=True)
            out.print(f"the line was removed from crontab, and {secret.name}")
            return
        found = [path for path in _unit_files(_units(), name) if exists(path)]
        if not found:
            message = f"there are no units of a campaign {name!r} in {_units()}"
            raise InputError(message, where="NAME", cure="is it a line of crontab? give --cron")
        unit = unit_of(name)
        _systemctl("disable", "--now", f"{unit}.timer")
        _systemctl("stop", f"{unit}.service")
        for path in found:
            with storage("remove", path):
                path.unlink()
        _systemctl("daemon-reload")
        out.print(f"{unit}.timer, {unit}.service and their {unit}.env are gone")


def _add_units(job: ConductorService, to: Path | None) -> None:
    directory = to or _units()
    is_system = to is None and os.geteuid() == 0
    with storage("make a directory", directory):
        directory.mkdir(parents=True, exist_ok=True)
    file, timing, secret = files = _unit_files(directory, job.name)
    new = [path for path in files if not exists(path)]
    _write_environment(secret, job)
    text = service(job, secret.resolve(), network=is_system)
    write_atomically(file, text.encode(), 0o644)
    write_atomically(timing, timer(job).encode(), 0o644)
    if to is not None:
        out.print(f"{job.unit}.timer and {job.unit}.service are in {directory}; nothing is started")
        return
    try:
        _systemctl("daemon-reload")
    except StorageError:  # there is no systemd that could read them
        for path in new:
            path.unlink(missing_ok=True)
        raise
    _systemctl("enable", "--now", timing.name)
    _systemctl("start", "--no-block", file.name)  # a window may be open already
    out.print(f"{timing.name} begins with the next window; the clouds' variables: {secret}")
    if not is_system:
        out.print("so that it also runs while you are not logged in: loginctl enable-linger")


def _add_to_crontab(job: ConductorService) -> None:
    with storage("make a directory", job.log.parent):
        job.log.parent.mkdir(parents=True, exist_ok=True)
    secret = _cron_environment(job.name)
    with storage("make a directory", secret.parent):
        make_private_directory(secret.parent)
    old = remove_crontab_line(_crontab(), job.name)
    _write_environment(secret, job)
    _write_crontab(f"{old}{cron_line(job, secret)}\n")
    out.print(f"cron looks every five minutes; log: {job.log}; the clouds' variables: {secret}")


def _go_on(job: ConductorService) -> None:
    """Set a stopped campaign to run: systemd and cron leave stopped ones alone."""
    store = open_store(job.state, create=True)
    for one in store.campaigns():
        if one.name == job.name and one.phase is CampaignPhase.STOPPED:
            store.set_phase(one.id, CampaignPhase.ACTIVE, one.holder)
    store.close()


def _unit_files(directory: Path, name: str) -> tuple[Path, Path, Path]:
    """Return the paths of the service, the timer and the environment file."""
    unit = unit_of(name)
    return directory / f"{unit}.service", directory / f"{unit}.timer", directory / f"{unit}.env"


def _cron_environment(name: str) -> Path:
    return state_home() / f"{unit_of(name)}.env"


def _units() -> Path:
    """Return the directory of units: the system's as root, else the user's (systemd.unit(5))."""
    if path := os.environ.get("SYSTEMD_UNIT_PATH"):
        return Path(path.partition(":")[0])
    if os.geteuid() == 0:
        return Path("/etc/systemd/system")
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "systemd" / "user"


def _systemctl(*arguments: str) -> None:
    whose, cure = [], "without systemd give --cron; to look at the units give --to DIR"
    if os.geteuid() != 0:
        whose = ["--user"]
        cure = f"log in by ssh or on a console, as su and sudo begin no session; {cure}"
    _run(["systemctl", *whose, *arguments], "", cure)


def _crontab() -> str:
    """Return the user's crontab, empty without one."""
    if shutil.which("crontab") is None:
        raise InputError("there is no crontab on this machine", cure="install cron")
    try:
        return _run(["crontab", "-l"], "", "is your name in /etc/cron.allow?")
    except StorageError as error:
        if "no crontab for" not in error.message:  # crontab(1) of cron and of cronie
            raise
        return ""


def _write_crontab(text: str) -> None:
    _run(["crontab", "-"], text, "is your name in /etc/cron.allow?")


def _run(command: Sequence[str], text: str, cure: str) -> str:
    """Run a program, and return its output. Raises StorageError."""
    try:
        done = subprocess.run(
            command, input=text, text=True, capture_output=True, check=True, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        reported = getattr(error, "stderr", None) or str(error)
        raise StorageError(f"{' '.join(command)}: {reported.strip()}", cure=cure) from error
    return done.stdout


def _write_environment(path: Path, job: ConductorService) -> None:
    with storage("read", path):
        old = read_text_file(path, _MOST_BYTES) if _is_ours(path) else ""
    write_atomically(path, environment(job, old).encode(), 0o600)


def _is_ours(path: Path) -> bool:
    """Return whether a file exists. Raises InputError for one that another user may have written.

    What it says goes into the environment of a program.
    """
    try:
        about = path.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
        cure = "find out who made it, and remove it: it says what the campaign's environment is"
        raise InputError("another user may have written this", where=str(path), cure=cure)
    return True


def _check(job: ConductorService, to: Path | None) -> None:
    if not job.openings:
        cure = "look at start and weeks in its file"
        raise InputError("all windows of the campaign have closed", where=job.name, cure=cure)
    words = [*job.command, str(job.directory), job.state, str(job.log), str(to or "")]
    if any(not word.isprintable() for word in words):
        raise InputError("a path or address has a character that can't be written in a unit")


def _absolute(state: str) -> str:
    """Return the URL of a database, independent of the working directory."""
    prefix = "sqlite:///"
    path = state.removeprefix(prefix)
    return f"{prefix}{real_path(Path(path))}" if state.startswith(prefix) and path else state


def _now() -> datetime:
    return datetime.now(UTC)
