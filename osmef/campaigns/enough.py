"""When what is known of a cell is enough."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from osmef.analysis.looks import is_known
from osmef.campaigns.model import StopRule
from osmef.results.rundir import RunDirectory


def session_medians(directory: Path, metric: str) -> dict[str, float | None]:
    """Return the result of a session: the median over the trials of each cell, None without any.

    Raises InputError where its summary is damaged, or of a newer version.
    """
    if not (directory / "summary.json").exists():
        return {}
    cells = RunDirectory(directory).read_summary().cells
    return {
        cell.key: cell.metrics[metric].median if metric in cell.metrics else None for cell in cells
    }


def known_cells(rule: StopRule, medians: Mapping[str, Sequence[float]]) -> set[str]:
    """Return the cells whose median is known well enough, from those of the sessions.

    The interval of the median over sessions holds although it is looked at after each of them
    (``lasting_interval``): with the exact one of a single look, a campaign would stop as soon as
    chance makes it narrow, such as after some sessions that all met the rarer one of two kinds of
    hosts. It assumes that sessions are independent. A cell that has the metric in too few sessions
    is not known.
    """
    return {cell for cell, values in medians.items() if _is_narrow(rule, values)}


def _is_narrow(rule: StopRule, values: Sequence[float]) -> bool:
    known = [value for value in values if math.isfinite(value)]
    return len(known) >= rule.minimum and is_known(known, rule.width_percent / 100)
