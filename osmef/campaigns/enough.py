"""When what is known of a platform is enough."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from osmef.analysis.quantiles import quantile_interval
from osmef.campaigns.model import StopRule


def is_enough(rule: StopRule, directories: Sequence[str]) -> bool:
    """Tell whether the median of every cell is known well enough, from the runs of a platform.

    A session's result is the median of its trials. The exact interval of the median over sessions
    assumes that they are independent. A cell that has the metric in too few sessions is not known.
    """
    there = [path for path in directories if (Path(path) / "summary.json").exists()]
    if len(there) < rule.minimum:
        return False
    # pandas takes a while to load
    from osmef.results.frame import load  # noqa: PLC0415

    trials = load(*there)
    if rule.metric not in trials:
        return False
    results = trials.groupby(["cell", "session"])[rule.metric].median()
    return all(_is_narrow(rule, list(values)) for _, values in results.groupby(level="cell"))


def _is_narrow(rule: StopRule, values: Sequence[float]) -> bool:
    known = [value for value in values if math.isfinite(value)]
    if len(known) < rule.minimum:
        return False
    found, middle = quantile_interval(known), statistics.median(known)
    if found.low is None or found.high is None:
        return False
    return 100 * (found.high - found.low) <= rule.width_percent * abs(middle)
