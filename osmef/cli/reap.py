"""``osmef reap``."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from osmef.cli.console import (
    AsJson,
    Out,
    Verbose,
    err,
    error_record,
    print_error,
    print_json,
    reporting,
    set_up_logging,
    stopping,
)
from osmef.cli.console import out as console
from osmef.engine.reap import (
    FailedDestruction,
    Orphan,
    ReapScan,
    Search,
    SkippedRun,
    check_access,
    find_orphans,
    reap,
)
from osmef.errors import InputError
from osmef.providers import provider_class, provider_kinds
from osmef.providers.base import Access
from osmef.results.rundir import RESULTS
from osmef.units import counted, parse_duration

REAP_EPILOG = """Examples:

osmef reap          lists what dead runs under results/ left behind, and asks

osmef reap --yes    deletes it without asking

osmef reap --provider openstack --cloud lab --older-than 2h    also what no journal here lists

Only what a journal or OSMeF's mark claims is destroyed. Runs with a live controller are left \
alone, and so are resources that a journal lists for another run than its own, unless you ask for \
them. With --older-than OSMeF can't check runs whose directory is elsewhere: give a time longer \
than any run. Exit codes: 0 nothing is left, 1 something is, 3 the provider failed."""

Provider = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="Only this kind of cloud, and also marked resources that no journal lists, in the"
        " accounts of journals and of the environment.",
    ),
]
OlderThan = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Also marked resources that are older than this, such as 2h, before their deadline.",
    ),
]
Cloud = Annotated[
    str | None, typer.Option(metavar="NAME", help="With --provider: look in this cloud.")
]
Region = Annotated[
    str | None, typer.Option(metavar="NAME", help="With --provider: look in this region.")
]
Uri = Annotated[
    str | None, typer.Option(metavar="URI", help="With --provider: connect to this URI.")
]
ControllerIsDead = Annotated[
    bool,
    typer.Option(
        "--controller-is-dead",
        help="Also resources of copied runs whose controller was on another machine and is dead.",
    ),
]
OtherRuns = Annotated[
    bool,
    typer.Option(
        "--other-runs",
        help="Also resources of other runs that a journal names; without it you are"
        " asked at a terminal, and elsewhere they are skipped.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Destroy without asking.")]


def reap_command(  # noqa: PLR0913, PLR0917 - an argument an option
    out: Out = Path("results"),
    provider: Provider = None,
    older_than: OlderThan = None,
    cloud: Cloud = None,
    region: Region = None,
    uri: Uri = None,
    controller_is_dead: ControllerIsDead = False,
    other_runs: OtherRuns = False,
    yes: Yes = False,
    as_json: AsJson = False,
    verbose: Verbose = 0,
) -> None:
    """Destroy orphaned resources of killed runs."""
    set_up_logging(verbose)
    with reporting(as_json):
        ways = {"cloud": cloud, "region": region, "uri": uri}
        access = {key: value for key, value in ways.items() if value}
        search = _search(out, provider, older_than, access)
        found = find_orphans(replace(search, controllers_are_dead=controller_is_dead))
        orphans = found.orphans
        if not as_json:
            for orphan in orphans:
                console.print(f"{escape(_describe(orphan))}")
            for skipped in found.skipped:
                err.print(escape(_why_skipped(skipped)))
            for line in found.unread:
                err.print(f"left alone: {escape(line)}")
        confirmed = yes or (bool(orphans) and not as_json and _confirm(len(orphans)))
        allow_foreign = sum(one.is_foreign for one in orphans) if confirmed else 0
        also = other_runs or (allow_foreign > 0 and not as_json and _confirm_foreign(allow_foreign))
        with stopping():  # what has begun ends, also when the terminal closes
            left = reap(orphans, allow_foreign=also) if confirmed else []
        stay = [one.orphan for one in left] if confirmed else orphans
        (_print_json if as_json else _print)(found, stay, left)
        if stay:
            raise typer.Exit(1)
        if found.errors:
            raise typer.Exit(found.errors[0].exit_code)


def _search(out: Path, provider: str | None, older_than: str | None, access: Access) -> Search:
    if provider is not None and provider not in provider_kinds():
        cure = f"name one of: {', '.join(provider_kinds())}"
        raise InputError(f"there is no provider {provider!r}", where="--provider", cure=cure)
    if provider is None and access:
        cure = "name the kind of cloud, for example --provider openstack"
        raise InputError(f"--{next(iter(access))} needs --provider", cure=cure)
    if provider is None and out != RESULTS and not os.path.isdir(out):  # noqa: PTH112 - never raises
        cure = "name the directory that holds the run directories"
        raise InputError("there is no such directory", where=str(out), cure=cure)
    age = None
    if older_than is not None:
        try:
            age = parse_duration(older_than)
        except ValueError as error:
            message, _, cure = str(error).partition("; ")
            raise InputError(message, where="--older-than", cure=cure) from error
    if provider is not None:
        for key in sorted(access.keys() - provider_class(provider).found_by):
            options = [f"--{one}" for one in sorted(provider_class(provider).found_by)]
            cure = f"leave it out{', or use ' if options else ''}{' or '.join(options)}"
            raise InputError(f"{provider} has no such place", where=f"--{key}", cure=cure)
        check_access(
            provider, {k: v for k, v in access.items() if k == "uri"}, "--uri", whole=False
        )
    return Search(out, provider, access, age)


def _confirm(count: int) -> bool:
    """Ask for confirmation; the end of input is a no, as under cron, and Ctrl-C aborts."""
    try:
        return typer.confirm(f"Destroy {f'these {count}' if count > 1 else 'it'}?", err=True)
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        err.print("\nno answer: add --yes to destroy without asking")
        return False


def _confirm_foreign(count: int) -> bool:
    """Ask for confirmation of resources of other runs, on a terminal."""
    what = f"{count} of these are of other runs than their directories"
    return sys.stdin.isatty() and typer.confirm(f"{what}. Destroy them, too?", err=True)


def _print(found: ReapScan, stay: list[Orphan], left: list[FailedDestruction]) -> None:
    for one in left:
        err.print(f"can't destroy {escape(_describe(one.orphan))}")
        print_error(one.error)
    for error in found.errors:
        print_error(error)
    gone = len(found.orphans) - len(stay)
    done = f"destroyed {gone or 'nothing'}, " if found.orphans else ""
    where = " of what could be looked at" if found.errors else ""
    console.print(f"{done}{len(stay) or 'nothing'} left{where}")


def _print_json(found: ReapScan, stay: list[Orphan], left: list[FailedDestruction]) -> None:
    errors = {one.orphan.resource.key: error_record(one.error) for one in left}
    print_json(
        {
            "reaped": [_record(orphan) for orphan in found.orphans if orphan not in stay],
            "left": [{**_record(one), "error": errors.get(one.resource.key)} for one in stay],
            "spared": [
                {"run": one.run, "machine": one.machine, "count": len(one.resources)}
                for one in found.skipped
            ],
            "unread": found.unread,
            "errors": [error_record(error) for error in found.errors],
        }
    )


def _describe(orphan: Orphan) -> str:
    r = orphan.resource
    where = "".join(f" {key} {value}" for key, value in r.access.items())
    name = f"{r.provider} {r.kind} {r.name} ({r.id or 'id unknown'}){where and f' at{where}'}"
    directory = orphan.directory.id if orphan.directory and orphan.is_foreign else None
    reported = f", as the journal of {directory} says" if directory else ""
    return f"{name} of run {r.run}{reported}: {orphan.reason}"


def _why_skipped(one: SkippedRun) -> str:
    return (
        f"left alone: {counted(len(one.resources), 'resource')} of run {one.run}, whose controller"
        f" is on the machine {one.machine} and may live; if it is dead for sure, add"
        " --controller-is-dead"
    )


def _record(orphan: Orphan) -> dict[str, object]:
    return {**asdict(orphan.resource), "reason": orphan.reason}
