"""Data of a campaign's report: all its frames, and their CSV files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pandas as pd

from osmef.analysis.seasons import (
    change_table,
    contrast_table,
    course_table,
    pair_table,
    platform_table,
    price_table,
    session_table,
    spread_table,
    with_stretches,
)
from osmef.errors import InputError
from osmef.report.cells import chosen, leading, measured
from osmef.report.data import read_table
from osmef.results.files import storage, write_atomically
from osmef.results.frame import described_like, measures_of
from osmef.results.measure import Better, Measure

PLANNED = (
    *("platform", "session", "window", "opens", "state"),
    *("day", "trials_ok", "trials_failed", "cost", "currency", "why", "left_out"),
)
"""Of each session of the calendar: what it was to measure, when (UTC), and what became of it."""

GAPS = ("since", "until", "why")
"""Of each time in which nobody conducted a campaign: when (UTC), and why."""

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
        """``price_table``, without metrics that are better lower."""
        lower = self.platforms["metric"].map(
            lambda name: self.measures[name].better is Better.LOWER
        )
        return price_table(self.platforms[~lower], self.prices)

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

    The price stands under ``price_per_hour`` with ``currency``, or under one such as
    ``usd_per_hour``; an empty one is unknown. Raises InputError where a column is missing, a price
    is no number, or a platform has two.
    """
    table = read_table(file)
    hourly = [str(name) for name in table.columns if str(name).endswith("_per_hour")]
    if "platform" not in table or len(hourly) != 1:
        raise InputError(
            "a table of prices has the columns platform and usd_per_hour,"
            " or platform, price_per_hour and currency",
            where=str(file),
            cure="name the columns so; swept keys, such as instance_class, may be columns, too",
        )
    table = read_table(file, numbers=hourly).rename(columns={hourly[0]: "price_per_hour"})
    if hourly[0] != "price_per_hour":
        table["currency"] = hourly[0].removesuffix("_per_hour").upper()
    cells = trials.drop_duplicates(["platform", "cell"])
    shared = [str(name) for name in table.columns if name in cells and name not in _PRICE]
    found = cells[list(dict.fromkeys(["platform", "cell", *shared]))].astype("string")
    merged = found.merge(table.astype(dict.fromkeys(shared, "string")), on=shared)
    twice = merged[merged.duplicated(["platform", "cell"])]
    if not twice.empty:
        raise InputError(
            f"{twice.iloc[0]['platform']} has several prices",
            where=str(file),
            cure="add the column of the swept key in which they differ, or keep only one of them",
        )
    merged["price_per_hour"] = merged["price_per_hour"].astype("float64")
    return merged[["platform", "cell", *_PRICE]].astype({"platform": object, "cell": object})


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
    order = {name: place for place, name in enumerate(data.metrics)}
    found = [(str(cell), str(metric)) for cell, metric in pairs.itertuples(index=False)]
    return sorted(found, key=lambda one: (order[one[1]], one[0]))


def of_section(table: pd.DataFrame, cell: str, metric: str) -> pd.DataFrame:
    """Return the rows of one cell and metric."""
    return table[(table["cell"] == cell) & (table["metric"] == metric)]
