"""The tables of a campaign's page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from osmef.report.html.table import Column, Field, Mark, Scale, Table, number, text
from osmef.scenario.money import Money

MOST_ROWS = 1000
_FEWEST = 6  # sessions of which there is an interval of 95 %
_STATES = ("done", "failed", "missed", "enough", "cancelled", "running", "planned")

Row = Mapping[Hashable, Any]


def calendar_table(planned: pd.DataFrame) -> Table:
    """Return one row a platform: how many of its sessions became what, and what they cost."""
    states = [state for state in _STATES if (planned["state"] == state).any()]
    columns = [
        Column("platform"),
        Column("sessions", number=True),
        *(Column(state, number=True) for state in states),
        Column("trials", number=True),
        Column("cost", number=True),
    ]
    rows = [_platform_row(str(name), of, states) for name, of in planned.groupby("platform")]
    note = (
        "Enough: the stop rule had what it wanted. Cancelled: the budget. Missed: its window had "
        "closed before it could begin. Cost by list price, without traffic, disks and addresses."
    )
    return Table("What became of the sessions", columns, rows, note)


def _platform_row(name: str, of: pd.DataFrame, states: list[str]) -> list[Field]:
    counts = Counter(of["state"])
    failed = int(of["trials_failed"].sum())
    trials = Field(
        str(int(of["trials_ok"].sum()) + failed),
        (f"{failed} failed",) if failed else (),
        mark=Mark.BAD if failed else Mark.PLAIN,
    )
    bad = {"failed": Mark.BAD, "missed": Mark.WARN}
    marks = {state: bad.get(state, Mark.PLAIN) if counts[state] else Mark.PLAIN for state in states}
    return [
        Field(name),
        Field(str(len(of))),
        *(Field(str(counts[state]), mark=marks[state]) for state in states),
        trials,
        _cost(of),
    ]


def _cost(of: pd.DataFrame) -> Field:
    known = of[of["cost"].notna()]
    if known.empty:
        return text(None)
    sums = known.groupby("currency")["cost"].sum()
    return Field(", ".join(str(Money(float(amount), str(unit))) for unit, amount in sums.items()))


def gaps_table(planned: pd.DataFrame) -> Table | None:
    """Return the sessions that gave nothing, with the reason; None without any."""
    gaps = planned[planned["state"].isin(["failed", "missed"])]
    if gaps.empty:
        return None
    rows = [
        [
            Field(str(row["session"])),
            Field(str(row["platform"])),
            Field(str(row["state"]), mark=Mark.BAD if row["state"] == "failed" else Mark.WARN),
            text(_known(row["why"])),
        ]
        for row in gaps.head(MOST_ROWS).to_dict("records")
    ]
    heads = ("session", "platform", "became", "why")
    note = "These are gaps: nothing stands in for them in any number or figure below."
    return Table("Sessions without a result", [Column(h) for h in heads], rows, _more(gaps, note))


def away_table(gaps: pd.DataFrame) -> Table | None:
    """Return the times in which nobody conducted the campaign; None without any."""
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
    return Table("When nobody conducted it", columns, rows, _more(gaps, ""))


def known_table(planned: pd.DataFrame) -> Table | None:
    """Return the cells that sessions left out, for they were known; None where none did."""
    told = planned[planned["left_out"].notna()]
    if told.empty:
        return None
    rows = [
        [
            Field(str(platform)),
            Field(str(cells)),
            Field(str(of["session"].iloc[0])),
            Field(str(len(of))),
        ]
        for (platform, cells), of in told.groupby(["platform", "left_out"], sort=False)
    ]
    columns = [
        Column("platform"),
        Column("cells"),
        Column("since"),
        Column("sessions", number=True),
    ]
    note = "The stop rule had what it wanted of them, and the sessions measured the other cells."
    return Table("Cells that were left out", columns, rows, note)


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
            number(_known(row["cov_percent"])),
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
    if _known(row["ci95_low"]) is None:
        return Field("none", (f"n {row['sessions']}",), key="")
    return Field(f"{scale.show(row['ci95_low'])} to {scale.show(row['ci95_high'])}")


def _priced(row: Row, scale: Scale) -> list[Field]:
    price, gives = _known(row["price_per_hour"]), _known(row["per_price"])
    if price is None:
        return [Field("unknown", key=""), text(None), text(None)]
    shown = Field(f"{price:.4g} {row['currency']}", key=repr(price))
    return [shown, _scaled(gives, scale), text(_known(row["rank"]))]


def sessions_table(sessions: pd.DataFrame, platforms: pd.DataFrame, scale: Scale) -> Table:
    """Return one row a session, a column each platform; below them the CoV."""
    names = [str(name) for name in platforms["platform"]]
    order = list(dict.fromkeys(sessions["session"]))
    cells = {
        (row["session"], row["platform"]): row
        for row in sessions[["session", "platform", "value", "trials"]].to_dict("records")
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
    shown = [_known(spread[name]) for name in names]
    foot = [Field("" if one is None else f"{one:.2f} %", key="") for one in shown]
    rows.append([Field("Coefficient of variation", key=""), *foot])
    note = "A dash: the session gave nothing there."
    left = len(order) - MOST_ROWS
    note += f" The first {MOST_ROWS} sessions; {left} more are in sessions.csv." * (left > 0)
    return Table("Sessions", columns, rows, note)


def _result(row: Row | None, scale: Scale, *, several: bool) -> Field:
    if row is None:
        return text(None)
    lines = (f"n {row['trials']}",) if several else ()
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
        f"Session results against session results; Holm's correction is over these {tests} pairs. "
        "Welch's test assumes normal session means, Mann and Whitney's does not. Marked: below "
        "0.05. What a difference is worth, g and the medians say, not p."
    )
    least = float(pairs["least_p"].min()) if tests else 0.0
    if least * tests > 0.05:
        note += (
            f" With so few sessions no p of Mann and Whitney's can be below {least:.2g}, and none"
            " after the correction below 0.05: that it is not says nothing here."
        )
    return Table("Platforms, two by two", columns, rows, _more(pairs, note))


def _effect(row: Row, name: str) -> Field:
    value, low, high = (_known(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
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
            number(_known(row["difference_percent"])),
            _p(row["p"], row["least_p"]),
            _p(row["p_holm"]),
        ]
        for row in contrasts.head(MOST_ROWS).to_dict("records")
    ]
    note = (
        "a over b: Hodges and Lehmann's difference with its exact 95 % interval, which needs 4 "
        "sessions against 4. p of Mann and Whitney's test; Holm's correction is over all platforms "
        "and comparisons of this metric. Weekday against weekend is over all hours of the day."
    )
    return Table("Times against each other", columns, rows, _more(contrasts, note))


def _side(name: object) -> str:
    return "off-peak" if name == "offpeak" else str(name)


def _shift(row: Row, scale: Scale) -> Field:
    value, low, high = (_known(row[name]) for name in ("difference", "low", "high"))
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
            number(_known(row["cov_percent"])),
        ]
        for row in windows.head(MOST_ROWS).to_dict("records")
    ]
    return Table("By window", columns, rows, _more(windows, ""))


def course_table(courses: pd.DataFrame, changes: pd.DataFrame, scale: Scale) -> Table:
    """Return one row a platform: drift, memory and changes of level over the weeks."""
    columns = [
        Column("platform"),
        Column("sessions", number=True),
        Column("drift", scale.unit, number=True),
        Column("p", number=True),
        Column("memory", number=True),
        Column("changes of level"),
    ]
    rows = []
    for row in courses.to_dict("records"):
        mine = changes[changes["platform"] == row["platform"]].to_dict("records")
        rows.append(
            [
                Field(str(row["platform"])),
                Field(str(row["sessions"])),
                _drift(row, scale),
                _p(row["drift_p"]),
                _memory(row),
                _changed(row, mine, scale),
            ]
        )
    note = (
        "What is usual for a window is taken away first. Drift: from the first session to the "
        "last, by Theil and Sen's slope, with its 95 % interval; p of Mann and Kendall's test. "
        "Memory: the autocorrelation from one session to the next; beyond its bound sessions are "
        "not independent, and every interval and p here is too sure. Changes: steps to another "
        "level, each lasting 5 sessions at least; fewer than 10 sessions can't show one."
    )
    return Table("Over the weeks", columns, rows, note)


def _drift(row: Row, scale: Scale) -> Field:
    slope = _known(row["drift"])
    if slope is None:
        return text(None)
    ends = f"{scale.show(row['drift_low'])} to {scale.show(row['drift_high'])}"
    return Field(scale.show(slope), (ends,), repr(slope))


def _memory(row: Row) -> Field:
    value, bound = _known(row["memory"]), _known(row["memory_bound"])
    if value is None or bound is None:
        return text(None)
    mark = Mark.WARN if abs(value) > bound else Mark.PLAIN
    return Field(f"{value:.2f}", (f"bound {bound:.2f}",), repr(value), mark)


def _changed(row: Row, mine: list[dict[Hashable, Any]], scale: Scale) -> Field:
    if _known(row["changes"]) is None:
        return Field("too few sessions", key="")
    if not mine:
        return Field("none found", key="0")
    lines = [
        f"between {one['last']} and {one['first']}: {scale.show(one['before'])} to"
        f" {scale.show(one['after'])} ({one['difference_percent']:+.3g} %)"
        for one in mine
    ]
    return Field(str(len(mine)), tuple(lines), str(len(mine)), Mark.WARN)


def _p(value: object, least: float | None = None) -> Field:
    known = _known(value)
    if known is None:
        return text(None)
    lines = (f"at least {least:.2g}",) if least is not None and least > 0.01 else ()
    mark = Mark.WARN if known < 0.05 else Mark.PLAIN
    return Field(f"{known:.3g}", lines, repr(float(known)), mark)


def _scaled(value: float | None, scale: Scale) -> Field:
    known = _known(value)
    return Field(scale.show(known), key="" if known is None else repr(float(known)))


def _known(value: Any) -> Any:
    """Return a value of a frame, None where it is missing."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    return value


def _more(table: pd.DataFrame, note: str) -> str:
    left = len(table) - MOST_ROWS
    told = f"The first {MOST_ROWS} rows; {left} more are in the CSV files."
    return f"{note} {told}".strip() if left > 0 else note
