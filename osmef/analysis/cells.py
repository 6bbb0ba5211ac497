"""Descriptive statistics of each cell in a frame of trials."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from osmef.analysis.describe import describe
from osmef.results.summary import Metric


def describe_cells(
    trials: pd.DataFrame, metrics: Sequence[str], by: Sequence[str] = ("cell",)
) -> pd.DataFrame:
    """Return one row a cell and metric: the columns of ``by``, ``metric``, and those of ``Metric``.

    ``trials`` are those of ``osmef.load``, one row a trial; NaN is unknown and not counted, as are
    metrics of a failed trial. Cells stand in the order in which they first occur. Numbers are in
    the metric's unit, ``cov_percent`` is in percent. Raises KeyError for a column that is not
    there, and ValueError for an infinite value. Assumed is what ``describe`` assumes: that the
    trials of a cell are independent.

    Source: that of ``describe``.
    """
    rows = [
        {**dict(zip(by, key, strict=True)), "metric": name, **_described(cell[name])}
        for key, cell in trials.groupby(list(by), sort=False, dropna=False)
        for name in metrics
    ]
    return pd.DataFrame(rows, columns=pd.Index([*by, "metric", *Metric.model_fields]))


def _described(values: pd.Series) -> dict[str, object]:
    return describe(values.dropna().astype("float64").tolist()).model_dump()
