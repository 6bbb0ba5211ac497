"""``osmef run`` and ``quick``: measure what a scenario file says, or between two hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from osmef.cli.console import (
    AsJson,
    Figures,
    Out,
    Overrides,
    ScenarioFile,
    Verbose,
    parse_overrides,
    reporting,
    set_up_logging,
)
from osmef.errors import InputError
from osmef.units import format_duration, parse_count, parse_duration

RUN_EPILOG = """Examples:

osmef run scenarios/quickstart.yaml

osmef run scenarios/osmef-paper/vm-to-vm.yaml --set workload.duration=1s --set repeat=6 --out /data

Exit codes: 0 done, 1 some trials failed, 2 bad input, 3 provider or credentials, \
4 interrupted, or endpoints were lost (go on with `osmef resume RUN`), 5 a median misses what the \
scenario expects of it (`expect`)."""


def run_command(  # noqa: PLR0913, PLR0917 - its options
    file: ScenarioFile,
    out: Out = Path("results"),
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    figures: Figures = True,
    as_json: AsJson = False,
    verbose: Verbose = 0,
) -> None:
    """Measure what a scenario file says, and write the results to a new run directory."""
    set_up_logging(verbose)
    with reporting(as_json):
        # slow to load, and a wrong command line needs none of it
        from osmef.cli.execution import begin  # noqa: PLC0415
        from osmef.scenario.load import load  # noqa: PLC0415

        study = load(file, parse_overrides(overrides))
        begin(study, out, verbose=verbose, as_json=as_json, figures=figures)


QUICK_EPILOG = """Examples:

osmef quick local            two VMs of the cloud on this machine

osmef quick left right       from one host to another, named as for ssh

osmef quick left me@10.0.0.7 --connections 1,8 --duration 10s

The scenario is in the run directory: change it, and give it to `osmef run`. Exit codes are those \
of `osmef run`."""

_LOCAL = "local"
_HOSTS = "HOST_A HOST_B"
_IPV6 = re.compile(r"\[[^]]*:")  # in brackets, where a name or an IPv4 address may be, too


def quick_command(  # noqa: PLR0913, PLR0917 - its options
    ends: Annotated[
        list[str],
        typer.Argument(metavar=_HOSTS, help="Sender and receiver, named as for ssh; or: local"),
    ],
    duration: Annotated[str, typer.Option(help="How long each trial takes.")] = "2s",
    connections: Annotated[
        str, typer.Option(metavar="LIST", help="Parallel connections, one number or several.")
    ] = "1",
    repeat: Annotated[int, typer.Option(help="Trials for each number of connections.")] = 6,
    out: Out = Path("results"),
    figures: Figures = False,
    as_json: AsJson = False,
    verbose: Verbose = 0,
) -> None:
    """Measure TCP throughput between two hosts, without a scenario file."""
    set_up_logging(verbose)
    with reporting(as_json):
        # slow to load, as for `osmef run`
        from osmef.cli.execution import begin  # noqa: PLC0415
        from osmef.scenario.load import load_text  # noqa: PLC0415
        from osmef.scenario.yaml_text import write_yaml  # noqa: PLC0415

        text = write_yaml(_scenario(ends, duration, connections, repeat))
        with _naming_arguments(text):
            study = load_text(text, Path("quick.yaml"))
            begin(study, out, verbose=verbose, as_json=as_json, figures=figures)


_ARGUMENTS = {
    "hosts": _HOSTS,
    "duration": "--duration",
    "interval": "--duration",
    "connections": "--connections",
    "repeat": "--repeat",
}
"""The arguments of ``osmef quick`` by the keys of the scenario made of them."""


@contextmanager
def _naming_arguments(text: str) -> Iterator[None]:
    """Turn the first problem of a scenario made of arguments into one of its argument.

    The user has no such file, and so none of its lines.
    """
    try:
        yield
    except InputError as error:
        if not error.problems:
            raise
        problem = error.problems[0]
        above = reversed(text.splitlines()[: problem.line])
        keys = (line.strip().partition(":")[0] for line in above)
        where = next((_ARGUMENTS[key] for key in keys if key in _ARGUMENTS), None)
        raise InputError(problem.message, where=where, cure=problem.cure) from error


def _scenario(ends: list[str], duration: str, connections: str, repeat: int) -> dict[str, Any]:
    """Return a scenario between two hosts, or of the local cloud. Raises InputError."""
    if ends != [_LOCAL] and len(ends) != 2:
        raise InputError(
            "name two hosts, as for ssh",
            where=_HOSTS,
            cure="osmef quick HOST_A HOST_B, or osmef quick local",
        )
    if len(set(ends)) < len(ends):
        raise InputError(
            f"{ends[0]} is named twice",
            where=_HOSTS,
            cure="name two machines; for one alone write a scenario with endpoints:"
            " {loopback: {kind: host}}",
        )
    found: dict[str, Any] = {"name": "quick", "provider": _LOCAL}
    if len(ends) == 2:
        hosts = {name: {"ssh": end} for name, end in zip(("host-a", "host-b"), ends, strict=True)}
        found["provider"] = {"kind": "static", "hosts": hosts}
        found["endpoints"] = {"sender": {"kind": "host"}, "receiver": {"kind": "host"}}
        if any(map(_IPV6.search, ends)):
            found["family"] = "ipv6"
    found["workload"] = {"kind": "btc", "duration": duration, "interval": _interval(duration)}
    found["sweep"] = {"connections": _numbers(connections)}
    return {**found, "repeat": repeat}


def _interval(duration: str) -> str:
    """Return the interval of the time series: a tenth of a trial."""
    try:
        return format_duration(max(0.01, parse_duration(duration) / 10)).replace(" ", "")
    except ValueError as error:
        what, _, cure = str(error).partition("; ")
        raise InputError(what, where="--duration", cure=cure) from error


def _numbers(text: str) -> list[int]:
    numbers = [parse_count(part.strip()) for part in text.split(",")]
    if None in numbers:
        raise InputError(
            f"{text!r} is no list of numbers", where="--connections", cure="write it as 1,8"
        )
    return [number for number in numbers if number is not None]
