"""``osmef recommend`` and ``similarity``: machine types for given needs, and those alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

from osmef.cli.completion import Runs
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
from osmef.errors import InputError
from osmef.report.fit import TextColumn, column, fitted, table
from osmef.scenario.fields import Money, parse_money
from osmef.units import format_rate, parse_duration, parse_rate

if TYPE_CHECKING:
    import pandas as pd  # slow to load

    from osmef.analysis.recommend import Needs  # slow to load, too


RECOMMEND_EPILOG = """Examples:

osmef recommend results/aws-* results/gce-* --btc 5Gbit/s --connections 10

osmef recommend RUNS --rtt 200us --budget "0.50 USD" --prices prices.yaml --json

yes: the whole 95 % interval of the best cell meets every need; likely: its median does; \
unknown: something was not measured, or has no price; no: a median does not."""

_COLOURS = {"yes": "green", "likely": "cyan", "unknown": "yellow", "no": "red"}


def recommend_command(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    runs: Runs,
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
        typer.Option(min=1, help="Number of parallel connections of --btc.", show_default=False),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="MONEY", help="Price of an hour of all machines, at most.", show_default=False
        ),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A price list, YAML or CSV, instead of recorded prices."),
    ] = None,
    where: Where = None,
    as_json: AsJson = False,
) -> None:
    """Say which flavors and placements meet what is needed, with the evidence."""
    with reporting(as_json):
        # pandas takes a while to load
        from osmef.analysis.recommend import Needs, recommend  # noqa: PLC0415
        from osmef.report.data import Data  # noqa: PLC0415
        from osmef.report.machine_types import priced, with_cloud_names  # noqa: PLC0415

        data = Data(*runs, where=where_of(where))
        note_trial_counts(data.runs)
        note_left_out(runs)
        trials = with_cloud_names(data, priced(data, prices))
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
    _show(rows, needs)


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
            cure="write it in the currency of the prices: currencies are never converted",
        )
    return money


def _show(rows: Sequence[Mapping[Any, Any]], needs: Needs) -> None:
    providers = [_text(row["provider"]) for row in rows]
    columns = [
        column("fits", [Text(str(row["fit"]), style=_COLOURS[str(row["fit"])]) for row in rows]),
        column("provider", providers, rank=0 if len(set(providers)) > 1 else 2),
        column("flavors", [_flavors(row) for row in rows]),
        column("place", [_placement(row) for row in rows]),
        _of_need(
            "aggregate BTC",
            [_evidence(row, "btc", format_rate) for row in rows],
            is_needed=needs.btc_bps is not None,
        ),
        _of_need(
            "RTT µs",
            [_evidence(row, "rtt", "{:.0f}".format) for row in rows],
            is_needed=needs.rtt_us is not None,
        ),
        column("price\nper hour", _or_none(map(_price, rows)), rank=3, right=True),
        column("cell", [_cells(row) for row in rows], rank=5),
    ]
    missing = column("missing", [str(row["missing"]) for row in rows], rank=4)
    if missing.name not in fitted([*columns, missing], out.width)[1]:
        out.print(table([*columns, missing], out.width))
        return
    reasons = (f"Missing for {_option(row)}: {row['missing']}." for row in rows if row["missing"])
    out.print(table(columns, out.width, *dict.fromkeys(reasons)))


def _of_need(head: str, texts: Sequence[str], *, is_needed: bool) -> TextColumn:
    """Return the column of a need, which any width has room for; else it may be left out."""
    if is_needed:
        return column(head, texts, right=True)
    return column(head, _or_none(texts), rank=1, right=True)


def _option(row: Mapping[Any, Any]) -> str:
    words = [word for word in (_text(row["provider"]), _flavors(row), _placement(row)) if word]
    return ", ".join(word for word in words if word != "-") or "machines of an unknown flavor"


def _or_none(texts: Iterable[str]) -> list[str]:
    """Return the texts of a column, None if all are empty."""
    found = list(texts)
    return [] if set(found) == {"-"} else found


def _flavors(row: Mapping[Any, Any]) -> str:
    return " to ".join(map(_text, dict.fromkeys((row["sender_flavors"], row["receiver_flavors"]))))


def _placement(row: Mapping[Any, Any]) -> str:
    placement = (row["achieved_placement"], row["achieved_tenancy"])
    return ", ".join(_text(one) for one in placement if one)


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


SIMILARITY_EPILOG = """Examples:

osmef similarity machines.csv

osmef similarity machines.csv --most 1 --json

osmef similarity results/aws-* results/gce-*

osmef similarity results/* --cheapest --prices prices.yaml

The columns of the file are provider, flavor, and whichever were measured of threads, cpu_s, \
memory_mb, memory_mb_per_s, disk_read_mb_per_s, disk_write_mb_per_s and network_mb_per_s; each row \
is a measurement. The median is compared; six measurements give an interval. Runs contain the \
threads and memory of their flavors, and the other components that their workloads measure. Only \
components that one program measured on all machine types are used. As a heatmap: \
osmef plot similarity machines.csv"""

_PARTS = 2
"""How many of the components that decide are shown in a table."""


def similarity_command(  # noqa: PLR0913, PLR0917 - one parameter an option
    machines: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE|RUNS...", help="Measurements of machine types, CSV, or runs of them."
        ),
    ],
    most: Annotated[
        int, typer.Option(min=1, help="How many counterparts of a machine type to show.")
    ] = 3,
    within: Annotated[
        bool, typer.Option("--within", help="Rank machine types of the same provider, too.")
    ] = False,
    cheapest: Annotated[
        bool,
        typer.Option(
            "--cheapest", help="Show the cheapest counterpart that is at least of the same class."
        ),
    ] = False,
    prices: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Prices, YAML or CSV; without it those that the runs recorded.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rank, for each machine type, those of other providers by how similar they are."""
    with reporting(as_json):
        # pandas takes a while to load
        from osmef.analysis.similarity import counterparts  # noqa: PLC0415
        from osmef.report.data import Data  # noqa: PLC0415
        from osmef.report.machine_types import measured_machines, table_among  # noqa: PLC0415

        if prices is not None and not cheapest:
            cure = "add --cheapest, or leave --prices out"
            raise InputError("prices are used by --cheapest only", where="--prices", cure=cure)
        file = table_among(machines)
        data = Data(*machines, components=True)
        note_trial_counts(data.runs if file is None else ())
        note_left_out(machines if file is None else ())
        measured = measured_machines(data, file)
        found = counterparts(measured, within=within)
        if found.empty:
            what, where = "no machine type is of another provider", ", ".join(map(str, machines))
            cure = "give machine types of two providers, or add --within"
            raise InputError(what, where=where, cure=cure)
        costs = _costs(data, measured, prices, has_runs=file is None) if cheapest else []
        rows = _records(found[found["rank"] <= most])
        if as_json:
            by = dict(zip(measured["component"], measured["by"], strict=True))
            about = {"components": [*by], "by": by, "left_out": measured.attrs.get("left", {})}
            print_json({**about, "counterparts": rows, "cheapest": costs})
            return
    _print(rows, measured)
    if cheapest:
        _print_costs(costs)


def _costs(
    data: Any, measured: pd.DataFrame, file: Path | None, *, has_runs: bool
) -> list[dict[str, Any]]:
    """Return the cheapest counterparts. Raises InputError without any known price."""
    from osmef.analysis.similarity import cheapest  # noqa: PLC0415
    from osmef.report.machine_types import machine_prices, price_table  # noqa: PLC0415

    if file is None and not has_runs:
        cure = "add --prices prices.yaml"
        raise InputError("a table of measurements has no prices", where="--cheapest", cure=cure)
    known = price_table(data, file)
    rows = _records(cheapest(measured, machine_prices(data, known) if has_runs else known))
    if not rows:
        cure = "give them with --prices, by provider and flavor"
        raise InputError("no machine type has a price", where="--cheapest", cure=cure)
    return rows


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows for JSON, with None for unknown values."""
    known = table.astype(object).where(table.notna(), None)
    return [{str(key): value for key, value in row.items()} for row in known.to_dict("records")]


def _print(rows: Sequence[Mapping[str, Any]], measured: pd.DataFrame) -> None:
    intervals = [
        "" if row["ci95_low"] is None else f"{row['ci95_low']:.3f} to {row['ci95_high']:.3f}"
        for row in rows
    ]
    ranks = [f"{row['rank']}{' *' if row['tied'] else ''}" for row in rows]
    columns = [
        column("machine type", [str(row["machine"]) for row in rows]),
        column("rank", ranks),
        column("counterpart", [str(row["counterpart"]) for row in rows]),
        column("similarity", [f"{row['similarity']:.3f}" for row in rows], right=True),
        column("95 %", intervals, rank=1),
        column("differs most in", [_decided(row["decided_by"]) for row in rows], rank=2),
    ]
    out.print(table(columns, out.width))
    out.print(escape(_by(dict(zip(measured["component"], measured["by"], strict=True)))))
    if any(row["tied"] for row in rows):
        out.print("* can't be distinguished from the first: the intervals overlap")
    for name, missing in measured.attrs.get("left", {}).items():
        text = f"{_word(name)} is left out: not measured, or as 0, on {', '.join(missing)}"
        print_note(err, text)


def _decided(parts: Sequence[Mapping[str, Any]]) -> str:
    """Describe the components in which a counterpart differs, as ratios."""
    return ", ".join(f"{_word(one['component'])} x{one['ratio']:.2f}" for one in parts[:_PARTS])


def _by(programs: Mapping[str, str]) -> str:
    """Name the workload that measured each component; once if it is the same for all."""
    if len(set(programs.values())) == 1:
        (by,) = set(programs.values())
        return f"by {', '.join(map(_word, programs))}, of {by}"
    return "by " + ", ".join(f"{_word(name)} ({by})" for name, by in programs.items())


def _word(component: str) -> str:
    from osmef.analysis.similarity import COMPONENT_WORDS  # noqa: PLC0415 - pandas is slow to load

    return COMPONENT_WORDS[component]


def _print_costs(rows: Sequence[Mapping[str, Any]]) -> None:
    found = [(row, row["counterpart"] is not None) for row in rows]
    columns = [
        column("machine type", [str(row["machine"]) for row in rows]),
        column("price\nper hour", [_price_of(row, "price_per_hour") for row in rows], right=True),
        column(
            "cheapest of its\nclass elsewhere",
            [str(row["counterpart"]) if has else "none" for row, has in found],
        ),
        column(
            "price\nper hour",
            [_price_of(row, "counterpart_price_per_hour") if has else "" for row, has in found],
            right=True,
        ),
        column(
            "saves", [f"{100 * row['saving']:.0f} %" if has else "" for row, has in found],
            right=True,
        ),
    ]  # fmt: skip
    out.print(table(columns, out.width))
    out.print("of its class: in no component worse by more than 10 %")


def _price_of(row: Mapping[str, Any], key: str) -> str:
    return f"{row[key]:g} {row['currency']}"
