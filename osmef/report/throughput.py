"""Figures of throughput: BTC with fairness, CPU and bottlenecks, UDP, and MPI programs."""

from __future__ import annotations

import math
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from osmef.analysis.replication import has_sessions
from osmef.report.cells import ShownCell, cells_of, nothing, source_of
from osmef.report.line_charts import MOST_UPRIGHT, Chart, ChartLine, render
from osmef.report.options import PLAIN, Look
from osmef.report.style import (
    DASHES,
    EDGE,
    LINE_INCHES,
    MARKERS,
    MOST_BARS,
    Stroke,
    Words,
    broken,
    limit,
    ordered_colours,
    page,
    stroke,
    styled,
)
from osmef.report.summary import LIMITS, Point, ShownPlacement, Variant, short_names, written
from osmef.results.observations import Direction
from osmef.results.trial import Bottleneck
from osmef.units import counted, format_rate

AGGREGATE = "aggregate_btc_bps"
CONNECTION = "connection_btc_bps"
_CURE = "give runs of `workload: btc` with trials that went well"
_ENDS = ("sender", "receiver")
_MOST_SERIES = 14  # that a reader can tell apart in one panel

Series = tuple[str, ShownPlacement]
"""The run among several, and the place."""
K = TypeVar("K")
Points = dict[Variant, list[Point]]


def btc_connections(trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw aggregate BTC against the number of connections, a line each place.

    ``trials`` are those of ``osmef.load``, as in every function here. Swept values that have no
    axis, such as flavors, get a panel each. Points are medians of the trials of a cell, with the
    exact 95 % interval. Raises InputError where nothing could be shown.
    """
    return _against_connections(trials, look, AGGREGATE, "Aggregate BTC", "aggregate BTC")


def btc_distance(trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw BTC per connection against distance, a line each number of connections.

    The axis of BTC is logarithmic, as in figure 3 of Venzano and Michiardi, "A Measurement Study
    of Data-intensive Network Traffic Patterns in a Private Cloud". Raises InputError.
    """
    cells = _each_way(_with_connections(trials, look), CONNECTION, look)
    series = sorted({_series(cell) for cell in cells}, key=_order)
    points = _collected(
        cells, lambda cell: cell.connections or 0, lambda cell: series.index(_series(cell)),
        CONNECTION,
    )  # fmt: skip
    counts = sorted(points)
    colours = ordered_colours(len(counts))
    lines = [
        ChartLine(
            look.named(counted(count, "connection")),
            Stroke(colours[number], MARKERS[number % 7], DASHES[number % 4]),
            points[count],
        )
        for number, count in enumerate(counts)
    ]
    chart = Chart(
        title="BTC per connection against distance",
        source=source_of(trials),
        by_session=has_sessions(trials),
        variants=_variants(cells),
        lines=lines,
        x_label="",
        ticks={float(x): _tick(one, len(series), look) for x, one in enumerate(series)},
        log_x=False,
        y_label="BTC per connection",
        log_y=True,
    )
    return _rendered(chart, look, "BTC per connection")


def fairness(trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw Jain's fairness index of the connections against their number, a line each place.

    J is 1 where all connections are equally fast, and 1/n where one of n has it all. Raises
    InputError.
    """
    title = "Fairness"
    return _against_connections(
        trials, look, "jain_fairness", title, "Jain's fairness index", unit="", top=1.0
    )


def cpu(trials: pd.DataFrame, look: Look = PLAIN, *, whole: bool = False) -> Figure:
    """Draw the CPU load of both ends against the number of connections, a panel each end.

    It is that of the threads that moved the data; ``whole`` is that of the whole endpoint, in
    percent of one CPU both. Raises InputError.
    """
    prefix = "endpoint_cpu" if whole else "cpu"
    cells = _with_connections(trials, look)
    variants = [(*variant, ("", end)) for end in _ENDS for variant in _variants(cells)]
    found: dict[Series, Points] = defaultdict(dict)
    for end in _ENDS:
        for one, points in _collected(cells, _series, _count, f"{prefix}_{end}_percent").items():
            found[one] |= {(*variant, ("", end)): line for variant, line in points.items()}
    what = "whole endpoints" if whole else "the threads that move the data"
    chart = Chart(
        title=f"CPU load of {what} against connections",
        source=source_of(trials),
        by_session=has_sessions(trials),
        variants=variants,
        lines=_by_place(found, look),
        x_label="parallel connections",
        ticks=_ticks(cells),
        log_x=True,
        y_label="CPU load",
        log_y=False,
        unit="% of one CPU",
    )
    return _rendered(chart, look, "CPU load")


def _against_connections(  # noqa: PLR0913, PLR0917 - what the figures differ in
    trials: pd.DataFrame,
    look: Look,
    metric: str,
    title: str,
    label: str,
    unit: str | None = None,
    top: float | None = None,
) -> Figure:
    cells = _each_way(_with_connections(trials, look), metric, look)
    lines = _by_place(_collected(cells, _series, _count, metric), look)
    chart = Chart(
        title=f"{title} against connections",
        source=source_of(trials),
        by_session=has_sessions(trials),
        variants=_variants(cells),
        lines=lines,
        x_label="parallel connections",
        ticks=_ticks(cells),
        log_x=True,
        y_label=label,
        log_y=unit is None and _spans_a_decade(lines),
        unit=unit,
        top=top,
    )
    return _rendered(chart, look, label)


def _by_place(points: Mapping[Series, Points], look: Look) -> list[ChartLine]:
    return [
        ChartLine(look.named(", ".join(_lines(one, look))), stroke(number), points[one])
        for number, one in enumerate(sorted(points, key=_order))
    ]


def _rendered(chart: Chart, look: Look, what: str) -> Figure:
    if not any(line.points for line in chart.lines):
        raise nothing(what, _CURE)
    return render(chart, look)


def _with_connections(trials: pd.DataFrame, look: Look) -> Sequence[ShownCell]:
    cells = [cell for cell in cells_of(trials, look) if cell.connections is not None]
    return _together(cells, look)


def _each_way(cells: Iterable[ShownCell], metric: str, look: Look) -> list[ShownCell]:
    """Return the cells; one of trials in both directions becomes two, named in their series.

    Raises InputError where ``look`` calls both alike, since their points would be one line.
    """
    found = []
    for cell in cells:
        trials, back = cell.trials, f"{Direction.REVERSE}_{metric}"
        if back not in trials or trials[back].isna().all():
            found.append(cell)
            continue
        names = [look.named(way.value) for way in (Direction.FORWARD, Direction.REVERSE)]
        look.check(names)
        ways = (trials, trials.assign(**{metric: trials[back]}))
        for name, of_way in zip(names, ways, strict=True):
            source = ", ".join(filter(None, [cell.source, name]))
            found.append(replace(cell, source=source, trials=of_way))
    return found


def _together(cells: Sequence[ShownCell], look: Look) -> Sequence[ShownCell]:
    """Name in the series, not by a panel, what only some of several runs distinguish.

    Panels of the ends of one run, for example, would keep it apart from the other runs.
    """
    known: dict[str, set[str]] = defaultdict(set)
    values: dict[str, set[object]] = defaultdict(set)
    for cell in cells:
        known[cell.run] |= {key for key, _ in cell.variant}
        for key, value in cell.variant:
            values[key].add(value)
    partial = [key for key in values if any(key not in keys for keys in known.values())]
    names = short_names(partial)

    def labelled(cell: ShownCell) -> ShownCell:
        parts = [
            f"{names[key]} {look.named(str(value))}"
            for key, value in cell.variant
            if key in names and len(values[key]) > 1
        ]
        kept = tuple(one for one in cell.variant if one[0] not in names)
        return replace(cell, source=", ".join(filter(None, [cell.source, *parts])), variant=kept)

    found = [labelled(cell) for cell in cells]
    return cells if len({_series(cell) for cell in found}) > _MOST_SERIES else found


def _collected(
    cells: Iterable[ShownCell],
    line: Callable[[ShownCell], K],
    x: Callable[[ShownCell], float],
    metric: str,
) -> dict[K, Points]:
    """Return the points of each line by panel, without empty panels."""
    found: dict[K, Points] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        found[line(cell)][cell.variant].append(cell.point(x(cell), metric))
    return {key: measured for key, points in found.items() if (measured := _measured(points))}


def _measured(points: Mapping[Variant, list[Point]]) -> Points:
    return {
        variant: sorted(line, key=lambda one: one.x)
        for variant, line in points.items()
        if any(math.isfinite(one.median) for one in line)
    }


def _series(cell: ShownCell) -> Series:
    return cell.source, cell.placement


def _order(series: Series) -> tuple[object, ...]:
    source, where = series
    return (*where.order, source)


def _lines(series: Series, look: Look) -> list[str]:
    source, where = series
    return [*filter(None, [source]), *map(look.named, where.lines)]


def _tick(series: Series, count: int, look: Look) -> str:
    lines = _lines(series, look)
    if count <= MOST_UPRIGHT:
        return "\n".join(lines)
    return textwrap.fill(", ".join(lines), 32)


def _count(cell: ShownCell) -> float:
    return float(cell.connections or 0)


def _ticks(cells: Iterable[ShownCell]) -> dict[float, str]:
    return {_count(cell): str(cell.connections) for cell in sorted(cells, key=_count)}


def _variants(cells: Iterable[ShownCell]) -> list[Variant]:
    return list(dict.fromkeys(cell.variant for cell in cells))


def _spans_a_decade(lines: Sequence[ChartLine]) -> bool:
    medians = [
        one.median
        for line in lines
        for points in line.points.values()
        for one in points
        if one.median > 0
    ]
    return bool(medians) and max(medians) > 10 * min(medians)


# Okabe and Ito's colours, light and dark by turns, and a hatch each for prints in grey. Both ends'
# CPU and both windows are of one hue; an unknown limit has no colour.
_LOOKS = {
    Bottleneck.SENDER_CPU: ("#D55E00", ""),
    Bottleneck.RECEIVER_CPU: ("#E69F00", "//"),
    Bottleneck.SEND_BUFFER: ("#0072B2", ""),
    Bottleneck.RECEIVE_WINDOW: ("#56B4E9", "\\\\"),
    Bottleneck.NETWORK: ("#009E73", "xx"),
    Bottleneck.SHAPER: ("#CC79A7", ".."),
    Bottleneck.SENDER_IDLE: ("#F0E442", "--"),
    Bottleneck.INCONCLUSIVE: ("#FFFFFF", ""),
}
_BAR_INCHES = 0.26


@styled
def limits(counts: pd.DataFrame, trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the shares of each cell's connections by bottleneck, a bar a cell.

    ``counts`` are those of ``osmef.report.data.limits_of``: one row a cell, with the columns run
    and cell, and one for each ``Bottleneck``. ``trials`` are those of ``osmef.load``, which name
    the cells; those without verdicts are left out, and sessions of a platform are together. Raises
    InputError where there are none at all, and for too many.
    """
    known = counts.set_index(["run", "cell"])
    known = known[known.sum(axis=1) > 0]
    bars = [
        (cell.label, known.loc[keys].sum())
        for cell in cells_of(trials, look)
        if (keys := [key for key in cell.keys if key in known.index])
    ]
    if not bars:
        raise nothing("verdict of what limited them", "give runs of `workload: btc` that ended")
    limit(len(bars), "cells", MOST_BARS)
    table = pd.DataFrame([counted for _, counted in bars])
    percent = 100 * table.div(table.sum(axis=1), axis=0)
    found = [one for one in _LOOKS if (percent.get(one.value, pd.Series([0.0])) > 0).any()]
    words = Words(
        "What limited the connections",
        "Shares of the connections of all good trials of a cell.",
        source_of(trials),
    )
    legend: dict[str, Artist] = {
        look.named(LIMITS[one]): Patch(
            facecolor=_LOOKS[one][0], hatch=_LOOKS[one][1], edgecolor=EDGE, linewidth=0.5
        )
        for one in found
    }
    names, lines = broken([label for label, _ in bars], look)
    bar = max(_BAR_INCHES, LINE_INCHES * lines + 0.04)
    size = (6.6, bar * len(bars) + _BAR_INCHES + 0.5)
    figure, (axes,) = page(words, legend, look, size=size, whole=True)
    starts = [0.0] * len(bars)
    for one in found:
        widths = percent[one.value].tolist()
        colour, hatch = _LOOKS[one]
        axes.barh(
            range(len(bars)),
            widths,
            left=starts,
            height=0.72,
            color=colour,
            hatch=hatch,
            edgecolor=EDGE,
            linewidth=0.5,
            label=LIMITS[one],
        )
        starts = [start + width for start, width in zip(starts, widths, strict=True)]
    axes.set_yticks(range(len(bars)), names, fontsize=7.5)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_xlim(0, 100)
    axes.set_xlabel(look.x_label or "connections in %")
    axes.grid(visible=False, axis="y")
    return figure


_RATES = ("rate", "rate_bps", "workload.rate")

_UdpSeries = tuple[str, ShownPlacement, int]


def udp_loss(trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the loss of UDP against the offered rate, of the trials of ``osmef.load``.

    The offered rate is the payload rate that was asked for, summed over all flows of all pairs.
    Each place and number of connections is a line; other swept values get a panel each. Raises
    InputError where no trial was of UDP at a rate.
    """
    return _draw_udp(trials, look, "loss_percent", ("Loss", "loss", "%"))


def udp_jitter(trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the jitter of UDP against the offered rate, as ``udp_loss`` does the loss."""
    return _draw_udp(trials, look, "jitter_us", ("Jitter", "jitter", "µs"))


def _draw_udp(trials: pd.DataFrame, look: Look, metric: str, words: tuple[str, str, str]) -> Figure:
    title, label, unit = words
    cells = [
        (cell, offered.median)
        for cell in _each_way(cells_of(trials[trials["workload"] == "udp"], look), metric, look)
        if 0 < (offered := cell.point(0, "offered_bps")).median < math.inf
    ]
    points: dict[_UdpSeries, dict[Variant, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for cell, offered_bps in sorted(cells, key=lambda one: one[1]):
        found = cell.point(offered_bps, metric)
        if math.isfinite(found.median):
            points[_udp_series(cell)][_panel(cell)].append(found)
    if not points:
        raise nothing("UDP at a rate", "give runs of `workload: udp` with a rate")
    keys = sorted(points, key=lambda key: (key[1].order, key[0], key[2]))
    several = len({connections for _source, _placement, connections in keys}) > 1
    lines = [
        ChartLine(_udp_name(key, look, several=several), stroke(number), points[key])
        for number, key in enumerate(keys)
    ]
    chart = Chart(
        title=f"{title} of UDP against the offered rate",
        source=source_of(trials),
        by_session=has_sessions(trials),
        variants=list(dict.fromkeys(_panel(cell) for cell, _offered in cells)),
        lines=lines,
        x_label="offered rate of payload, all flows together"
        + (" (logarithmic)" if look.x_log is not False else ""),
        ticks={offered: format_rate(offered) for _cell, offered in cells},
        log_x=True,
        show_x=format_rate,
        y_label=label,
        log_y=False,
        unit=unit,
    )
    return render(chart, look)


def _udp_series(cell: ShownCell) -> _UdpSeries:
    return cell.source, cell.placement, cell.connections or 1


def _udp_name(series: _UdpSeries, look: Look, *, several: bool) -> str:
    source, placement, connections = series
    count = [f"{connections} connections"] if several else []
    return look.named(
        ", ".join([*filter(None, [source]), *map(look.named, placement.lines), *count])
    )


def _panel(cell: ShownCell) -> Variant:
    """Return the swept values that are not on an axis."""
    return tuple((key, value) for key, value in cell.variant if key not in _RATES)


_COUNTED = ("count", "endpoints")
"""The last words of swept keys that say how many endpoints there are."""
_NOTE = "Both axes are logarithmic: twice as fast on twice the endpoints is a straight line."

_ScaleSeries = tuple[str, str, Variant]


def scale_rate(trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the rate of NPB against the number of endpoints, of the trials of ``osmef.load``.

    Each benchmark, class and number of processes is a line. Raises InputError where NPB was not run
    on several numbers of endpoints.
    """
    return _draw_scale(trials, look, "mops", ("Rate", "rate of all processes", "Mop/s"))


def scale_time(trials: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the time of NPB against the number of endpoints, as ``scale_rate`` does the rate."""
    return _draw_scale(trials, look, "time_s", ("Time", "time", "s"))


def _draw_scale(
    trials: pd.DataFrame, look: Look, metric: str, words: tuple[str, str, str]
) -> Figure:
    title, label, unit = words
    points: dict[_ScaleSeries, list[Point]] = defaultdict(list)
    cells = cells_of(trials[trials["workload"] == "npb"], look)
    for cell in sorted(cells, key=_endpoints):
        found = cell.point(_endpoints(cell), metric)
        if math.isfinite(found.median):
            points[_scale_series(cell)].append(found)
    counts = sorted({point.x for some in points.values() for point in some})
    if len(counts) < 2:
        cure = "give runs of `workload: npb` with a sweep of endpoints.node.count"
        raise nothing("program on several numbers of endpoints", cure)
    lines = [
        ChartLine(_scale_name(key, points, look), stroke(number), {(): some})
        for number, (key, some) in enumerate(points.items())
    ]
    chart = Chart(
        title=f"{title} against the number of endpoints",
        source=source_of(trials),
        by_session=has_sessions(trials),
        variants=[()],
        lines=lines,
        x_label="endpoints",
        ticks={count: f"{count:.0f}" for count in counts},
        log_x=True,
        y_label=label,
        log_y=True,
        unit=unit,
        note="" if False in {look.x_log, look.y_log} else _NOTE,
    )
    return render(chart, look)


def _endpoints(cell: ShownCell) -> int:
    """Return the number of a cell's endpoints."""
    row = cell.trials.iloc[0]
    return len({name for ends in ("senders", "receivers") for name in str(row[ends]).split(",")})


def _scale_series(cell: ShownCell) -> _ScaleSeries:
    """Return the label of a cell: by requested placement, as a single end has none."""
    labelled = tuple((key, value) for key, value in cell.variant if not _is_count(key))
    return cell.source, str(cell.trials.iloc[0]["placement"]), labelled


def _is_count(key: str) -> bool:
    return key.rpartition(".")[2] in _COUNTED


def _scale_name(series: _ScaleSeries, every: dict[_ScaleSeries, list[Point]], look: Look) -> str:
    source, placement, labelled = series
    names = short_names(key for _, _, values in every for key, _ in values)
    parts = [f"{names[key]} {look.named(written(value))}" for key, value in labelled]
    if len({placement for _, placement, _ in every}) > 1 or not parts:
        parts.append(look.named(placement.replace("-", " ")))
    return look.named(", ".join([*filter(None, [source]), *parts]))
