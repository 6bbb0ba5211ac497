"""``osmef run``."""

from __future__ import annotations

from pathlib import Path

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

EPILOG = """Examples:

osmef run scenarios/quickstart.yaml

osmef run scenarios/osmef-paper/vm-to-vm.yaml --set workload.duration=1s --set repeat=6 --out /data

Exit codes: 0 done, 1 some trials failed, 2 bad input, 3 provider or credentials, \
4 interrupted, or endpoints were lost (go on with `osmef resume RUN`), 5 a median misses what the \
scenario expects of it (`expect`)."""


def command(  # noqa: PLR0913, PLR0917 - its options
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
