"""Report of a campaign: its frames and their CSV files, and the figures of weeks and windows."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from osmef.analysis.seasons import (
    change_table,
    contrast_table,
    course_table,
    level_segments,
    pair_table,
    platform_table,
    price_table,
    session_table,
    spread_table,
    with_stretches,
)
from osmef.errors import InputError
from osmef.report.cells import chosen, leading, measured, unit
from osmef.report.data import read_table
from osmef.report.options import PLAIN, Look
from osmef.report.style import EDGE, LINE_INCHES, Words, broken, label_y, page, stroke, styled
from osmef.results.files import storage, write_atomically
from osmef.results.frame import described_like, measure_named, measures_of
from osmef.results.measure import Better, Measure
from osmef.units import counted

PLANNED = (
    *("platform", "session", "window", "opens", "state"),
    *("day", "trials_ok", "trials_failed", "cost", "currency", "why", "left_out"),
)
"""Of each session of the calendar: what it was to measure, when (UTC), and its outcome."""

LOST = "its run is missing"
"""How the ``why`` of a session begins that is done, and whose run directory no longer exists."""
GAPS = ("since", "until", "why")
"""Of each period without a conductor: when (UTC), and why."""

_IMPORTED = "session"  # the workload of imported session results
_PRICE = ("price_per_hour", "currency")


@dataclass(frozen=True)
class CampaignData:
    """The trials of a campaign and its calendar, with the tables made of them.

    ``planned`` has the columns ``PLANNED``, one row a session, also those that were never measured;
    None where only the runs are there. ``gaps`` has the columns ``GAPS``. ``facts`` are shown as
    they are. ``prices`` has platform, cell, price_per_hour of one VM and currency.
    """

    name: str
    trials: pd.DataFrame
    metrics: Sequence[str]
    prices: pd.DataFrame
    planned: pd.DataFrame | None = None
    gaps: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=pd.Index(GAPS)))
    facts: tuple[tuple[str, str], ...] = ()

    @cached_property
    def measures(self) -> dict[str, Measure]:
        """The measures by name."""
        return measures_of(self.trials)

    @cached_property
    def sessions(self) -> pd.DataFrame:
        """``session_table`` with ``stretch``, and the ``day`` by the calendar."""
        table = with_stretches(session_table(self.trials, self.metrics))
        if self.planned is None or not self.planned["day"].notna().any():
            return table
        days = self.planned.set_index(["platform", "session"])["day"]
        days = days[~days.index.duplicated()]
        return described_like(table.join(days, on=["platform", "session"]), table)

    @cached_property
    def platforms(self) -> pd.DataFrame:
        """``platform_table``: the tables of scores of a campaign."""
        return platform_table(self.sessions)

    @cached_property
    def windows(self) -> pd.DataFrame:
        """``platform_table`` by window; empty where no session has a window."""
        return platform_table(self.sessions, ["window"])

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """``pair_table``."""
        return pair_table(self.sessions)

    @cached_property
    def contrasts(self) -> pd.DataFrame:
        """``contrast_table``."""
        return contrast_table(self.sessions)

    @cached_property
    def courses(self) -> pd.DataFrame:
        """``course_table``."""
        return course_table(self.sessions)

    @cached_property
    def changes(self) -> pd.DataFrame:
        """``change_table``."""
        return change_table(self.sessions)

    @cached_property
    def spreads(self) -> pd.DataFrame:
        """``spread_table``."""
        return spread_table(self.sessions)

    @cached_property
    def per_price(self) -> pd.DataFrame:
        """``price_table``, of metrics that are better higher."""
        higher = self.platforms["metric"].map(
            lambda name: self.measures[name].better is Better.HIGHER
        )
        return price_table(self.platforms[higher], self.prices)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return all tables by file name, with unrounded numbers in base units."""
        found = {
            "sessions": self.sessions,
            "platforms": self.platforms,
            "windows": self.windows,
            "pairs": self.pairs,
            "contrasts": self.contrasts,
            "course": self.courses,
            "changes": self.changes,
            "spreads": self.spreads,
            "prices": self.per_price,
        }
        if self.planned is not None:
            found |= {"calendar": self.planned, "gaps": self.gaps}
        return found


def wanted_metrics(trials: pd.DataFrame, metrics: Sequence[str]) -> list[str]:
    """Return the metrics of a report: the wanted ones, else the leading ones.

    Of imported session results all are shown. Raises InputError for one that no trial has.
    """
    if metrics:
        return [chosen(trials, name).name for name in dict.fromkeys(metrics)]
    known = measured(trials)
    if set(trials["workload"].dropna()) == {_IMPORTED} and known:
        return [one.name for one in known]
    found = [one.name for one in leading(trials) if one.leading]
    return found or [chosen(trials, None).name]


def recorded_prices(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the hourly price of one VM of each platform and cell, as recorded by the runs.

    It is the mean over the VMs of the cell; where it changed over the sessions, their median. A
    cell of several currencies has none.
    """
    known = trials[trials["price_per_hour"].notna()]
    ends = [
        len({*str(senders).split(","), *str(receivers).split(",")})
        for senders, receivers in zip(known["senders"], known["receivers"], strict=True)
    ]
    known = known.assign(each=known["price_per_hour"] / pd.Series(ends, known.index, dtype=float))
    groups = known.groupby(["platform", "cell"], sort=False)
    found = groups.agg(price_per_hour=("each", "median"), currency=("currency", "first"))
    found = found[groups["currency"].nunique() == 1]
    return found.reset_index()


def listed_prices(file: Path, trials: pd.DataFrame) -> pd.DataFrame:
    """Return the prices of a CSV file: ``platform``, any swept keys, and the hourly price.

    The price is in ``price_per_hour`` with ``currency``, or in a column such as ``usd_per_hour``;
    an empty one is unknown. Raises InputError where a column is missing, a price is no number above
    0, a platform has two, or none of the platforms is in the trials.
    """
    table = read_table(file)
    hourly = [str(name) for name in table.columns if str(name).endswith("_per_hour")]
    needed = {"platform"} | ({"currency"} if hourly == ["price_per_hour"] else set())
    if len(hourly) != 1 or not needed <= {*table.columns}:
        raise InputError(
            "a table of prices has the columns platform and usd_per_hour,"
            " or platform, price_per_hour and currency",
            where=str(file),
            cure="name the columns so; swept keys, such as instance_class, may be columns, too",
        )
    table = read_table(file, hourly, ("currency",)).rename(columns={hourly[0]: "price_per_hour"})
    if hourly[0] != "price_per_hour":
        table["currency"] = hourly[0].removesuffix("_per_hour").upper()
    cells = trials.drop_duplicates(["platform", "cell"])
    shared = [str(name) for name in table.columns if name in cells and name not in _PRICE]
    found = cells[list(dict.fromkeys(["platform", "cell", *shared]))].map(_key)
    _check_prices(table, file)
    table[shared] = table[shared].map(_key)
    merged = found.merge(table, on=shared)
    if merged.empty:
        raise _unmatched(found, table, shared, file)
    twice = merged[merged.duplicated(["platform", "cell"])]
    if not twice.empty:
        raise InputError(
            f"{twice.iloc[0]['platform']} has several prices",
            where=str(file),
            cure="add the column of the swept key in which they differ, or keep only one of them",
        )
    merged["price_per_hour"] = merged["price_per_hour"].astype("float64")
    return merged[["platform", "cell", *_PRICE]]


def _key(value: object) -> object:
    """Return a value by which tables are joined: equal however a number or switch is written."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    text = str(value)
    try:
        return f"{float(text):.12g}"
    except ValueError:
        return text.lower() if text.lower() in {"true", "false"} else text


def _unmatched(
    found: pd.DataFrame, table: pd.DataFrame, shared: Sequence[str], file: Path
) -> InputError:
    """Return the error of a price list of which no row is about these runs."""
    platforms = {*found["platform"]} & {*table["platform"]}
    key = (
        next((one for one in shared if one != "platform"), "platform") if platforms else "platform"
    )
    values = ", ".join(map(str, found[key].dropna().unique()[:5]))
    what = f"none of its rows is about these runs, by {' and '.join(shared)}"
    return InputError(what, where=str(file), cure=f"write {key} as the runs have it: {values}")


def _check_prices(table: pd.DataFrame, file: Path) -> None:
    known = table[table["price_per_hour"].notna()]
    bad = known[~known["price_per_hour"].astype("float64").between(_LEAST_PRICE, _MOST_PRICE)]
    if not bad.empty:
        one = bad.iloc[0]
        raise InputError(
            f"{one['platform']} has the price {one['price_per_hour']:g}",
            where=str(file),
            cure=f"give each platform a price above 0, of {_MOST_PRICE:g} at most, or none where it"
            " is not known",
        )
    if known["currency"].isna().any():
        one = known[known["currency"].isna()].iloc[0]
        what = f"the price of {one['platform']} has no currency"
        raise InputError(what, where=str(file), cure="write it, such as USD")


def write_tables(data: CampaignData, directory: Path) -> list[Path]:
    """Write every table as a CSV file, and return their paths. Raises StorageError."""
    with storage("make a directory", directory):
        directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, table in data.tables().items():
        text = io.StringIO()
        table.to_csv(text, index=False)
        path = directory / f"{name}.csv"
        write_atomically(path, text.getvalue().encode())
        paths.append(path)
    return paths


def sections(data: CampaignData) -> list[tuple[str, str]]:
    """Return each cell and metric of the sessions, metrics in their order, cells by name."""
    pairs = data.sessions[["cell", "metric"]].drop_duplicates()
    order = {name: index for index, name in enumerate(data.metrics)}
    found = [(str(cell), str(metric)) for cell, metric in pairs.itertuples(index=False)]
    return sorted(found, key=lambda one: (order[one[1]], one[0]))


def of_section(table: pd.DataFrame, cell: str, metric: str) -> pd.DataFrame:
    """Return the rows of one cell and metric."""
    return table[(table["cell"] == cell) & (table["metric"] == metric)]


MOST_PANELS = 8
_HALF_DAY = pd.Timedelta(hours=12)
_MANY = 200  # sessions of which the marks are small
_ALIKE = 1.5  # platforms further apart than so many times have axes of their own
_NO_WINDOW = "no window given"
_GAP = "#e6e6e6"
_LEAST_PRICE, _MOST_PRICE = 1e-9, 1e9
_INTERVALS = " Bars: its exact 95 % interval, from six trials on."
_LEVELS = " Dashed: levels between change points, after subtracting the usual level of each window."


@styled
def course(rows: pd.DataFrame, planned: pd.DataFrame | None, look: Look = PLAIN) -> Figure:
    """Draw the session results of one cell and metric over time, a panel each platform.

    ``rows`` are those of ``osmef.analysis.seasons.session_table`` of one cell and metric,
    ``planned`` the calendar (``osmef.report.campaign.PLANNED``). A line joins two sessions of one
    window only where the calendar has none of it between them that gave nothing; the time without
    results is grey. Without a calendar nothing is joined. Levels between change points are drawn
    where there are several. The first ``MOST_PANELS`` platforms are drawn. The caption explains
    what is there.
    """
    measure = _measure(rows)
    rows = with_stretches(rows)
    names = sorted(map(str, rows["platform"].unique()))
    shown = names[:MOST_PANELS]
    how = unit(measure, float(rows["value"].max()))
    windows = _windows(rows)
    timed = bool(rows["began"].notna().all())
    by_platform = {name: rows[rows["platform"] == name] for name in shown}
    found = {name: level_segments(of) for name, of in by_platform.items()}
    has_gaps = timed and any(
        _has_gap(of, _calendar(planned, name)) for name, of in by_platform.items()
    )
    caption = "Each point: the median of a session's trials."
    caption += _INTERVALS * bool(rows["ci95_low"].notna().any())
    caption += " Grey: sessions of the calendar without a result." * has_gaps
    caption += _LEVELS * any(len(of) > 1 for of in found.values())
    caption += f" The first {MOST_PANELS} of {len(names)} platforms." * (len(names) > len(shown))
    medians = rows.groupby("platform")["value"].median()
    same = bool(medians.max() <= _ALIKE * medians.min())
    caption += "" if same else " The axes of y differ."
    caption += " y does not begin at 0." * bool(same and rows["value"].min() > 0)
    what = measure.words
    header = Words(f"{what[0].upper()}{what[1:]} over the sessions", caption, _source(rows))
    legend = {name: _point(number) for name, number in windows.items()} if len(windows) > 1 else {}
    height = 3.4 if len(shown) == 1 else 2.5 * -(-len(shown) // 2)
    wide = 6.6 if len(shown) == 1 else 9.6
    figure, panels = page(header, dict(legend), look, len(shown), (wide, height), same_y=same)
    for name, axes in zip(shown, panels, strict=True):
        of, calendar_of = by_platform[name], _calendar(planned, name)
        _draw_course(axes, of, calendar_of, how.divisor, windows, timed=timed)
        _draw_levels(axes, of, found[name], how.divisor, timed=timed)
        axes.set_title(look.named(name), loc="left", fontsize=8)
        axes.tick_params(axis="x", labelsize=7.5, labelbottom=True)
    for axes in panels:  # once all is drawn, since they share their ends
        if timed:
            if rows["began"].nunique() == 1:  # alone it would be on an axis of years
                at = rows["began"].iloc[0]
                axes.set_xlim(at - _HALF_DAY, at + _HALF_DAY)
            _date(axes, 7)
        else:
            axes.set_xlabel("session, in order")
            axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        look.apply(axes)
    label_y(figure, panels, look.y_label or how.label)
    return figure


def _measure(rows: pd.DataFrame) -> Measure:
    """Return the measure of a table of one metric, from its ``attrs``."""
    return measure_named(rows, str(rows["metric"].iloc[0]))


def _date(axes: Axes, most: int) -> None:
    """Label the x axis with dates, in UTC."""
    locator = AutoDateLocator(minticks=3, maxticks=most)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _windows(rows: pd.DataFrame) -> dict[str, int]:
    """Return the windows and their style numbers."""
    found = sorted(map(str, rows["window"].fillna(_NO_WINDOW).unique()))
    return {name: number for number, name in enumerate(found)}


def _point(number: int) -> Line2D:
    look = stroke(number)
    return Line2D([], [], ls="none", marker=look.marker, color=look.colour, markersize=4.5)


def _source(rows: pd.DataFrame) -> str:
    sessions, platforms = rows["session"].nunique(), rows["platform"].nunique()
    return f"{counted(sessions, 'session')} of {counted(platforms, 'platform')}"


def _calendar(planned: pd.DataFrame | None, platform: str) -> pd.DataFrame | None:
    if planned is None:
        return None
    return planned[planned["platform"] == platform].sort_values("opens", kind="stable")


def _draw_course(  # noqa: PLR0913 - a panel and what is in it
    axes: Axes,
    rows: pd.DataFrame,
    planned: pd.DataFrame | None,
    divisor: float,
    windows: dict[str, int],
    *,
    timed: bool,
) -> None:
    at = _positions(rows, timed=timed)
    values = rows["value"].to_numpy(dtype="float64") / divisor
    if planned is not None and timed:
        _draw_gaps(axes, rows, planned)
    ends = rows[["ci95_low", "ci95_high"]].to_numpy(dtype="float64").T / divisor
    named = rows["window"].fillna(_NO_WINDOW)
    size = 4.5 if len(rows) <= _MANY else 3
    for window in sorted(set(named)):
        mine = (named == window).to_numpy()
        look = stroke(windows[window])
        axes.plot(at[mine], values[mine], ls="none", marker=look.marker, color=look.colour,
                  markersize=size, markeredgecolor="white")  # fmt: skip
        axes.vlines(at[mine], *ends[:, mine], color=look.colour, linewidth=0.8, zorder=1.6)
        if planned is None or not timed:
            continue
        for part in _consecutive(rows[mine], planned[planned["window"] == window]):
            line = (at[mine][part], values[mine][part])
            axes.plot(*line, color=look.colour, linewidth=0.7, alpha=0.6, zorder=1.5)


def _draw_levels(
    axes: Axes,
    rows: pd.DataFrame,
    found: Sequence[tuple[int, int, float]],
    divisor: float,
    *,
    timed: bool,
) -> None:
    at = _positions(rows, timed=timed)
    for begin, end, height in found if len(found) > 1 else []:
        ends = (at[begin], at[end - 1])
        axes.plot(ends, (height / divisor,) * 2, color="black", ls="--", linewidth=1.6)


def _positions(rows: pd.DataFrame, *, timed: bool) -> np.ndarray:
    """Return where the sessions are on the x axis."""
    return _times(rows["began"]) if timed else np.arange(1, len(rows) + 1)


def _times(column: pd.Series) -> np.ndarray:
    """Return times as matplotlib takes them, in UTC."""
    return np.asarray(column.dt.tz_convert("UTC").dt.tz_localize(None))


def _consecutive(rows: pd.DataFrame, planned: pd.DataFrame) -> list[slice]:
    """Return which rows are consecutive in the calendar, without a failed one between."""
    known = set(rows["session"])
    missed_before, misses = {}, 0
    for session in planned["session"]:
        misses += session not in known
        missed_before[session] = misses
    marks = [missed_before.get(session) for session in rows["session"]]
    cuts = [n for n in range(1, len(marks)) if marks[n] is None or marks[n] != marks[n - 1]]
    ends = [0, *cuts, len(marks)]
    return [slice(begin, end) for begin, end in itertools.pairwise(ends)]


def _has_gap(rows: pd.DataFrame, planned: pd.DataFrame | None) -> bool:
    return planned is not None and len(_consecutive(rows, planned)) > 1


def _draw_gaps(axes: Axes, rows: pd.DataFrame, planned: pd.DataFrame) -> None:
    """Shade the periods of sessions without results."""
    parts = _consecutive(rows, planned)
    at = _times(rows["began"])
    for before, after in itertools.pairwise(parts):
        axes.axvspan(at[before.stop - 1], at[after.start], color=_GAP, linewidth=0, zorder=0.5)


@styled
def windows(medians: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the median of each platform by window, with its exact 95 % interval where there is one.

    ``medians`` is ``osmef.analysis.seasons.platform_table`` by window, of one cell and metric.
    """
    measure = _measure(medians)
    names = sorted(map(str, medians["platform"].unique()))
    kinds = sorted(map(str, medians["window"].unique()))
    how = unit(measure, float(medians["median"].max()))
    what = measure.words
    caption = (
        "Median over the sessions of a window; bars: its exact 95 % interval, from 6 sessions on."
    )
    count = f"{counted(len(names), 'platform')}, {counted(len(kinds), 'window')}"
    header = Words(f"{what[0].upper()}{what[1:]} by window", caption, count)
    legend = {name: _point(number) for number, name in enumerate(kinds)}
    rows, lines = broken([look.named(name) for name in names], look)
    height = 0.5 + len(names) * max(0.13 * len(kinds) + 0.12, LINE_INCHES * lines + 0.04)
    figure, (axes,) = page(header, dict(legend), look, size=(6.6, height), whole=True)
    for row in medians.to_dict("records"):
        number = kinds.index(str(row["window"]))
        shift = (number - (len(kinds) - 1) / 2) * 0.7 / len(kinds)
        y = names.index(str(row["platform"])) + shift
        ends = (row["ci95_low"], row["ci95_high"])
        _draw_median(axes, row["median"], ends, y, how.divisor, number)
    axes.set_yticks(range(len(names)), rows, fontsize=7.5)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(how.label)
    look.apply(axes)
    return figure


def _draw_median(  # noqa: PLR0913, PLR0917 - a point and its bar
    axes: Axes,
    median: float,
    ends: Sequence[float],
    y: float,
    divisor: float,
    number: int,
) -> None:
    look = stroke(number)
    if not any(pd.isna(end) for end in ends):
        axes.plot([end / divisor for end in ends], [y] * 2, color=look.colour, linewidth=1.4)
    axes.plot([median / divisor], [y], ls="none", marker=look.marker, color=look.colour,
              markeredgecolor="white", markersize=5)  # fmt: skip


_STATES = {
    "done": ("#009E73", ""),
    "failed": ("#D55E00", "xx"),
    "missed": ("#E69F00", "///"),
    "enough": ("#56B4E9", "..."),
    "cancelled": ("#CC79A7", "\\\\\\"),
    "running": ("#0072B2", ""),
    "planned": ("#ffffff", ""),
}


@styled
def calendar(planned: pd.DataFrame, look: Look = PLAIN) -> Figure:
    """Draw the outcome of each session: a row each platform and window, a mark each session.

    ``planned`` is the calendar (``osmef.report.campaign.PLANNED``).
    """
    keys = planned[["platform", "window"]].drop_duplicates().sort_values(["platform", "window"])
    pairs = [(str(a), str(b)) for a, b in keys.itertuples(index=False)]
    several = keys["window"].nunique() > 1
    rows, lines = broken([f"{a}, {b}" if several else a for a, b in pairs], look)
    states = [state for state in _STATES if (planned["state"] == state).any()]
    legend = {state: Patch(**_patch(state)) for state in states}
    header = Words("State of the sessions", "Each mark is a session, from when its"
                   " window opened (UTC). Its width has no meaning.",
                   counted(len(planned), "session"))  # fmt: skip
    height = 0.5 + len(pairs) * (LINE_INCHES * lines + 0.06)
    figure, (axes,) = page(header, dict(legend), look, size=(9.6, height), whole=True)
    at = _times(planned["opens"])
    apart = np.diff(np.unique(at)) / np.timedelta64(1, "D")
    width = min([0.4, *(0.8 * apart)])
    for number, (platform, window) in enumerate(pairs):
        mine = ((planned["platform"] == platform) & (planned["window"] == window)).to_numpy()
        for state in states:
            those = at[mine & (planned["state"] == state).to_numpy()]
            bars = axes.bar(those, 0.7, width, number - 0.35, align="edge", **_patch(state))
            if len(at) > _MANY and state not in {"planned", "running"}:
                for bar in bars:  # edges of narrow marks would hide their colour
                    bar.set_linewidth(0)
    axes.set_yticks(range(len(pairs)), rows, fontsize=7.5)
    axes.set_ylim(len(pairs) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    _date(axes, 12)
    look.apply(axes)
    return figure


def _patch(state: str) -> dict[str, Any]:
    colour, hatch = _STATES[state]
    return {"facecolor": colour, "hatch": hatch, "edgecolor": EDGE, "linewidth": 0.4}
