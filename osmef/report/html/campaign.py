"""Page of a campaign: sessions, platforms, windows, and change over time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from osmef.analysis.describe import describe
from osmef.report.campaign import LOST, CampaignData, calendar, course, of_section, sections
from osmef.report.campaign import windows as draw_windows
from osmef.report.html.figures import Drawn, inline_svg
from osmef.report.html.layout import (
    Column,
    Emphasis,
    Field,
    Scale,
    Table,
    check_output,
    fill,
    number,
    scale_of,
    text,
    write_page,
)
from osmef.report.options import Look
from osmef.report.summary import short_cells
from osmef.scenario.fields import Money
from osmef.units import counted

MOST_ROWS = 1000
"""That a table shows; all are in the CSV files."""

_MEANINGS = {
    "missed": "Missed: its window had closed before it could begin.",
    "enough": "Enough: the stopping rule was met.",
    "cancelled": "Cancelled: the budget.",
}
_BAD = {"failed": Emphasis.BAD, "missed": Emphasis.WARN}
_STATES = ("done", "failed", "missed", "enough", "cancelled", "running", "planned")


def calendar_table(planned: pd.DataFrame) -> Table:
    """Return one row a platform: its sessions by outcome, and their cost if any has one."""
    has_cost = bool(planned["cost"].notna().any())
    states = [state for state in _STATES if (planned["state"] == state).any()]
    columns = [
        Column("platform"),
        Column("sessions", number=True),
        *(Column(state, number=True) for state in states),
        Column("trials", number=True),
        *([Column("cost", number=True)] if has_cost else []),
    ]
    rows = [
        [*_platform_row(str(name), of, states), *([_cost(of)] if has_cost else [])]
        for name, of in planned.groupby("platform")
    ]
    reported = [_MEANINGS[state] for state in states if state in _MEANINGS]
    reported += ["Cost by list price, without traffic, disks and addresses."] if has_cost else []
    return Table("State of the sessions", columns, rows, " ".join(reported))


def _platform_row(name: str, of: pd.DataFrame, states: list[str]) -> list[Field]:
    counts = Counter(of["state"])
    failed = int(of["trials_failed"].sum())
    trials = Field(
        str(int(of["trials_ok"].sum()) + failed),
        (f"{failed} failed",) if failed else (),
        emphasis=Emphasis.BAD if failed else Emphasis.PLAIN,
    )
    emphases = {
        state: _BAD.get(state, Emphasis.PLAIN) if counts[state] else Emphasis.PLAIN
        for state in states
    }
    return [
        Field(name),
        Field(str(len(of))),
        *(Field(str(counts[state]), emphasis=emphases[state]) for state in states),
        trials,
    ]


def _cost(of: pd.DataFrame) -> Field:
    reported = of[of["cost"].notna()]
    if reported.empty:
        return text(None)
    sums = reported.groupby("currency")["cost"].sum()
    return Field(", ".join(str(Money(float(amount), str(unit))) for unit, amount in sums.items()))


def missing_results_table(planned: pd.DataFrame) -> Table | None:
    """Return the sessions without results, with the reason; None without any.

    Consecutive ones of a platform with one reason share a row: a pause of a week has hundreds.
    """
    lost = (planned["state"] == "done") & planned["why"].str.startswith(LOST, na=False)
    known = planned.assign(gap=planned["state"].isin(["failed", "missed"]) | lost)
    known["why"] = known["why"].fillna("")
    same = known[["gap", "state", "why"]]
    changed = (same != same.groupby(known["platform"]).shift()).any(axis=1)
    known["stretch"] = changed.groupby(known["platform"]).cumsum()
    stretches = known[known["gap"]].groupby(["platform", "stretch"], sort=False)
    gaps = stretches.agg(
        first=("session", "first"), last=("session", "last"), count=("session", "size"),
        state=("state", "first"), why=("why", "first"),
    ).reset_index()  # fmt: skip
    rows = [
        [
            Field(" to ".join(dict.fromkeys((row["first"], row["last"])))),
            Field(str(row["platform"])),
            Field(str(row["count"])),
            Field(row["state"], emphasis=_BAD.get(row["state"], Emphasis.BAD)),
            text(row["why"] or None),
        ]
        for row in gaps.head(MOST_ROWS).to_dict("records")
    ]
    heads = ("sessions", "platform", "count", "became", "why")
    columns = [Column(head, number=head == "count") for head in heads]
    note = "These are gaps: no number or figure below fills them."
    return Table("Sessions without a result", columns, rows, more(gaps, note)) if rows else None


def conductor_gaps_table(gaps: pd.DataFrame) -> Table | None:
    """Return the periods without a conductor; None without any."""
    if gaps.empty:
        return None
    rows = [
        [
            Field(f"{row['since']:%Y-%m-%d %H:%M:%S}"),
            Field(f"{row['until']:%Y-%m-%d %H:%M:%S}"),
            Field(str(row["why"])),
        ]
        for row in gaps.head(MOST_ROWS).to_dict("records")
    ]
    columns = [Column("from", "UTC"), Column("to", "UTC"), Column("why")]
    return Table("When no conductor was running", columns, rows, more(gaps, ""))


def ended_cells_table(planned: pd.DataFrame) -> Table | None:
    """Return the cells that the stopping rule made sessions skip; None without any."""
    reported = planned[planned["left_out"].notna()]
    if reported.empty:
        return None
    rows = [
        [
            Field(str(platform)),
            Field(str(cells)),
            Field(str(of["session"].iloc[0])),
            Field(str(len(of))),
        ]
        for (platform, cells), of in reported.groupby(["platform", "left_out"], sort=False)
    ]
    columns = [
        Column("platform"),
        Column("cells"),
        Column("since"),
        Column("sessions", number=True),
    ]
    note = "The stopping rule was met for them, and the sessions measured the other cells."
    return Table("Cells that were left out", columns, rows, note)


def none_if_missing(value: Any) -> Any:
    """Return a value of a frame, None where it is missing."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    return value


def more(table: pd.DataFrame, note: str) -> str:
    """Return the note on hidden rows of a table."""
    left = len(table) - MOST_ROWS
    reported = f"The first {MOST_ROWS} rows; {left} more are in the CSV files."
    return f"{note} {reported}".strip() if left > 0 else note


_FEWEST = 6  # sessions of which there is an interval of 95 %

Row = Mapping[Hashable, Any]


def platforms_table(platforms: pd.DataFrame, prices: pd.DataFrame, scale: Scale) -> Table:
    """Return one row a platform: median of its sessions, interval, CoV, and price-performance."""
    priced = prices.set_index("platform")
    with_prices = bool(prices["price_per_hour"].notna().any())
    columns = [
        Column("platform"),
        Column("sessions", number=True),
        Column("median", scale.unit, number=True),
        Column("95 % interval", scale.unit),
        Column("CoV", "%", number=True),
        Column("min", scale.unit, number=True),
        Column("max", scale.unit, number=True),
    ]
    if with_prices:
        columns += [Column(head, number=True) for head in ("VM an hour", "for 1 an hour", "rank")]
    rows = []
    for row in platforms.to_dict("records"):
        fields = [
            Field(str(row["platform"])),
            Field(str(row["sessions"])),
            _scaled(row["median"], scale),
            _interval(row, scale),
            number(none_if_missing(row["cov_percent"])),
            _scaled(row["min"], scale),
            _scaled(row["max"], scale),
        ]
        if with_prices:
            fields += _priced(priced.loc[row["platform"]].to_dict(), scale)
        rows.append(fields)
    note = (
        "The median over the sessions, of which each is the median of its trials; CoV is over the "
        "sessions."
    )
    if (platforms["sessions"] < _FEWEST).any():
        note += (
            f" Below {_FEWEST} sessions there is no interval of 95 %, and the CoV says little: of 4"
            " normal results the true one may be from 0.6 to 3.7 times as large."
        )
    if with_prices:
        note += " For 1 an hour: the median over the hourly price of one VM, in units of the table."
    return Table("Platforms", columns, rows, note)


def _interval(row: Row, scale: Scale) -> Field:
    if none_if_missing(row["ci95_low"]) is None:
        return Field("none", (f"n {row['sessions']}",), key="")
    return Field(f"{scale.show(row['ci95_low'])} to {scale.show(row['ci95_high'])}")


def _priced(row: Row, scale: Scale) -> list[Field]:
    price, gives = none_if_missing(row["price_per_hour"]), none_if_missing(row["per_price"])
    if price is None:
        return [Field("unknown", key=""), text(None), text(None)]
    shown = Field(f"{price:.4g} {row['currency']}", key=repr(price))
    return [shown, _scaled(gives, scale), text(none_if_missing(row["rank"]))]


_OF_A_SESSION = ["session", "platform", "value", "trials", "ci95_low", "ci95_high"]


def sessions_table(sessions: pd.DataFrame, platforms: pd.DataFrame, scale: Scale) -> Table:
    """Return one row a session, a column each platform; below them the CoV."""
    names = [str(name) for name in platforms["platform"]]
    order = list(dict.fromkeys(sessions["session"]))
    cells = {
        (row["session"], row["platform"]): row for row in sessions[_OF_A_SESSION].to_dict("records")
    }
    several = bool((sessions["trials"] > 1).any())
    columns = [Column("session"), *(Column(name, scale.unit, number=True) for name in names)]
    rows = [
        [
            Field(str(session)),
            *(_result(cells.get((session, name)), scale, several=several) for name in names),
        ]
        for session in order[:MOST_ROWS]
    ]
    spread = platforms.set_index("platform")["cov_percent"]
    shown = [none_if_missing(spread[name]) for name in names]
    foot = [Field("" if one is None else f"{one:.2f} %", key="") for one in shown]
    rows.append([Field("Coefficient of variation", key=""), *foot])
    note = "A dash: the session gave nothing there."
    left = len(order) - MOST_ROWS
    note += f" The first {MOST_ROWS} sessions; {left} more are in sessions.csv." * (left > 0)
    return Table("Sessions", columns, rows, note)


def _result(row: Row | None, scale: Scale, *, several: bool) -> Field:
    if row is None:
        return text(None)
    ends = (row["ci95_low"], row["ci95_high"])
    interval = () if any(map(pd.isna, ends)) else (" to ".join(map(scale.show, ends)),)
    lines = (*interval, f"n {row['trials']}") if several else ()
    return Field(scale.show(row["value"]), lines, repr(float(row["value"])))


def pairs_table(pairs: pd.DataFrame, scale: Scale) -> Table:
    """Return one row for every two platforms: both tests, and Hedges' g."""
    columns = [
        Column("a"),
        Column("b"),
        Column("n", number=True),
        *(Column(f"median {side}", scale.unit, number=True) for side in "ab"),
        *(Column(head, number=True) for head in ("Welch p", "after Holm")),
        *(Column(head, number=True) for head in ("Mann-Whitney p", "after Holm")),
        Column("Hedges' g", number=True),
    ]
    rows = [
        [
            Field(str(row["a"])),
            Field(str(row["b"])),
            Field(f"{row['n_a']},\u00a0{row['n_b']}"),
            _scaled(row["median_a"], scale),
            _scaled(row["median_b"], scale),
            _p(row["welch_p"]),
            _p(row["welch_p_holm"]),
            _p(row["mann_whitney_p"], row["least_p"]),
            _p(row["mann_whitney_p_holm"]),
            _effect(row, "hedges_g"),
        ]
        for row in pairs.head(MOST_ROWS).to_dict("records")
    ]
    tests = len(pairs)
    note = (
        "Session results against session results; Holm's correction is over "
        f"{counted(tests, 'pair')}. Welch's test assumes normal session means, Mann and Whitney's "
        "does not. Marked: below 0.05. What a difference is worth, g and the medians say, not p."
    )
    least = float(pairs["least_p"].min()) if tests else 0.0
    if least * tests > 0.05:
        note += (
            f" With so few sessions no p of Mann and Whitney's can be below {least:.2g}, and none"
            " after the correction below 0.05: that it is not says nothing here."
        )
    return Table("Platforms, two by two", columns, rows, more(pairs, note))


def _effect(row: Row, name: str) -> Field:
    value, low, high = (none_if_missing(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
    if value is None or low is None or high is None:
        return number(value)
    return Field(f"{value:.3g}", (f"{low:.3g} to {high:.3g}",), repr(value))


def contrasts_table(contrasts: pd.DataFrame, scale: Scale) -> Table:
    """Return weekday against weekend, and peak against off-peak, of each platform."""
    columns = [
        Column("platform"),
        Column("a against b"),
        Column("n", number=True),
        *(Column(f"median {side}", scale.unit, number=True) for side in "ab"),
        Column("a over b", scale.unit, number=True),
        Column("a over b", "%", number=True),
        *(Column(head, number=True) for head in ("p", "after Holm")),
    ]
    rows = [
        [
            Field(str(row["platform"])),
            Field(f"{_side(row['a'])} against {_side(row['b'])}"),
            Field(f"{row['n_a']},\u00a0{row['n_b']}"),
            _scaled(row["median_a"], scale),
            _scaled(row["median_b"], scale),
            _shift(row, scale),
            number(none_if_missing(row["difference_percent"])),
            _p(row["p"], row["least_p"]),
            _p(row["p_holm"]),
        ]
        for row in contrasts.head(MOST_ROWS).to_dict("records")
    ]
    note = (
        "a over b: Hodges and Lehmann's difference with its exact 95 % interval, which needs 4 "
        "sessions against 4. p of Mann and Whitney's test; Holm's correction is over all platforms "
        "and comparisons of the campaign. Weekday and weekend are compared within peak and within "
        "off-peak, and peak and off-peak within weekday and weekend."
    )
    return Table("Times against each other", columns, rows, more(contrasts, note))


def _side(name: object) -> str:
    return "off-peak" if name == "offpeak" else str(name)


def _shift(row: Row, scale: Scale) -> Field:
    value, low, high = (none_if_missing(row[name]) for name in ("difference", "low", "high"))
    if value is None:
        return text(None)
    ends = "no interval" if low is None or high is None else (
        f"{scale.show(low)} to {scale.show(high)}"
    )  # fmt: skip
    return Field(scale.show(value), (ends,), repr(value))


def windows_table(windows: pd.DataFrame, scale: Scale) -> Table:
    """Return one row a platform and window: median, interval and CoV of its sessions."""
    columns = [
        Column("platform"),
        Column("window"),
        Column("sessions", number=True),
        Column("median", scale.unit, number=True),
        Column("95 % interval", scale.unit),
        Column("CoV", "%", number=True),
    ]
    rows = [
        [
            Field(str(row["platform"])),
            Field(str(row["window"])),
            Field(str(row["sessions"])),
            _scaled(row["median"], scale),
            _interval(row, scale),
            number(none_if_missing(row["cov_percent"])),
        ]
        for row in windows.head(MOST_ROWS).to_dict("records")
    ]
    return Table("By window", columns, rows, more(windows, ""))


def course_table(
    courses: pd.DataFrame, changes: pd.DataFrame, spreads: pd.DataFrame, scale: Scale
) -> Table:
    """Return one row a platform: drift, autocorrelation, and changes over the weeks."""
    columns = [
        Column("platform"),
        Column("sessions", number=True),
        Column("drift", scale.unit, number=True),
        Column("p", number=True),
        Column("autocorrelation", number=True),
        Column("changes of level"),
        Column("changes of spread"),
    ]
    rows = []
    for row in courses.to_dict("records"):
        mine, wider = (
            found[found["platform"] == row["platform"]].to_dict("records")
            for found in (changes, spreads)
        )
        rows.append(
            [
                Field(str(row["platform"])),
                Field(str(row["sessions"])),
                _drift(row, scale),
                _p(row["drift_p_holm"]),
                _memory(row),
                _changed(row, [_level(one, scale) for one in mine]),
                _changed(row, [_spread(one) for one in wider]),
            ]
        )
    note = (
        "The usual level of each window is subtracted first. Drift: from the first session to the "
        "last, by Theil and Sen's slope, with its 95 % interval; p of Mann and Kendall's test, "
        "corrected over the campaign. Autocorrelation: from one session to the next; "
        "where it is marked sessions are not independent, and every interval and p is too sure. "
        "Changes: steps to another level, or to another spread about it, each lasting 5 sessions "
        "at least; fewer than 10 sessions can't show one. A spread is how far half of the sessions "
        "are from the level at most, in percent of it."
    )
    return Table("Over the weeks", columns, rows, note)


def _drift(row: Row, scale: Scale) -> Field:
    slope = none_if_missing(row["drift"])
    if slope is None:
        return text(None)
    ends = f"{scale.show(row['drift_low'])} to {scale.show(row['drift_high'])}"
    return Field(scale.show(slope), (ends,), repr(slope))


def _memory(row: Row) -> Field:
    value, bound = none_if_missing(row["memory"]), none_if_missing(row["memory_bound"])
    if value is None or bound is None:
        return text(None)
    p = none_if_missing(row["memory_p_holm"])
    emphasis = Emphasis.WARN if p is not None and p < 0.05 else Emphasis.PLAIN
    return Field(f"{value:.2f}", (f"bound {bound:.2f}",), repr(value), emphasis)


def _changed(row: Row, lines: list[str]) -> Field:
    if none_if_missing(row["changes"]) is None:
        return Field("too few sessions", key="")
    if not lines:
        return Field("none found", key="0")
    return Field(str(len(lines)), tuple(lines), str(len(lines)), Emphasis.WARN)


def _level(one: dict[Hashable, Any], scale: Scale) -> str:
    share = none_if_missing(one["difference_percent"])
    return (
        f"between {one['last']} and {one['first']}: {scale.show(one['before'])} to"
        f" {scale.show(one['after'])}" + ("" if share is None else f" ({share:+.3g} %)")
    )


def _spread(one: dict[Hashable, Any]) -> str:
    before, after = (
        "unknown" if none_if_missing(one[side]) is None else f"±{one[side]:.2g} %"
        for side in ("before", "after")
    )
    return f"between {one['last']} and {one['first']}: {before} to {after}"


def _p(value: object, least: float | None = None) -> Field:
    reported = none_if_missing(value)
    if reported is None:
        return text(None)
    lines = (f"at least {least:.2g}",) if least is not None and least > 0.01 else ()
    emphasis = Emphasis.WARN if reported < 0.05 else Emphasis.PLAIN
    return Field(f"{reported:.3g}", lines, repr(float(reported)), emphasis)


def _scaled(value: float | None, scale: Scale) -> Field:
    reported = none_if_missing(value)
    return Field(scale.show(reported), key="" if reported is None else repr(float(reported)))


_MOST_SECTIONS = 24  # cells and metrics; all of them are in the CSV files
_MOST_DRAWN = 12
_OPEN_ROWS = 20  # a longer table of sessions is folded
_PRINTED_ROWS = 400  # and one that is still longer is not printed
_MOST_PLATFORMS = 40  # of a calendar that can still be read


@dataclass(frozen=True)
class Section:
    """A section of one cell and metric."""

    number: int
    title: str
    tables: list[Table]
    sessions: Table
    figures: list[Drawn]


def write_campaign_report(data: CampaignData, output: Path, title: str | None = None) -> None:
    """Write the page. Raises as ``write_page``."""
    check_output(output)  # before figures are drawn for nothing
    page = render_campaign(data, title)
    write_page(output, page)


def render_campaign(data: CampaignData, title: str | None = None) -> str:
    """Return the page as text."""
    planned, every = data.planned, sections(data)
    shown = list(_sections(data, every[:_MOST_SECTIONS]))
    return fill(
        "campaign_report.html.jinja",
        title or data.name,
        live=any(one.live for section in shown for one in section.figures),
        facts=data.facts,
        calendar=None if planned is None else calendar_table(planned),
        gaps=None if planned is None else missing_results_table(planned),
        known=None if planned is None else ended_cells_table(planned),
        away=conductor_gaps_table(data.gaps),
        figure=_calendar(planned),
        sections=shown,
        left=every[_MOST_SECTIONS:],
        open_rows=_OPEN_ROWS,
        printed_rows=_PRINTED_ROWS,
    )


def _calendar(planned: pd.DataFrame | None) -> Drawn | None:
    if planned is None or planned["platform"].nunique() > _MOST_PLATFORMS:
        return None
    words = "The state of each session, over time. The numbers are in the table."
    svg = inline_svg(calendar(planned), "calendar-", words)
    return Drawn("calendar", "The state of each session, by platform and window", svg)


def _sections(data: CampaignData, these: list[tuple[str, str]]) -> Iterator[Section]:
    names, _shared = short_cells({cell: None for cell, _metric in these})
    for index, (cell, metric) in enumerate(these, start=1):
        platforms = of_section(data.platforms, cell, metric)
        scale = scale_of(data.measures[metric], [describe(platforms["median"].tolist())])
        title = f"{scale.words[0].upper()}{scale.words[1:]}"
        title += f", {names[cell]}" if len(names) > 1 else ""
        look = Look(of=names[cell] if len(names) > 1 else "")
        figures = list(_figures(data, cell, metric, index, look)) if index <= _MOST_DRAWN else []
        results = sessions_table(of_section(data.sessions, cell, metric), platforms, scale)
        yield Section(index, title, list(_tables(data, cell, metric)), results, figures)


def _tables(data: CampaignData, cell: str, metric: str) -> Iterator[Table]:
    platforms, prices, pairs, contrasts, windows, courses, changes, spreads = (
        of_section(table, cell, metric)
        for table in (
            *(data.platforms, data.per_price, data.pairs),
            *(data.contrasts, data.windows, data.courses, data.changes, data.spreads),
        )
    )
    scale = scale_of(data.measures[metric], [describe(platforms["median"].tolist())])
    yield platforms_table(platforms, prices, scale)
    if len(pairs):
        yield pairs_table(pairs, scale)
    if windows["window"].nunique() > 1:
        yield windows_table(windows, scale)
    if len(contrasts):
        yield contrasts_table(contrasts, scale)
    yield course_table(courses, changes, spreads, scale)


def _figures(
    data: CampaignData, cell: str, metric: str, number: int, look: Look
) -> Iterator[Drawn]:
    rows = of_section(data.sessions, cell, metric)
    words = "The numbers are in the tables of this section."
    figure = course(rows, data.planned, look)
    svg = inline_svg(figure, f"c{number}-", f"Over time. {words}")
    yield Drawn("course", "Session results over time", svg)
    medians = of_section(data.windows, cell, metric)
    if medians["window"].nunique() > 1:
        svg = inline_svg(draw_windows(medians, look), f"w{number}-", f"By window. {words}")
        yield Drawn("windows", "Platforms by window", svg)
