"""``osmef prices``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from osmef.cli.completion import Runs, complete_metric
from osmef.cli.console import (
    AsJson,
    Where,
    err,
    note_left_out,
    note_trial_counts,
    out,
    print_json,
    print_note,
    reporting,
    where_of,
)
from osmef.errors import NotFoundError
from osmef.prices.price_list import fetched_file, read_book, update
from osmef.report.fit import TextColumn, column, table
from osmef.report.summary import short_cells
from osmef.results.measure import Measure
from osmef.scenario.fields import Price

app = typer.Typer(
    help="List prices of VMs, fetch them from the clouds' price APIs, rank throughput by price.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Provider = Annotated[
    str | None, typer.Option(metavar="KIND", help="Only those of this kind of cloud.")
]
CloudKind = Annotated[str, typer.Argument(metavar="KIND", help="aws, gce or azure.")]
Regions = Annotated[
    list[str],
    typer.Option(
        "--region",
        metavar="REGION",
        help="Region to fetch prices of; may be repeated. Default: those in the lists.",
        show_default=False,
    ),
]
Flavors = Annotated[
    list[str],
    typer.Option(
        "--flavor",
        metavar="FLAVOR",
        help="Flavor to fetch the price of; may be repeated. Default: those in the lists.",
        show_default=False,
    ),
]
Url = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Address of the price API, if it is not the usual one."),
]

_LIST_EPILOG = """Examples:

osmef prices list

osmef prices list --provider aws --json"""

_UPDATE_EPILOG = """Examples:

osmef prices update azure

osmef prices update aws --region eu-central-1 --flavor c7i.2xlarge --flavor r7i.xlarge

Azure needs no credentials; AWS and Google take those of their own tools. Exit codes: 0 done, \
2 bad input, 3 the API refused, or has no such price, 4 the file could not be written."""


_RANK_EPILOG = """Examples:

osmef prices rank results/aws-* results/gce-*

osmef prices rank RUNS --metric goodput_bps --prices prices.yaml --json

As bars: osmef plot price RUNS"""


@app.command("list", epilog=_LIST_EPILOG)
def list_command(provider: Provider = None, as_json: AsJson = False) -> None:
    """List all prices that are known: of OSMeF, fetched ones, and your own."""
    with reporting(as_json):
        known = read_book().prices
    found = [price for price in known if provider in {None, price.provider}]
    _show(found, as_json=as_json)
    if not found:
        providers = ", ".join(sorted({price.provider for price in known}))
        print_note(err, f"no list has a price of {provider!r}; there are prices of {providers}")


@app.command("update", epilog=_UPDATE_EPILOG)
def update_command(
    kind: CloudKind,
    region: Regions = [],  # noqa: B006 - typer copies it
    flavor: Flavors = [],  # noqa: B006 - typer copies it
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Fetch prices of VMs from a cloud's price API into a file of yours."""
    with reporting(as_json):
        found = update(kind, region, flavor, url)
        if not found:
            cure = "check the names of region and flavor"
            raise NotFoundError("the price API has none of these prices", where=kind, cure=cure)
    _show(found, as_json=as_json)
    if not as_json:
        err.print(f"written to {escape(str(fetched_file(kind)))}")


@app.command("rank", epilog=_RANK_EPILOG)
def rank_command(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    runs: Runs,
    metric: Annotated[
        str | None,
        typer.Option(
            autocompletion=complete_metric,
            help="Rate to rank by. Default: the main one of the runs.",
            show_default=False,
        ),
    ] = None,
    flavor: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column of the trials with the flavor.")
    ] = "sender_flavors",
    prices: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A price list, YAML or CSV, instead of recorded prices.",
            show_default=False,
        ),
    ] = None,
    where: Where = None,
    as_json: AsJson = False,
) -> None:
    """Rank flavors by throughput for their hourly price; unknown prices come last.

    Each measured cell of a flavor has a line.
    """
    with reporting(as_json):
        # pandas takes a while to load
        from osmef.report.data import Data  # noqa: PLC0415
        from osmef.report.machine_types import price_ranking  # noqa: PLC0415

        data = Data(*runs, where=where_of(where))
        note_trial_counts(data.runs)
        note_left_out(runs)
        measure, found = price_ranking(data, metric, prices, flavor)
        name = measure.name
        ranking, unpriced = (
            of.astype(object).where(of.notna(), None).to_dict("records")
            for of in (found.ranking, found.unpriced)
        )
        if as_json:
            print_json({"metric": name, "ranking": ranking, "unpriced": unpriced})
            return
    out.print(table(_ranked([*ranking, *unpriced], measure), out.width))


def _ranked(rows: Sequence[Mapping[Any, Any]], measure: Measure) -> list[TextColumn]:
    """Return the columns of a ranking, the numbers as the measure is written."""
    prices = [f"{r['price_per_hour']:.4g} {r['currency']}" if r["currency"] else "unknown"
              for r in rows]  # fmt: skip
    currency = next((str(row["currency"]) for row in rows if row["currency"]), "")
    names, _shared = short_cells(str(row["cell"]) for row in rows)
    found = [None if row[measure.name] is None else float(row[measure.name]) for row in rows]
    per = [measure.with_unit(row["per_price"]) if "per_price" in row else "-" for row in rows]
    spread = ["-" if row["cov_percent"] is None else f"{row['cov_percent']:.3g}" for row in rows]
    failed = [f"{row['failed']} of {row['trials']}" if row["failed"] else "" for row in rows]
    return [
        column("cell", [names[str(row["cell"])] for row in rows]),
        column("rank", [str(row.get("rank", "-")) for row in rows], right=True),
        column("provider", [str(row["provider"]) for row in rows], rank=2),
        column("flavor", [str(row["flavor"] or "unknown") for row in rows]),
        column(
            measure.words,
            ["unknown" if one is None else measure.with_unit(one) for one in found],
            right=True,
        ),
        column("95 % interval", [_interval(row, measure) for row in rows], rank=4, right=True),
        column("n", [str(row["n"]) for row in rows], rank=5, right=True),
        column("failed", failed, rank=1, right=True),
        column("CoV %", spread, rank=6, right=True),
        column("price\nper hour", prices, right=True),
        column(f"for 1 {currency}\nper hour", [] if set(per) == {"-"} else per, rank=1, right=True),
        column("price\nas of", [str(row["date"] or "-") for row in rows], rank=3),
    ]


def _interval(row: Mapping[Any, Any], measure: Measure) -> str:
    low, high = row["ci95_low"], row["ci95_high"]
    known = low is not None and high is not None
    return measure.between(low, high) if known else "-"


def _show(prices: Sequence[Price], *, as_json: bool) -> None:
    if as_json:
        print_json({"prices": [price.model_dump(mode="json") for price in prices]})
        return
    columns = [
        column("provider", [one.provider for one in prices]),
        column("region", [one.region or "any" for one in prices]),
        column("flavor", [one.flavor for one in prices]),
        column("price\nper hour", [str(one.per_hour) for one in prices], right=True),
        column("date", [str(one.date) for one in prices], rank=1),
        column("source", [one.source for one in prices], rank=2),
    ]
    out.print(table(columns, out.width))
