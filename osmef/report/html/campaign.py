"""Page of a campaign: sessions, platforms, windows, and change over time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from osmef.analysis.describe import describe
from osmef.report import seasons
from osmef.report.campaign import CampaignData, of_section, sections
from osmef.report.html.campaign_course import away_table, calendar_table, gaps_table, known_table
from osmef.report.html.campaign_tables import (
    contrasts_table,
    course_table,
    pairs_table,
    platforms_table,
    sessions_table,
    windows_table,
)
from osmef.report.html.figures import Drawn
from osmef.report.html.shell import check_output, fill, write_page
from osmef.report.html.svg import inline_svg
from osmef.report.html.table import Table, scale_of
from osmef.report.look import Look
from osmef.report.series import short_cells

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
        gaps=None if planned is None else gaps_table(planned),
        known=None if planned is None else known_table(planned),
        away=away_table(data.gaps),
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
    svg = inline_svg(seasons.calendar(planned), "calendar-", words)
    return Drawn("calendar", "The state of each session, by platform and window", svg)


def _sections(data: CampaignData, these: list[tuple[str, str]]) -> Iterator[Section]:
    names, _shared = short_cells({cell: None for cell, _metric in these})
    for number, (cell, metric) in enumerate(these, start=1):
        platforms = of_section(data.platforms, cell, metric)
        scale = scale_of(data.measures[metric], [describe(platforms["median"].tolist())])
        title = f"{scale.words[0].upper()}{scale.words[1:]}"
        title += f", {names[cell]}" if len(names) > 1 else ""
        look = Look(of=names[cell] if len(names) > 1 else "")
        figures = list(_figures(data, cell, metric, number, look)) if number <= _MOST_DRAWN else []
        results = sessions_table(of_section(data.sessions, cell, metric), platforms, scale)
        yield Section(number, title, list(_tables(data, cell, metric)), results, figures)


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
    figure = seasons.course(rows, data.planned, look)
    svg = inline_svg(figure, f"c{number}-", f"Over time. {words}")
    yield Drawn("course", "Session results over time", svg)
    medians = of_section(data.windows, cell, metric)
    if medians["window"].nunique() > 1:
        svg = inline_svg(seasons.windows(medians, look), f"w{number}-", f"By window. {words}")
        yield Drawn("windows", "Platforms by window", svg)
