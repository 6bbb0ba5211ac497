"""``osmef profile``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from osmef.cli.console import (
    AsJson,
    Out,
    Overrides,
    ScenarioFile,
    Verbose,
    err,
    parse_overrides,
    print_json,
    print_note,
    reporting,
    set_up_logging,
)
from osmef.cli.console import (
    out as console,
)
from osmef.cli.execution import exit_as_judged, measure
from osmef.cli.results import show
from osmef.engine.check import check_provider, check_study
from osmef.engine.cost import check_budget, cost_of
from osmef.engine.plan import make_plan
from osmef.engine.recovery import note_plan
from osmef.errors import InputError, SupplyError
from osmef.report.fit import column, table
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary
from osmef.scenario.load import load
from osmef.scenario.study import Study
from osmef.scenario.workload import STAND_INS, WORKLOAD_SETS
from osmef.workloads import TrialWorkload

PROFILE_EPILOG = """Examples:

osmef profile scenarios/profile.yaml

osmef profile scenarios/aws.yaml --flavor m5.large --flavor c5.large --out /data

osmef profile scenarios/profile.yaml --with 'sysbench, iperf3'

Then osmef similarity RUNS ranks the counterparts of machine types of several providers. Exit \
codes are those of osmef run."""

VECTOR = "machine-vector"
_USUAL = ", ".join(WORKLOAD_SETS[VECTOR])
_LEAST = 6
_WORDS = {
    "threads": "threads",
    "cpu_s": "CPU\ns",
    "memory_mb": "memory\nMB",
    "memory_mb_per_s": "memory\nMB/s",
    "disk_read_mb_per_s": "disk read\nMB/s",
    "disk_write_mb_per_s": "disk write\nMB/s",
    "network_mb_per_s": "network\nMB/s",
}


def profile_command(  # noqa: PLR0913, PLR0917 - its options
    file: ScenarioFile,
    flavor: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A flavor to profile, instead of the scenario's. May be repeated.",
            show_default=False,
        ),
    ] = None,
    workloads: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="LIST",
            help=f"The workloads that measure the components, by default {_USUAL}; "
            "sysbench replaces tachyon where that can't be supplied.",
            show_default=False,
        ),
    ] = None,
    out: Out = Path("results"),
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    as_json: AsJson = False,
    verbose: Verbose = 0,
) -> None:
    """Measure the vectors of machine types: CPU, memory, disk and network of each flavor."""
    set_up_logging(verbose)
    with reporting(as_json):
        # pandas takes a while to load
        from osmef.report.data import Data  # noqa: PLC0415
        from osmef.report.machine_types import machines_of, vector_table  # noqa: PLC0415

        wanted = parse_overrides(overrides)
        options = {} if "workload" in wanted else {"--set workload": "--with"}
        if flavor:
            wanted["flavor"] = f"[{', '.join(flavor)}]"
            options["--set flavor"] = "--flavor"
        run = _Profile(file, wanted, options, out, verbose, as_json)
        summary, path = run.measure_usual() if workloads is None else run.measure(workloads)
        table = vector_table(machines_of(Data(path)))
        rows = table.astype(object).where(table.notna(), None).to_dict("records")
        if as_json:
            print_json({"directory": str(path), "vectors": rows})
        else:
            show(summary, path, [])
            if rows:
                _print(rows)
        if not rows:
            print_note(
                err,
                "no endpoint has a flavor, so there is no machine type to profile: choose one for"
                " each endpoint, or write that of each VM into the inventory",
            )
        exit_as_judged(summary)


@dataclass(frozen=True)
class _Profile:
    """What the user asks for, but for the workloads.

    ``options`` are the names of this command's options by the places in which problems name them.
    """

    file: Path
    wanted: Mapping[str, str]
    options: Mapping[str, str]
    out: Path
    verbose: int
    as_json: bool

    def measure_usual(self) -> tuple[Summary, Path]:
        """Measure with the usual set; a program that no endpoint can have leaves it to another."""
        try:
            return self.measure(_USUAL)
        except SupplyError as error:
            other = STAND_INS.get(error.program or "")
            if other is None:
                raise
            err.print(
                escape(
                    f"{error.where}: {error.message}\n"
                    f"{other} takes the place of {error.program}, from the start in a new run; "
                    f"its numbers compare with those of {other} only"
                ),
                style="yellow",
            )
            return self.measure(_USUAL.replace(str(error.program), other))

    def measure(self, workloads: str) -> tuple[Summary, Path]:
        """Measure with these workloads; return the summary and the run's directory."""
        wanted = {"workload": f"[{workloads}]", **self.wanted}
        with _naming(self.options):
            asked = load(self.file, wanted).scenario.repetitions
            if asked < _LEAST:
                wanted["repeat"] = str(_LEAST)
            study = load(self.file, wanted)
            _check_components(study)
            check_study(study)
            plan = make_plan(study)
            check_budget(plan, cost_of(plan))
            check_provider(plan)
        if asked < _LEAST:
            print_note(
                err, f"repeat is {_LEAST}, not {asked}: the fewest with an interval of the median"
            )
        name, suffix = study.scenario.name, self.file.suffix
        with RunDirectory.create(self.out, name, study.text, suffix) as directory:
            note_plan(directory, plan)
            summary, _ = measure(
                plan, directory, verbose=self.verbose, as_json=self.as_json, figures=False
            )
        return summary, directory.path


def _check_components(study: Study) -> None:
    """Raise InputError for workloads that say nothing about a machine type."""
    first = {cell.scenario.workload.kind: cell for cell in reversed(study.cells)}
    problems = [
        cell.problem(
            "workload",
            f"{kind} measures no component of a machine type",
            f"leave it out; osmef workloads {kind} shows what it measures",
        )
        for kind, cell in first.items()
        if all(one.component is None for one in TrialWorkload(cell.scenario).measures)
    ]
    if problems:
        raise InputError.from_problems(problems)


@contextmanager
def _naming(options: Mapping[str, str]) -> Iterator[None]:
    """Name other options as the places of problems: the user has given no ``--set`` for them."""
    try:
        yield
    except InputError as error:
        if not error.problems:
            raise
        found = [replace(one, file=options.get(one.file, one.file)) for one in error.problems]
        raise InputError.from_problems(found, error.more) from error


def _print(rows: list[dict[Any, Any]]) -> None:
    """Print a line for each machine type, with the interval of each component below its median."""
    measured = {(str(row["component"]), str(row["by"])) for row in rows}
    columns = sorted(measured, key=lambda one: ([*_WORDS].index(one[0]), one[1]))
    found: dict[str, dict[tuple[str, str], tuple[str, str]]] = {}
    for row in rows:
        low, high = row["ci95_low"], row["ci95_high"]
        interval = "" if low is None else f"{low:.6g}..{high:.6g}"
        machine = found.setdefault(f"{row['provider']} {row['flavor']}", {})
        machine[str(row["component"]), str(row["by"])] = f"{row['median']:.6g}", interval
    names = [text for name in found for text in (name, "")]
    numbers = [
        column(
            f"{_WORDS[one[0]]}\n{_program(one[1])}",
            [text for machine in found.values() for text in machine.get(one, ("?", ""))],
            rank=1,
            right=True,
        )
        for one in columns
    ]
    console.print(table([column("machine type", names), *numbers], console.width, long=None))
    console.print(
        "Medians with their 95 % intervals; threads and memory are as the endpoints report them."
    )


def _program(by: str) -> str:
    """Parse ``METRIC of WORKLOAD``."""
    _, _, workload = by.partition(" of ")
    return workload
