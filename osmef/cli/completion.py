"""Shell completion of runs, workloads, settings, metrics, columns and campaigns. Never raises."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from osmef.errors import OsmefError
from osmef.kinds import WORKLOADS

if TYPE_CHECKING:
    import pandas as pd  # slow to load

_SQLITE = "sqlite:///"
_RUNS = ("runs", "run", "a", "b")
"""The arguments of commands that are runs."""


def complete_run(begin: str) -> list[str]:
    """Complete a RUN: names of runs and directories."""
    folder, slash, name = begin.rpartition("/")
    found = [f"{folder}{slash}{one}" for one in _directories(Path(folder or slash or "."), name)]
    named = ["latest", *_directories(Path("results"), name)] if not slash else []
    return [*(one for one in named if one.startswith(name)), *found]


Runs = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUNS",
        autocompletion=complete_run,
        help="Run directories, directories that hold some, or patterns.",
    ),
]
"""The runs that a command reads together."""


def _directories(directory: Path, begin: str) -> list[str]:
    try:
        inside = [one.name for one in directory.iterdir() if one.is_dir()]
    except OSError:  # there is none, or it can't be read: nothing to offer
        return []
    return sorted(one for one in inside if one.startswith(begin) and not one.startswith("."))


def complete_workload(begin: str) -> list[str]:
    """Complete the kind of a workload."""
    return [name for name in WORKLOADS.names if name.startswith(begin)]


def complete_setting(begin: str) -> list[str]:
    """Complete the name of a scenario's setting, to the next dot or equals sign.

    Words without a dot, such as ``connections``, come once a letter is typed.
    """
    from osmef.scenario.model import Scenario  # noqa: PLC0415 - the models take a while to load
    from osmef.scenario.names import all_paths, short_names  # noqa: PLC0415

    tops = tuple(Scenario.model_fields)
    paths = all_paths(tops)
    inner = {path[:-1] for path in paths}
    offered = {".".join(path) + ("." if path in inner else "=") for path in paths}
    if begin:
        offered |= {f"{name}=" for name in short_names(tops)}
    depth = begin.count(".")
    return sorted(
        name
        for name in offered
        if name.startswith(begin) and name.removesuffix(".").count(".") == depth
    )


def complete_metric(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a metric of the runs on the command line."""
    from osmef.results.frame import measures_of  # noqa: PLC0415 - pandas takes a while to load

    frame = _trials(ctx)
    names = () if frame is None else measures_of(frame)
    return [name for name in names if name.startswith(incomplete)]


def complete_where(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a column of the trials of these runs, or a value of a column."""
    frame = _trials(ctx)
    if frame is None:
        return []
    column, equals, _ = incomplete.partition("=")
    if equals and column not in frame:
        return []
    values = frame[column].dropna().astype("string").unique() if equals else ()
    offered: Iterable[str] = [f"{column}={value}" for value in values] if equals else frame.columns
    return [one + "=" * (not equals) for one in offered if one.startswith(incomplete)]


def _trials(ctx: typer.Context) -> pd.DataFrame | None:
    """Return the trials of the runs on the command line; None without any.

    While an option has no value yet, the arguments of its command are not parsed.
    """
    from osmef.results.frame import load  # noqa: PLC0415 - pandas takes a while to load
    from osmef.results.rundir import find_runs  # noqa: PLC0415 - as below

    named = [ctx.args, *(ctx.params.get(name) or () for name in _RUNS)]
    words = [one for some in named for one in ([some] if isinstance(some, str | Path) else some)]
    runs = []
    for word in words:
        with suppress(OsmefError):
            runs += [run.path for run in find_runs(word)]
    try:
        return load(*dict.fromkeys(runs)) if runs else None
    except OsmefError:
        return None


def complete_campaign(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a campaign in an existing database file."""
    from osmef.campaigns.state import default_url, open_store  # noqa: PLC0415 - not of all commands

    url = ctx.params.get("state") or default_url()
    if not url.startswith(_SQLITE) or not Path(url.removeprefix(_SQLITE)).is_file():
        return []
    try:
        return [one.name for one in open_store(url).campaigns() if one.name.startswith(incomplete)]
    except (OsmefError, ModuleNotFoundError):  # SQLAlchemy comes with an extra
        return []
