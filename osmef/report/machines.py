"""Figures of machine types: similarity, and price-performance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from osmef.analysis.price import PricePerformance
from osmef.analysis.similarity import COMPONENT_WORDS
from osmef.report.cells import nothing, unit
from osmef.report.look import PLAIN, Look
from osmef.report.series import short_cells
from osmef.report.style import GREY, LINE_INCHES, Words, broken, page, patch, styled
from osmef.results.measure import Measure

_CELL_INCHES = 0.45
_BAR_INCHES = 0.24
_DARK = 0.55  # below it the colour is so dark that text on it is white


@styled
def similarity(matrix: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the similarity of machine types as a heatmap with numbers.

    ``matrix`` is that of ``osmef.analysis.similarity.similarity_matrix``. Dark is far, light is
    alike, also in grey. Lines part the providers. Raises InputError for an empty one.
    """
    if matrix.empty:
        raise nothing("machine types", "give a table of measurements")
    names = [look.named(_name(machine)) for machine in matrix.index]
    count = len(names)
    side = _CELL_INCHES * count
    longest = 0.07 * max(map(len, names))
    header = Words(
        "Similarity of machine types",
        f"1 is alike in all components, 0 in none (Kratzke and Quint, 2015).{_components(matrix)}",
        f"{count} machine types",
    )
    size = (max(4.5, side + longest + 0.9), side + 0.7 * longest + 0.5)
    figure, (axes,) = page(header, {}, look, size=size)
    values = matrix.to_numpy(dtype="float64")
    image = axes.imshow(values, cmap="cividis", vmin=0, vmax=1, aspect="equal")
    for row in range(count):
        for column in range(count):
            value = values[row, column]
            colour = "white" if value < _DARK else "black"
            axes.text(
                column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=7
            )
    axes.set_xticks(range(count), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(count), names)
    axes.tick_params(labelsize=7.5, length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    providers = [_provider(machine) for machine in matrix.index]
    for place in range(1, count):
        if providers[place] != providers[place - 1]:
            axes.axhline(place - 0.5, color="white", linewidth=2)
            axes.axvline(place - 0.5, color="white", linewidth=2)
    figure.colorbar(image, ax=axes, label="similarity", shrink=0.8)
    return figure


@styled
def price(result: PricePerformance, measure: Measure, look: Look = PLAIN) -> Figure:
    """Draw the price-performance of flavors as bars, the best first.

    ``result`` is that of ``osmef.analysis.price.price_performance`` for ``measure``. What has no
    known price or no result stands below, without a bar. Where the table has ``ci95_low`` and
    ``ci95_high``, lines are the exact 95 % interval of the result over the price. Raises InputError
    for nothing.
    """
    ranking, unpriced = result.ranking, result.unpriced
    rows = len(ranking) + len(unpriced)
    if not rows:
        raise nothing(f"result of {measure.name}", "give runs that measured it")
    currency = str(ranking["currency"].iloc[0]) if len(ranking) else "the currency"
    how = unit(measure, float(ranking["per_price"].max()) if len(ranking) else 1.0)
    dates = sorted({str(one) for one in ranking["date"].dropna()}) if len(ranking) else []
    when = f" Prices of {' to '.join(dict.fromkeys((dates[0], dates[-1])))}." if dates else ""
    header = Words(
        "Performance for its price",
        f"Median of the results over the price of an hour.{_told(ranking)}{when}",
        f"{rows} results",
    )
    names, lines = broken(_result_names(ranking, unpriced, look), look)
    bar = max(_BAR_INCHES, LINE_INCHES * lines + 0.04)
    figure, (axes,) = page(header, {}, look, size=(6.6, 0.7 + bar * rows), whole=True)
    _draw_bars(axes, ranking, how.divisor, currency)
    for place, missing in enumerate(unpriced["price_per_hour"].isna(), start=len(ranking)):
        text = "price unknown" if missing else "result unknown"
        axes.text(0, place, f" {text}", va="center", fontsize=7, color=GREY, style="italic")
    axes.set_yticks(range(rows), names, fontsize=7.5)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.margins(x=0.16)
    axes.set_xlim(left=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"{how.label} for 1 {currency} an hour")
    look.apply(axes)
    return figure


def _draw_bars(axes: Axes, ranking: pd.DataFrame, divisor: float, currency: str) -> None:
    """Draw a bar for each result, its interval, and its price beside both."""
    widths = ranking["per_price"] / divisor
    axes.barh(range(len(ranking)), widths, 0.72, **patch(0))
    ends = _ends(ranking, divisor)
    for place, (low, high) in enumerate(ends):
        axes.plot(
            (low, high), (place, place), color="black", linewidth=1.2, marker="|", markersize=5
        )
    highs = [high for _, high in ends] or [math.nan] * len(ranking)
    prices = zip(ranking["price_per_hour"], widths, highs, strict=True)
    for place, (amount, width, high) in enumerate(prices):
        axes.annotate(
            f"{amount:g} {currency}/h",
            (width if math.isnan(high) else max(width, high), place),
            xytext=(5, 0), textcoords="offset points", va="center", fontsize=7,
        )  # fmt: skip


def _components(matrix: pd.DataFrame) -> str:
    known = matrix.attrs.get("components") or ()
    told = ", ".join(COMPONENT_WORDS.get(name, name) for name in known)
    return f" Components: {told}." if told else ""


def _ends(ranking: pd.DataFrame, divisor: float) -> list[tuple[float, float]]:
    """Return the interval of each bar, NaN without one."""
    if "ci95_low" not in ranking:
        return []
    per = ranking["price_per_hour"] * divisor
    low, high = (ranking[f"ci95_{end}"].astype("float64") / per for end in ("low", "high"))
    return list(zip(low, high, strict=True))


def _told(ranking: pd.DataFrame) -> str:
    if "ci95_low" not in ranking or ranking["ci95_low"].isna().all():
        return ""
    return " Lines: exact 95 % interval of the result."


def _result_names(ranking: pd.DataFrame, unpriced: pd.DataFrame, look: Look) -> list[str]:
    """Return the label of each result: with region and cell if a flavor has several."""
    columns = [name for name in ("provider", "flavor", "region", "cell") if name in unpriced]
    rows = [row for table in (ranking, unpriced) for row in table[columns].to_dict("records")]
    flavors = [(row["provider"], row["flavor"]) for row in rows]
    several = len(set(flavors)) < len(flavors)
    cells, _shared = short_cells(str(row["cell"]) for row in rows if several and "cell" in row)
    return [look.named(_result_name(row, cells, several=several)) for row in rows]


def _result_name(row: Mapping[Any, Any], cells: Mapping[str, str], *, several: bool) -> str:
    names = ["unknown" if pd.isna(row[key]) else str(row[key]) for key in ("provider", "flavor")]
    if several and not pd.isna(region := row.get("region")) and region:
        names.append(str(region))
    cell = cells.get(str(row.get("cell")), "") if several else ""
    return ", ".join(filter(None, [" ".join(names), cell]))


def _name(machine: object) -> str:
    return " ".join(map(str, machine)) if isinstance(machine, tuple) else str(machine)


def _provider(machine: object) -> object:
    return machine[0] if isinstance(machine, tuple) else ""
