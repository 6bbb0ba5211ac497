"""Figures of machines: topology of the endpoints' hosts, similarity, and price-performance."""

from __future__ import annotations

import math
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from osmef.analysis.price import PricePerformance
from osmef.analysis.similarity import COMPONENT_WORDS, machine_name
from osmef.report.cells import nothing, unit
from osmef.report.options import PLAIN, Look
from osmef.report.style import (
    EDGE,
    GREY,
    LINE_INCHES,
    Stroke,
    Words,
    broken,
    page,
    patch,
    stroke,
    styled,
    too_small,
)
from osmef.report.summary import short_cells
from osmef.results.measure import Measure
from osmef.units import counted, format_rate

_MOST_LABELS = 16
_COLUMN, _GAP, _ROW = 2.3, 1.1, 1.0  # of endpoints, between hosts, between rows of endpoints
_INCHES = 0.62  # of a unit
_BEND, _BACK = 0.22, 1.6  # of arrows, and how much more those bend that go back
_LEAST_SCALE = 0.55  # of all that is drawn: smaller letters can't be read
_SHARES = (0.5, 0.4, 0.6, 0.33, 0.67, 0.27, 0.73, 0.22, 0.78, 0.17, 0.83)  # of an edge's way
_LETTERS = 7  # points
_LETTER = 0.105  # of a rate or a name, its width
_HOST = "#f2f2f2"
_NAME_LETTERS = 22  # of an endpoint's name in a line, and of a host's above each column
_NAME_LINES = 3
_LINE = 0.24  # of a host's name

Position = tuple[float, float]


_MOST_WIDE = 8  # arrows that can be wide without lying over each other
_WIDTHS = (0.8, 2.2)  # points: of no rate, and what the highest adds
_WIDTHS_OF_MANY = (0.4, 1.2)


@dataclass(frozen=True)
class _Node:
    name: str
    host: str
    tenant: str


@dataclass(frozen=True)
class _Host:
    """A host: its left edge, and its endpoints in one column or two."""

    name: str
    left: float
    columns: list[list[_Node]]

    @property
    def width(self) -> float:
        return _COLUMN * len(self.columns)

    @property
    def rows(self) -> int:
        return sum(map(len, self.columns))

    def positions(self) -> dict[str, Position]:
        """Return the positions of the endpoints."""
        placed = [(node, column) for column, nodes in enumerate(self.columns) for node in nodes]
        return {
            node.name: (self.left + _COLUMN * (column + 0.5), -_ROW * row)
            for row, (node, column) in enumerate(placed)
        }


@styled
def topology(endpoints: pd.DataFrame, pairs: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the endpoints in their hosts, with the rate of each pair on its edge.

    ``endpoints`` are those of ``osmef.report.data.endpoints_of``, ``pairs`` of ``pairs_of``: the
    rate of an edge is the highest median of the cells in which the pair was measured. With more
    than 16 edges only the width shows the rate. Raises InputError where no pair has a rate, and for
    several runs.
    """
    medians = pairs.groupby(["sender", "receiver", "cell"], sort=False)["bps"].median()
    rates = {
        (str(ends[0]), str(ends[1])): float(bps)
        for ends, bps in medians.groupby(level=["sender", "receiver"], sort=False).max().items()
        if isinstance(ends, tuple) and math.isfinite(bps)
    }
    if not rates:
        raise nothing("rates between pairs", "give a run of `workload: btc` or `udp` that ended")
    used = list(dict.fromkeys(name for ends in rates for name in ends))
    reported = {str(row.endpoint): (row.host, row.tenant) for row in endpoints.itertuples()}
    nodes = [_node(name, *reported[name]) for name in reported if name in used]
    nodes += [_node(name, None, None) for name in used if name not in reported]  # it has not ended
    hosts = _hosts(nodes, rates)
    positions = {name: position for host in hosts for name, position in host.positions().items()}
    tenants = list(dict.fromkeys(node.tenant for node in nodes))
    words = {node.name: _lines(look.named(node.name)) for node in nodes}
    few = rates if len(rates) <= _MOST_LABELS else {}
    labels = _labels(
        {ends: look.named(format_rate(bps)) for ends, bps in few.items()}, positions, words
    )
    title = "Where the endpoints were placed, and their rates"
    caption = _caption(max(rates.values()), many=not few, left=len(labels) < len(few))
    header = Words(title, caption, str(pairs["run"].iloc[0]))
    curves = [_control(positions[a], positions[b])[1] / 2 + (positions[a][1] + positions[b][1]) / 4
              for a, b in rates]  # fmt: skip
    below = max(_ROW * max(host.rows for host in hosts), 0.1 - min(curves))
    right = hosts[-1].left + hosts[-1].width
    width = max(5.0, _INCHES * right + 0.5)
    names = [_lines(look.named(one.name), len(one.columns)) for one in hosts]
    above = max(1.0 + _LINE * max(name.count("\n") for name in names), 0.1 + max(curves))
    units = (right + 0.6, below + above + 0.1)
    width = look.width or width
    size = (width, width / units[0] * units[1])
    figure, (axes,) = page(header, _legend(tenants, look), look, size=size, whole=True)
    scale = _scale(figure, units)
    for host, name in zip(hosts, names, strict=True):
        _draw_host(axes, host, name, scale)
    top = max(rates.values())
    thin, more = _WIDTHS if len(rates) <= _MOST_WIDE else _WIDTHS_OF_MANY
    for (sender, receiver), bps in rates.items():
        width = thin + more * bps / (top or 1)
        ends = positions[sender], positions[receiver]
        _draw_edge(axes, ends, labels.get((sender, receiver)), width, scale)
    for node in nodes:
        look_of = stroke(tenants.index(node.tenant))
        _draw_node(axes, positions[node.name], words[node.name], look_of, scale)
    axes.set_xlim(-0.3, right + 0.3)
    axes.set_ylim(-below - 0.1, above)
    axes.set_aspect("equal")
    axes.axis("off")
    return figure


def _caption(highest: float, *, many: bool, left: bool) -> str:
    """Return the caption; rates of ``many`` arrows are left out, and ``left`` others."""
    reported = "Rate: the highest median of the cells in which the pair was measured."
    if left:
        reported += " A rate that would lie over other words is left out."
    if many:
        reported += (
            f" The wider an arrow, the higher its rate; the highest: {format_rate(highest)}."
        )
    return reported


def _scale(figure: Figure, units: tuple[float, float]) -> float:
    """Return by how much letters and marks are smaller, so that none lies over another.

    Raises NothingToDrawError where that is too small to be read.
    """
    engine = figure.get_layout_engine()
    share = engine.get()["rect"][3] if engine else 1.0
    inches = figure.get_figwidth(), figure.get_figheight() * share
    scale = min(
        1.0, *(available / count / _INCHES for available, count in zip(inches, units, strict=True))
    )
    if scale < _LEAST_SCALE:
        raise too_small()
    return scale


def _node(name: str, host: object, tenant: object) -> _Node:
    return _Node(name, _text_or(host, name), _text_or(tenant, ""))


def _text_or(value: object, otherwise: object) -> str:
    known = isinstance(value, str) and bool(value)
    return str(value) if known else f"host of {otherwise} unclear" if otherwise else "unclear"


def _lines(name: str, columns: int = 1) -> str:
    """Wrap a name to the width of columns of endpoints; a long one is truncated."""
    return "\n".join(
        textwrap.wrap(
            name,
            _NAME_LETTERS * columns,
            max_lines=_NAME_LINES,
            placeholder="\N{HORIZONTAL ELLIPSIS}",
        )
    )


def _hosts(nodes: list[_Node], ends: Iterable[tuple[str, str]]) -> list[_Host]:
    """Return the hosts from left to right; pairs within one are in two columns."""
    found: dict[str, list[_Node]] = defaultdict(list)
    for node in nodes:
        found[node.host].append(node)
    of = {node.name: node.host for node in nodes}
    sending = {sender for sender, to in ends if of[sender] == of[to] and sender != to}
    hosts, left = [], 0.0
    for name, own in found.items():
        sides = [[one for one in own if (one.name in sending) is first] for first in (True, False)]
        hosts.append(_Host(name, left, [side for side in sides if side]))
        left += hosts[-1].width + _GAP
    return hosts


def _legend(tenants: list[str], look: Look) -> dict[str, Artist]:
    if tenants == ["unclear"]:
        return {}
    return {
        look.named(tenant if tenant.startswith("tenant") else f"tenant {tenant}"): Line2D(
            [], [], ls="none", marker=stroke(number).marker, color=stroke(number).colour,
            markersize=8,
        )
        for number, tenant in enumerate(tenants)
    }  # fmt: skip


def _draw_host(axes: Axes, host: _Host, name: str, scale: float) -> None:
    low = -_ROW * (host.rows - 1) - 0.6
    axes.add_patch(
        FancyBboxPatch(
            (host.left, low), host.width, 0.6 - low, boxstyle="round,pad=0.05", facecolor=_HOST,
            edgecolor=EDGE, linewidth=0.8, zorder=0.5,
        )
    )  # fmt: skip
    middle = host.left + host.width / 2
    axes.text(middle, 0.72, name, ha="center", va="bottom", fontsize=8 * scale, weight="bold")


def _draw_node(axes: Axes, position: Position, name: str, look: Stroke, scale: float) -> None:
    x, y = position
    style: dict[str, Any] = {"ls": "none", "marker": look.marker, "color": look.colour, "zorder": 3}
    axes.plot([x], [y], markersize=13 * scale, **style)
    box = {"boxstyle": "square,pad=0.1", "facecolor": _HOST, "edgecolor": "none"}
    size = _LETTERS * scale
    axes.text(x, y - 0.26, name, ha="center", va="top", fontsize=size, zorder=4, bbox=box)


_Box = tuple[float, float, float, float]
"""Left, right, bottom and top."""


class _OccupiedAreas:
    """Areas that are occupied by text."""

    def __init__(self, taken: list[_Box]) -> None:
        self._taken = taken

    def position(self, label: str, candidates: Iterable[Position]) -> Position | None:
        """Return the first free position of a label, and occupy it; None without any."""
        for at in candidates:
            box = _box_of(label, at)
            if not any(_meet(box, other) for other in self._taken):
                self._taken.append(box)
                return at
        return None


def _box_of(label: str, at: Position) -> _Box:
    (x, y), half = at, _LETTER * len(label) / 2 + 0.05
    return (x - half, x + half, y - _LINE / 2, y + _LINE / 2)


def _crossed(box: _Box, paths: list[list[Position]]) -> int:
    """Return how many arrows pass through an area."""
    left, right, low, high = box
    return sum(any(left < x < right and low < y < high for x, y in path) for path in paths)


def _meet(one: _Box, other: _Box) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def _boxes_of(position: Position, name: str) -> list[_Box]:
    """Return the areas of an endpoint: its mark, and its name below."""
    (x, y), lines = position, name.split("\n")
    half = _LETTER * max(map(len, lines)) / 2
    return [
        (x - 0.18, x + 0.18, y - 0.18, y + 0.18),
        (x - half, x + half, y - 0.26 - _LINE * len(lines), y - 0.24),
    ]


_Ends = tuple[str, str]


def _labels(
    reported: Mapping[_Ends, str], positions: Mapping[str, Position], words: Mapping[str, str]
) -> dict[_Ends, tuple[str, Position]]:
    """Return the labels of arrows that fit along their path, with positions.

    Where other arrows pass is taken last, so that a rate is seldom on the wrong one.
    """
    occupied = _OccupiedAreas(
        [box for name, text in words.items() for box in _boxes_of(positions[name], text)]
    )
    found = {}
    paths = {
        ends: _path(positions[ends[0]], positions[ends[1]])
        for ends in reported
        if ends[0] != ends[1]
    }
    for (sender, receiver), label in reported.items():
        ends = positions[sender], positions[receiver]
        x, y = ends[0]
        loop = [(x, y + 0.26 + _LINE / 2)]
        others = [path for other, path in paths.items() if other != (sender, receiver)]
        along = [_along(*ends, share) for share in _SHARES]
        along.sort(key=lambda at, label=label: _crossed(_box_of(label, at), others))  # type: ignore[misc]
        ways = loop if sender == receiver else along
        at = occupied.position(label, ways)
        if at is not None:
            found[sender, receiver] = label, at
    return found


def _draw_edge(
    axes: Axes,
    ends: tuple[Position, Position],
    label: tuple[str, Position] | None,
    width: float,
    scale: float,
) -> None:
    """Draw an arrow with its label, if any."""
    sender, receiver = ends
    x, y = sender
    if sender == receiver:  # loopback
        text = f"to itself: {label[0]}" if label else "to itself"
        axes.text(x, y + 0.26, text, ha="center", fontsize=_LETTERS * scale, zorder=5)
        return
    axes.add_patch(
        FancyArrowPatch(
            sender, receiver, connectionstyle=f"arc3,rad={_bend(*ends)}", arrowstyle="-|>",
            mutation_scale=9 * scale, shrinkA=9 * scale, shrinkB=9 * scale,
            linewidth=width * scale, color=GREY, zorder=2,
        )
    )  # fmt: skip
    if label is not None:
        text, at = label
        box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
        look: dict[str, Any] = {"ha": "center", "va": "center", "bbox": box, "zorder": 5}
        axes.text(*at, text, fontsize=_LETTERS * scale, **look)


def _along(sender: Position, receiver: Position, share: float) -> Position:
    """Return the point at a share of an arrow's path."""
    x, y = (
        (1 - share) ** 2 * a + 2 * (1 - share) * share * c + share**2 * b
        for a, b, c in zip(sender, receiver, _control(sender, receiver), strict=True)
    )
    return x, y


def _path(sender: Position, receiver: Position) -> list[Position]:
    return [_along(sender, receiver, step / 40) for step in range(41)]


def _bend(sender: Position, receiver: Position) -> float:
    if sender[0] == receiver[0]:
        return 2 * _BEND
    if receiver[0] < sender[0]:  # below the arrow of the other direction
        return -_BACK * _BEND
    # Within a host it goes around the names below its senders.
    return -_BEND if receiver[0] - sender[0] <= _COLUMN else _BEND


def _control(sender: Position, receiver: Position) -> Position:
    """Return the control point of arc3's Bezier curve."""
    (x, y), (to_x, to_y), bend = sender, receiver, _bend(sender, receiver)
    return (x + to_x) / 2 + bend * (to_y - y), (y + to_y) / 2 - bend * (to_x - x)


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
    names = [look.named(machine_name(machine)) for machine in matrix.index]
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
    for position in range(1, count):
        if providers[position] != providers[position - 1]:
            axes.axhline(position - 0.5, color="white", linewidth=2)
            axes.axvline(position - 0.5, color="white", linewidth=2)
    figure.colorbar(image, ax=axes, label="similarity", shrink=0.8)
    return figure


@styled
def price(result: PricePerformance, measure: Measure, look: Look = PLAIN) -> Figure:
    """Draw the price-performance of flavors as bars, the best first.

    ``result`` is that of ``osmef.analysis.price.price_performance`` for ``measure``. What has no
    known price or no result is listed below, without a bar. Where the table has ``ci95_low`` and
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
        f"Median of the results over the price of an hour.{_ranking_caption(ranking)}{when}",
        counted(rows, "result"),
    )
    names, lines = broken(_result_names(ranking, unpriced, look), look)
    bar = max(_BAR_INCHES, LINE_INCHES * lines + 0.04)
    figure, (axes,) = page(header, {}, look, size=(6.6, 0.7 + bar * rows), whole=True)
    _draw_bars(axes, ranking, how.divisor, currency)
    for position, missing in enumerate(unpriced["price_per_hour"].isna(), start=len(ranking)):
        text = "price unknown" if missing else "result unknown"
        axes.text(0, position, f" {text}", va="center", fontsize=7, color=GREY, style="italic")
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
    for position, (low, high) in enumerate(ends):
        axes.plot(
            (low, high),
            (position, position),
            color="black",
            linewidth=1.2,
            marker="|",
            markersize=5,
        )
    highs = [high for _, high in ends] or [math.nan] * len(ranking)
    prices = zip(ranking["price_per_hour"], widths, highs, strict=True)
    for position, (amount, width, high) in enumerate(prices):
        axes.annotate(
            f"{amount:g} {currency}/h",
            (width if math.isnan(high) else max(width, high), position),
            xytext=(5, 0), textcoords="offset points", va="center", fontsize=7,
        )  # fmt: skip


def _components(matrix: pd.DataFrame) -> str:
    known = matrix.attrs.get("components") or ()
    reported = ", ".join(COMPONENT_WORDS.get(name, name) for name in known)
    return f" Components: {reported}." if reported else ""


def _ends(ranking: pd.DataFrame, divisor: float) -> list[tuple[float, float]]:
    """Return the interval of each bar, NaN without one."""
    if "ci95_low" not in ranking:
        return []
    per = ranking["price_per_hour"] * divisor
    low, high = (ranking[f"ci95_{end}"].astype("float64") / per for end in ("low", "high"))
    return list(zip(low, high, strict=True))


def _ranking_caption(ranking: pd.DataFrame) -> str:
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


def _provider(machine: object) -> object:
    return machine[0] if isinstance(machine, tuple) else ""
