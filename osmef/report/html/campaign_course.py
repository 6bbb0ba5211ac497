"""Tables of a campaign's page: outcomes of its sessions."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pandas as pd

from osmef.report.html.table import Column, Emphasis, Field, Table, text
from osmef.scenario.fields import Money

MOST_ROWS = 1000
"""That a table shows; all are in the CSV files."""

_MEANINGS = {
    "missed": "Missed: its window had closed before it could begin.",
    "enough": "Enough: the stop rule had what it wanted.",
    "cancelled": "Cancelled: the budget.",
}
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
    told = [_MEANINGS[state] for state in states if state in _MEANINGS]
    told += ["Cost by list price, without traffic, disks and addresses."] if has_cost else []
    return Table("State of the sessions", columns, rows, " ".join(told))


def _platform_row(name: str, of: pd.DataFrame, states: list[str]) -> list[Field]:
    counts = Counter(of["state"])
    failed = int(of["trials_failed"].sum())
    trials = Field(
        str(int(of["trials_ok"].sum()) + failed),
        (f"{failed} failed",) if failed else (),
        emphasis=Emphasis.BAD if failed else Emphasis.PLAIN,
    )
    bad = {"failed": Emphasis.BAD, "missed": Emphasis.WARN}
    emphases = {
        state: bad.get(state, Emphasis.PLAIN) if counts[state] else Emphasis.PLAIN
        for state in states
    }
    return [
        Field(name),
        Field(str(len(of))),
        *(Field(str(counts[state]), emphasis=emphases[state]) for state in states),
        trials,
    ]


def _cost(of: pd.DataFrame) -> Field:
    told = of[of["cost"].notna()]
    if told.empty:
        return text(None)
    sums = told.groupby("currency")["cost"].sum()
    return Field(", ".join(str(Money(float(amount), str(unit))) for unit, amount in sums.items()))


def gaps_table(planned: pd.DataFrame) -> Table | None:
    """Return the sessions without results, with the reason; None without any."""
    gaps = planned[planned["state"].isin(["failed", "missed"])]
    if gaps.empty:
        return None
    rows = [
        [
            Field(str(row["session"])),
            Field(str(row["platform"])),
            Field(
                str(row["state"]),
                emphasis=Emphasis.BAD if row["state"] == "failed" else Emphasis.WARN,
            ),
            text(known(row["why"])),
        ]
        for row in gaps.head(MOST_ROWS).to_dict("records")
    ]
    heads = ("session", "platform", "became", "why")
    note = "These are gaps: no number or figure below fills them."
    return Table("Sessions without a result", [Column(h) for h in heads], rows, more(gaps, note))


def away_table(gaps: pd.DataFrame) -> Table | None:
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


def known_table(planned: pd.DataFrame) -> Table | None:
    """Return the cells that the stopping rule made sessions skip; None without any."""
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


def known(value: Any) -> Any:
    """Return a value of a frame, None where it is missing."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    return value


def more(table: pd.DataFrame, note: str) -> str:
    """Return the note on hidden rows of a table."""
    left = len(table) - MOST_ROWS
    told = f"The first {MOST_ROWS} rows; {left} more are in the CSV files."
    return f"{note} {told}".strip() if left > 0 else note
