"""Tables of a run's cells: results, placement, and intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice

import pandas as pd

from osmef.analysis.describe import describe_trials
from osmef.report.cells import leading
from osmef.report.html.layout import (
    NOTHING,
    Column,
    Emphasis,
    Field,
    Scale,
    StripAxis,
    Table,
    names,
    number,
    scale_of,
    show_number,
    strip,
    text,
)
from osmef.report.summary import (
    LIMITS,
    is_alone,
    money,
    other_than_asked,
    short_cells,
    short_names,
    shown_values,
    written,
)
from osmef.report.table import OF_THESE_ENDPOINTS, is_of_one_pair, replicates, shown_measures
from osmef.results.frame import metric_column
from osmef.results.measure import Measure
from osmef.results.summary import CellInfo, MetricSummary, Summary
from osmef.results.trial import Bottleneck

_NOTE = (
    "Each trial: a dot for its result, a line for the median, grey its interval; one axis for all"
    " rows. Large: the median of the {}. Below it: the exact 95 % interval of that median; then"
    " CoV, the coefficient of variation of the trials, and n, where fewer than all of them have the"
    " number."
)
_HEADS = {"placement": "placement", "tenancy": "tenancy"}


def results_table(summary: Summary, trials: pd.DataFrame | None = None) -> Table:
    """Return one row a cell: the swept values, distance, trials, the leading metrics, the limit.

    What tables leave out first is left out, and is among all numbers. ``trials`` are those of
    ``osmef.load``, of which each is a dot of a small distribution of what leads.
    """
    swept = _swept(summary)
    shown = [one for one in shown_measures(summary) if not one.spare]
    dots = _distributions(summary, shown, trials)
    scales = _scales(summary, shown)
    limits = any(cell.limited_by for cell in summary.cells)
    prices = any(cell.price_per_hour for cell in summary.cells)
    columns = [
        *(Column(name) for name in swept.values()),
        *([] if swept else [Column("cell")]),
        Column("distance", number=True),
        Column("trials", number=True),
        *([Column("each trial")] if dots else []),
        *(Column(scale.words, scale.unit, number=True) for scale in scales.values()),
        *([Column("an hour", number=True)] if prices else []),
        *([Column("limited by")] if limits else []),
    ]
    rows = [
        [
            *_named(cell, swept),
            _distance(cell),
            _trials(cell),
            *([dots.get(cell.key, text(None))] if dots else []),
            *(
                measured(cell.metrics.get(name), scale, cell.n_ok + cell.n_failed)
                for name, scale in scales.items()
            ),
            *([_price(cell, shown)] if prices else []),
            *([_limit(cell)] if limits else []),
        ]
        for cell in summary.cells
    ]
    of_pair = any(map(is_of_one_pair, summary.cells))
    note = _NOTE.format(replicates(summary)) + f" {OF_THESE_ENDPOINTS}" * of_pair
    return Table("Results by cell", columns, rows, note)


def _distributions(
    summary: Summary, shown: Sequence[Measure], trials: pd.DataFrame | None
) -> dict[str, Field]:
    """Return the trials of each cell as dots, for the measure that leads in most cells."""
    leads = [one for one in shown if one.leading]
    if trials is None or not leads:
        return {}
    name = max(leads, key=lambda one: sum(one.name in cell.metrics for cell in summary.cells)).name
    column = metric_column(name)
    if column not in trials:
        return {}
    good = trials[trials[column].notna()]
    values = {str(cell): of[column].tolist() for cell, of in good.groupby("cell", sort=False)}
    axis = StripAxis.of([value for of in values.values() for value in of])
    if axis is None:
        return {}
    found = {}
    for cell in summary.cells:
        metric = cell.metrics.get(name)
        if metric is not None and metric.median is not None and cell.key in values:
            low, high = metric.ci95_low, metric.ci95_high
            ends = None if low is None or high is None else (low, high)
            drawing = strip(axis, values[cell.key], metric.median, ends)
            found[cell.key] = Field("", key=repr(metric.median), drawing=drawing)
    return found


def trials_table(trials: pd.DataFrame) -> Table:
    """Return one row a cell of the trials of ``osmef.load``, for a run without summary."""
    measures = {one.name: one for one in leading(trials)}
    groups = dict(list(trials.groupby("cell", sort=False)))
    found = {
        name: {cell: describe_trials(rows, name) for cell, rows in groups.items()}
        for name in measures
    }
    scales = {name: scale_of(measures[name], list(of.values())) for name, of in found.items()}
    columns = [
        Column("cell"),
        *(Column(head, number=True) for head in ("trials", "failed")),
        *(Column(scale.words, scale.unit, number=True) for scale in scales.values()),
    ]
    rows = [
        [
            Field(str(cell)),
            Field(str(len(of))),
            Field(str(int((of["status"] != "ok").sum()))),
            *(measured(found[name][cell], scale, len(of)) for name, scale in scales.items()),
        ]
        for cell, of in groups.items()
    ]
    return Table("Results by cell, so far", columns, rows, _NOTE.format("trials"))


def _swept(summary: Summary) -> dict[str, str]:
    """Return the swept keys and their headers."""
    return short_names(dict.fromkeys(key for cell in summary.cells for key in cell.values))


def _named(cell: CellInfo, swept: dict[str, str]) -> list[Field]:
    """Return the swept values of a cell; placement and tenancy as achieved."""
    if not swept:
        return [Field(cell.key)]
    shown, other = shown_values(cell), other_than_asked(cell)
    return [
        Field(
            NOTHING if shown.get(key) is None else written(shown[key]),
            emphasis=Emphasis.WARN if key in other and key in cell.mismatch else Emphasis.PLAIN,
        )
        for key in swept
    ]


def _distance(cell: CellInfo) -> Field:
    known = "unknown" if cell.distance is None else str(cell.distance)
    key = "" if cell.distance is None else known
    if cell.requested_distance in (None, cell.distance):
        return Field(known, key=key)
    return Field(known, (f"asked for: {cell.requested_distance}",), key, Emphasis.WARN)


def _trials(cell: CellInfo) -> Field:
    failed = (f"{cell.n_failed} failed",) if cell.n_failed else ()
    emphasis = Emphasis.BAD if cell.n_failed else Emphasis.PLAIN
    return Field(str(cell.n_ok + cell.n_failed), failed, emphasis=emphasis)


def measured(metric: MetricSummary | None, scale: Scale, trials: int | None = None) -> Field:
    """Return a metric as a field: median, interval, n if some trials lack it, CoV."""
    if metric is None or metric.median is None:
        return text(None)
    spread = [] if metric.n == trials else [f"n {metric.n}"]
    if metric.cov_percent is not None:
        spread.append(f"CoV {metric.cov_percent:.3g} %")
    own = scale.at(metric.median)
    shown = f"{own.show(metric.median)} {own.unit if scale.by_row else ''}".rstrip()
    more = [", ".join(spread)] if spread else []
    return Field(shown, (_interval(metric, own), *more), repr(metric.median))


def _interval(metric: MetricSummary, scale: Scale) -> str:
    if metric.ci95_low is None or metric.ci95_high is None:
        return "no interval"
    return f"{scale.show(metric.ci95_low)} to {scale.show(metric.ci95_high)}"


def _price(cell: CellInfo, shown: Sequence[Measure]) -> Field:
    """Return the hourly cost of its VMs, and the price-performance of the first rate."""
    if cell.price_per_hour is None:
        return text(None)
    names = [one.name for one in shown if one.name in cell.metrics]
    rates = [(name, cell.metrics[name].per_price) for name in names]
    reported = [f"{name}: {show_number(rate)} for 1" for name, rate in rates if rate is not None]
    return Field(money(cell.price_per_hour), tuple(reported[:1]), repr(cell.price_per_hour.amount))


def _limit(cell: CellInfo) -> Field:
    if not cell.limited_by:
        return text(None)
    whole = sum(cell.limited_by.values())
    shares = sorted(cell.limited_by.items(), key=lambda one: -one[1])
    reported = [f"{LIMITS[limit]} {100 * count / whole:.0f} %" for limit, count in shares]
    return Field(reported[0], tuple(reported[1:3]))


def limits_table(summary: Summary) -> Table | None:
    """Return the connections of each cell by bottleneck; None without any verdict."""
    cells = [cell for cell in summary.cells if cell.limited_by]
    if not cells:
        return None
    found = [limit for limit in Bottleneck if any(limit in cell.limited_by for cell in cells)]
    columns = [Column("cell"), *(Column(LIMITS[limit], "%", number=True) for limit in found)]
    called, _shared = short_cells(cell.key for cell in summary.cells)
    rows = [
        [
            Field(called[cell.key]),
            *(
                number(100 * cell.limited_by.get(limit, 0) / sum(cell.limited_by.values()))
                for limit in found
            ),
        ]
        for cell in cells
    ]
    note = "In percent of the measured connections of all good trials of a cell."
    return Table("What limited the connections", columns, rows, note)


def placement_table(summary: Summary) -> Table:
    """Return one row for the cells of one placement: requested, and achieved."""
    groups: dict[tuple[object, ...], list[CellInfo]] = defaultdict(list)
    for cell in summary.cells:
        groups[
            tuple(cell.senders),
            tuple(cell.receivers),
            (cell.placement, cell.achieved_placement, cell.tenancy, cell.achieved_tenancy),
            (cell.distance, cell.requested_distance, tuple(cell.mismatch)),
        ].append(cell)
    imported = summary.run.scenario_digest is None
    rows = [
        _placement(cells, imported=imported, declared=_is_declared(cells[0], summary))
        for cells in groups.values()
    ]
    columns = [
        *(Column(head) for head in ("senders", "receivers")),
        *(Column(head) for head in ("placement", "tenancy", "distance", "verified")),
        Column("cells", number=True),
    ]
    note = (
        "Achieved is what the cloud or the inventory reported once the endpoints were up. "
        "Distance: 0 is one tenant on one host, 2 one tenant on two hosts, 4 two tenants."
    )
    return Table("Where the endpoints were placed", columns, rows, note)


def _is_declared(cell: CellInfo, summary: Summary) -> bool:
    """Return whether an end's location is declared by an inventory, not read back."""
    kinds = {
        summary.run.sites.get(one.achieved.site or one.requested.site or "", summary.run.provider)
        for one in summary.endpoints
        if one.name in (*cell.senders, *cell.receivers)
    }
    return "static" in kinds


def _placement(cells: list[CellInfo], *, imported: bool, declared: bool) -> list[Field]:
    cell = cells[0]
    among = "itself (loopback)" if is_alone(cell) else "each other"
    return [
        Field(names(cell.senders)),
        Field(among if cell.senders == cell.receivers else names(cell.receivers)),
        _asked(cell.placement, cell.achieved_placement, "placement" in cell.mismatch),
        _asked(cell.tenancy, cell.achieved_tenancy, "tenancy" in cell.mismatch),
        _asked(cell.requested_distance, cell.distance, "distance" in cell.mismatch),
        _verdict(cell, imported=imported, declared=declared),
        Field(str(len(cells))),
    ]


def _asked(asked: object, achieved: object, wrong: bool) -> Field:
    if asked is None and achieved is None:
        return text(None)
    reported = f"asked for: {'nothing' if asked is None else asked}"
    known = "unknown" if achieved is None else str(achieved)
    return Field(known, (reported,), emphasis=Emphasis.WARN if wrong else Emphasis.PLAIN)


def _verdict(cell: CellInfo, *, imported: bool, declared: bool) -> Field:
    if cell.mismatch:
        return Field(
            "no", (f"not as asked for: {', '.join(cell.mismatch)}",), emphasis=Emphasis.BAD
        )
    if cell.distance is None:
        return Field("unknown", ("their placement is unknown",))
    if imported:
        return Field("no", ("imported, as the files say",))
    return Field("declared", ("as the inventory says it",)) if declared else Field("yes")


def numbers_table(summary: Summary, most: int) -> Table:
    """Return every metric of every cell with its statistics, up to ``most`` rows."""
    total = sum(len(cell.metrics) for cell in summary.cells)
    columns = [
        Column("cell"),
        Column("metric"),
        Column("unit"),
        *(Column(head, number=True) for head in ("n", "median", "95 % from", "to", "CoV %")),
        *(Column(head, number=True) for head in ("mean", "min", "max")),
        Column("why no interval"),
    ]
    note = ""
    if total > most:
        note = f"The first {most} of {total} numbers; all of them are in summary.json of the run."
    return Table("All numbers", columns, list(islice(_numbers(summary), most)), note)


def _numbers(summary: Summary) -> Iterator[list[Field]]:
    scales = _scales(summary, summary.measures)
    called, _shared = short_cells(cell.key for cell in summary.cells)
    for cell in summary.cells:
        for name, metric in cell.metrics.items():
            scale = scales[name].at(metric.median)
            shown = (metric.median, metric.ci95_low, metric.ci95_high)
            rest = (metric.mean, metric.min, metric.max)
            yield [
                Field(called[cell.key]),
                Field(name),
                Field(scale.unit or "1"),
                Field(str(metric.n)),
                *(_scaled(value, scale) for value in shown),
                number(metric.cov_percent),
                *(_scaled(value, scale) for value in rest),
                Field(metric.ci95_reason or "", key=metric.ci95_reason or ""),
            ]


def _scaled(value: float | None, scale: Scale) -> Field:
    return Field(scale.show(value), key="" if value is None else repr(value))


def _scales(summary: Summary, measures: Sequence[Measure]) -> dict[str, Scale]:
    of = {
        one.name: [cell.metrics[one.name] for cell in summary.cells if one.name in cell.metrics]
        for one in measures
    }
    return {one.name: scale_of(one, of[one.name]) for one in measures}
