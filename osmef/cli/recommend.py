"""``osmef recommend``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from osmef.cli.completion import complete_run
from osmef.cli.console import AsJson, out, print_json, reporting
from osmef.cli.where import Where, where_of
from osmef.errors import InputError
from osmef.report.fit import column, table
from osmef.scenario.fields import Money, parse_money
from osmef.units import format_rate, parse_duration, parse_rate

if TYPE_CHECKING:
    import pandas as pd  # slow to load

EPILOG = """Examples:

osmef recommend results/aws-* results/gce-* --btc 5Gbit/s --connections 10

osmef recommend RUNS --rtt 200us --budget "0.50 USD" --prices prices.yaml --json

yes: the whole 95 % interval of the best cell meets every need; likely: its median does; \
unknown: something was not measured, or has no price; no: a median does not."""

_COLOURS = {"yes": "green", "likely": "cyan", "unknown": "yellow", "no": "red"}


def command(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUNS",
            autocompletion=complete_run,
            help="Run directories, directories that hold some, or patterns.",
        ),
    ],
    btc: Annotated[
        str | None,
        typer.Option(metavar="RATE", help="Aggregate BTC of at least this.", show_default=False),
    ] = None,
    rtt: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Median round trip of at most this.", show_default=False),
    ] = None,
    connections: Annotated[
        int | None,
        typer.Option(min=1, help="With so many parallel connections.", show_default=False),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="MONEY", help="Price of an hour of all machines, at most.", show_default=False
        ),
    ] = None,
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
    """Say which flavors and placements meet what is needed, with the evidence."""
    with reporting(as_json):
        # pandas takes a while to load
        from osmef.analysis.recommend import Needs, recommend  # noqa: PLC0415
        from osmef.report.data import Data  # noqa: PLC0415
        from osmef.report.prices import priced  # noqa: PLC0415

        trials = priced(Data(*runs, where=where_of(where)), prices)
        rtt_s = _parsed("--rtt", rtt, parse_duration)
        money = _budget(budget, trials)
        needs = Needs(
            btc_bps=_parsed("--btc", btc, parse_rate),
            rtt_us=None if rtt_s is None else 1e6 * rtt_s,
            connections=connections,
            price_per_hour=money.amount if money else None,
            currency=money.currency if money else None,
        )
        rows = _rows(recommend(trials, needs))
        if as_json:
            print_json({"options": rows})
            return
    _show(rows)


def _rows(found: pd.DataFrame) -> list[dict[Any, Any]]:
    return found.astype(object).where(found.notna(), None).to_dict("records")


def _parsed(option: str, text: str | None, parse: Any) -> float | None:
    if text is None:
        return None
    try:
        return float(parse(text))
    except ValueError as error:
        what, _, cure = str(error).partition("; ")
        raise InputError(what, where=option, cure=cure) from error


def _budget(text: str | None, trials: pd.DataFrame) -> Money | None:
    """Return a budget. Raises InputError where all prices are in other currencies."""
    if text is None:
        return None
    try:
        money = parse_money(text)
    except ValueError as error:
        what, _, cure = str(error).partition("; ")
        raise InputError(what, where="--budget", cure=cure) from error
    others = set(trials["currency"].dropna())
    if others and money.currency not in others:
        raise InputError(
            f"the budget is in {money.currency}, and prices are in {', '.join(sorted(others))}",
            where="--budget",
            cure="write it in the currency of the prices: none is ever converted",
        )
    return money


def _show(rows: Sequence[Mapping[Any, Any]]) -> None:
    columns = [
        column("fits", [Text(str(row["fit"]), style=_COLOURS[str(row["fit"])]) for row in rows]),
        column("provider", [_text(row["provider"]) for row in rows], rank=2),
        column("flavors", [_flavors(row) for row in rows]),
        column("place", [_place(row) for row in rows]),
        column("aggregate BTC", [_evidence(row, "btc", format_rate) for row in rows], right=True),
        column(
            "RTT µs",
            _or_none(_evidence(row, "rtt", "{:.0f}".format) for row in rows),
            rank=1,
            right=True,
        ),
        column("price\nper hour", _or_none(map(_price, rows)), rank=3, right=True),
        column("cell", [_cells(row) for row in rows], rank=5),
        column("missing", [str(row["missing"]) for row in rows], rank=4),
    ]
    out.print(table(columns, out.width))


def _or_none(texts: Iterable[str]) -> list[str]:
    """Return the texts of a column, None if all are empty."""
    found = list(texts)
    return [] if set(found) == {"-"} else found


def _flavors(row: Mapping[Any, Any]) -> str:
    return " to ".join(map(_text, dict.fromkeys((row["sender_flavors"], row["receiver_flavors"]))))


def _place(row: Mapping[Any, Any]) -> str:
    place = (row["achieved_placement"], row["achieved_tenancy"])
    return ", ".join(_text(one) for one in place if one)


def _cells(row: Mapping[Any, Any]) -> str:
    cells = dict.fromkeys(row[f"{name}_cell"] for name in ("btc", "rtt"))
    return "; ".join(str(cell) for cell in cells if cell) or "-"


def _price(row: Mapping[Any, Any]) -> str:
    known = row["price_per_hour"] is not None
    return f"{row['price_per_hour']:.4g} {row['currency']}" if known else "-"


def _text(value: object) -> str:
    return "-" if value is None else str(value)


def _evidence(row: Mapping[Any, Any], name: str, show: Any) -> str:
    """Return the median with its interval, or the number of values."""
    median, low, high = (row[f"{name}_{what}"] for what in ("median", "low", "high"))
    if median is None:
        return "-"
    if low is None or high is None:
        return f"{show(median)} (n = {row[f'{name}_n']})"
    return f"{show(median)} ({_bare(show(low), show(high))}..{show(high)})"


def _bare(low: str, high: str) -> str:
    """Return the lower end without its unit, if it equals the upper one's."""
    number, _, unit = low.partition(" ")
    return number if unit == high.partition(" ")[2] else low
