"""The figure of what limited the connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.patches import Rectangle

from osmef.errors import NothingToDrawError
from osmef.report.data import limits_of
from osmef.report.options import PLAIN
from osmef.report.style import broken, write
from osmef.report.summary import LIMITS
from osmef.report.throughput import limits
from osmef.results.summary import CellInfo, Summary
from osmef.results.trial import Limit
from tests.report.drawn import legend, visible

MakeTrials = Callable[..., pd.DataFrame]


def drawn(
    make_trials: MakeTrials,
    make_cell: Callable[..., CellInfo],
    make_summary: Callable[..., Summary],
    *verdicts: Mapping[Limit, int],
) -> tuple[list[str], list[str], list[list[float]]]:
    """Return the legend, the names of the bars, and the widths of each limit's parts."""
    cells = [make_cell(connections=n, limited_by=found) for n, found in enumerate(verdicts, 1)]
    trials = pd.concat([make_trials(connections=n) for n in range(1, len(verdicts) + 1)])
    figure = limits(limits_of({trials["run"].iloc[0]: make_summary(*cells)}), trials)
    (axes,) = visible(figure)
    widths = [
        [bar.get_width() for bar in bars if isinstance(bar, Rectangle)] for bars in axes.containers
    ]
    return legend(figure), [text.get_text() for text in axes.get_yticklabels()], widths


@pytest.fixture
def draw(
    make_trials: MakeTrials,
    make_cell: Callable[..., CellInfo],
    make_summary: Callable[..., Summary],
) -> Callable[..., tuple[list[str], list[str], list[list[float]]]]:
    return lambda *verdicts: drawn(make_trials, make_cell, make_summary, *verdicts)


Draw = Callable[..., tuple[list[str], list[str], list[list[float]]]]


def test_a_bar_a_cell_and_a_legend_of_what_was_found(draw: Draw) -> None:
    names, bars, widths = draw({Limit.NETWORK: 6}, {Limit.NETWORK: 20, Limit.SENDER_CPU: 60})
    assert names == ["sender CPU", "network"]
    assert bars == ["connections 1", "connections 2"]
    assert widths == [[0, 75], [100, 25]]


def test_every_limit_has_a_look(draw: Draw) -> None:
    names, _, widths = draw(dict.fromkeys(Limit, 1))
    assert set(names) == {LIMITS[limit] for limit in Limit}
    assert sum(width for (width,) in widths) == pytest.approx(100)


def test_cells_without_a_verdict_are_left_out(draw: Draw) -> None:
    assert draw({}, {Limit.NETWORK: 6})[1] == ["connections 2"]
    with pytest.raises(NothingToDrawError, match="what limited them"):
        draw({}, {})


def test_long_names_leave_room_for_the_bars(
    make_trials: MakeTrials,
    make_cell: Callable[..., CellInfo],
    make_summary: Callable[..., Summary],
    tmp_path: Path,
) -> None:
    cells = [
        make_cell(key=f"cell {n}", limited_by={Limit.NETWORK: 1}, values={"long": "word " * 40})
        for n in range(2)
    ]
    trials = pd.concat([make_trials(cell=f"cell {n}", long=f"word {n} " * 30) for n in range(2)])
    figure = limits(limits_of({trials["run"].iloc[0]: make_summary(*cells)}), trials)
    write(figure, tmp_path / "limits.svg")
    (axes,) = visible(figure)
    assert axes.get_window_extent().width > 0.3 * figure.bbox.width
    assert "\n" in axes.get_yticklabels()[0].get_text()


def test_sessions_of_a_platform_are_one_bar(
    make_trials: MakeTrials,
    make_cell: Callable[..., CellInfo],
    make_summary: Callable[..., Summary],
) -> None:
    found = {"r1": {Limit.NETWORK: 6}, "r2": {Limit.NETWORK: 2, Limit.SENDER_CPU: 8}}
    cell = make_cell()
    trials = pd.concat(
        make_trials(run=run, session=run, platform="p", cell=cell.key) for run in found
    )
    summaries = {run: make_summary(make_cell(limited_by=of)) for run, of in found.items()}
    (axes,) = visible(limits(limits_of(summaries), trials))
    bars = [bar for part in axes.containers for bar in part if isinstance(bar, Rectangle)]
    widths = [bar.get_width() for bar in bars]
    assert widths == [50, 50]


def test_more_bars_than_can_be_seen_are_refused(draw: Draw) -> None:
    with pytest.raises(NothingToDrawError, match="301 cells are too many"):
        draw(*[{Limit.NETWORK: 1}] * 301)


def test_long_names_are_broken_between_settings() -> None:
    names, lines = broken(["different hosts, different tenants, connections 8", "all"], PLAIN)
    assert names == ["different hosts, different tenants,\nconnections 8", "all"]
    assert lines == 2
    assert broken(["x" * 50], PLAIN)[1] == 2
