"""Overhead of layers: ratios of a metric to the reference without layer of the same block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from osmef.analysis.effects import median_ratio
from osmef.analysis.hypothesis_tests import Paired, blocks, holm, mann_whitney, paired_ratio
from osmef.analysis.replication import (
    PLACE,
    PLATFORM,
    fill_platforms,
    has_pairs,
    independent,
    platform_columns,
)
from osmef.errors import InputError
from osmef.results.frame import measures_of, swept_of
from osmef.results.measure import BIT_RATE, Better, Measure
from osmef.results.summary import CPU_PER_GB

LAYER = "layer"
REFERENCE = "bare"

_BOTH_CPUS = ("endpoint_cpu_sender_percent", "endpoint_cpu_receiver_percent")
_BITS_OF_GB = 8e9
_TIMES = {"us", "ms", "s"}

_NUMBERS = ("reference_median", "median", "ratio", "ratio_low", "ratio_high", "p", "p_holm")


def comparable(trials: pd.DataFrame) -> tuple[pd.DataFrame, list[Measure]]:
    """Return trials of ``osmef.load`` and the measures by which their layers are compared.

    They are the rates and times that tables show, and, if known, the CPU time for each GB in s/GB,
    which is an added column; a trial that transferred nothing has none.

    Assumed is that nothing else runs on the endpoints: CPU time of other programs counts, too.

    Source: proc(5), ``/proc/stat``; the CPU time for each GB: OSMeF.
    """
    known = measures_of(trials)
    found = [
        one
        for one in known.values()
        if one.better is not Better.NEITHER
        and (one.leading or (one.head is not None and (one.is_rate or one.unit in _TIMES)))
    ]
    rate = next((one.name for one in found if one.leading and one.unit == BIT_RATE), None)
    if rate is None or not set(_BOTH_CPUS) <= set(known):
        return trials, found
    seconds = trials[list(_BOTH_CPUS)].sum(axis=1, skipna=False) / 100
    per_gb = seconds / (trials[rate].where(trials[rate] > 0) / _BITS_OF_GB)
    return trials.assign(**{CPU_PER_GB.name: per_gb}), [*found, CPU_PER_GB]


def layer_overheads(
    trials: pd.DataFrame,
    metrics: Sequence[str],
    reference: str = REFERENCE,
    column: str = LAYER,
) -> pd.DataFrame:
    """Return the ratio of a metric with each layer to that without: a row a layer and metric.

    ``trials`` are those of ``osmef.load`` with a column ``column`` of texts, such as "bare",
    "vxlan" or "container+vxlan"; each layer is compared with ``reference`` where all else that was
    swept, the platform and the achieved place are the same: ``attrs["by"]`` names these columns.
    Others: metric, layer, reference; n, and unit, what it counts; method; reference_median and
    median over all trials, in the metric's unit; ratio, layer to reference, with ratio_low and
    ratio_high, its 95 % interval; p of a ratio of 1, and p_holm over the whole table. NaN is
    unknown.

    Where a run has blocks the two trials of a block are compared ("paired", ``paired_ratio``; unit
    "blocks"), and with several pairs of endpoints the medians of each pair (unit "pairs"). Of
    several runs, whose blocks share their machines, each counts as one, with the median of its
    ratios (unit "runs"). One run without blocks is compared as two samples ("unpaired",
    ``median_ratio`` and ``mann_whitney``; unit "trials" or "pairs", n the smaller one). A layer
    that transfers nothing has a rate of 0, and so a ratio of 0; to a trial of the reference with 0
    there is no ratio, and n does not count it. Raises InputError where no trial is of the
    reference.

    Assumed is what these functions assume.

    Source: those of ``paired_ratio`` and ``median_ratio``; the question: Kratzke, "About
    Microservices, Containers and their Underestimated Impact on Network Performance", 2015.
    """
    if column not in trials or not trials[column].eq(reference).any():
        raise InputError(
            f"no trial is of the layer {reference!r}, so there is nothing to compare others with",
            cure=f"measure {reference!r} in the same run, or name another reference",
        )
    known = fill_platforms(trials)
    apart = [name for name in (*PLATFORM, *PLACE) if name in platform_columns(
        known.assign(cell=known[column]), columns=(*PLATFORM, *PLACE))]  # fmt: skip
    others = [*apart, *(name for name in swept_of(trials) if name not in {column, *apart})]
    found = [
        row
        for key, rows in _groups(known, others)
        for metric in metrics
        if metric in rows
        for row in _costs(rows, metric, reference, column, key)
    ]
    for row, p in zip(found, holm([row["p"] for row in found]), strict=True):
        row["p_holm"] = p
    names = [*others, "metric", column, "reference", "n", "unit", "method", *_NUMBERS]
    table = pd.DataFrame(found, columns=pd.Index(names)).astype(dict.fromkeys(_NUMBERS, "float64"))
    table.attrs["by"] = others
    return table


def _groups(
    trials: pd.DataFrame, others: Sequence[str]
) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    if not others:
        yield {}, trials
        return
    for key, rows in trials.groupby(list(others), sort=False, dropna=False):
        yield dict(zip(others, key, strict=True)), rows


def _costs(
    rows: pd.DataFrame, metric: str, reference: str, column: str, key: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    known = rows[rows[metric] >= 0]
    base = known[known[column] == reference]
    for layer in known[column].dropna().unique():
        mine = known[known[column] == layer]
        if layer == reference or base.empty:
            continue
        unit, method, comparison = _compared(mine, base[base[metric] > 0], metric)
        yield {
            **key,
            "metric": metric,
            column: layer,
            "reference": reference,
            "n": comparison.n,
            "unit": unit,
            "method": method,
            "reference_median": float(base[metric].median()),
            "median": float(mine[metric].median()),
            "ratio": comparison.value,
            "ratio_low": comparison.interval.low,
            "ratio_high": comparison.interval.high,
            "p": comparison.p,
        }


def _compared(mine: pd.DataFrame, base: pd.DataFrame, metric: str) -> tuple[str, str, Paired]:
    """Return what n counts, how it was compared, and the ratio."""
    both = pd.concat([mine.assign(cell="layer"), base.assign(cell="reference")])
    runs: list[object] = list(both["run"].unique()) if "run" in both else []
    if len(runs) > 1:
        ratios = [_of_run(both[both["run"] == run], metric) for run in runs]
        known = [ratio for ratio in ratios if ratio is not None]
        return "runs", "paired", paired_ratio(known, [1.0] * len(known))
    values = blocks(both, metric)
    on_pairs = has_pairs(both)
    if {"layer", "reference"} <= set(values.columns) and len(whole := values.dropna()):
        comparison = paired_ratio(whole["layer"].tolist(), whole["reference"].tolist())
        return "pairs" if on_pairs else "blocks", "paired", comparison
    first, second = (
        independent(of, metric, by_session=on_pairs and not has_pairs(of)) for of in (mine, base)
    )
    ratio = median_ratio(first, second)
    n = min(len(first), len(second))
    comparison = Paired(n, ratio.value, ratio.interval, mann_whitney(first, second).p)
    return "pairs" if on_pairs else "trials", "unpaired", comparison


def _of_run(both: pd.DataFrame, metric: str) -> float | None:
    """Return the ratio in one run: the median over its blocks, else that of its medians."""
    values = blocks(both, metric)
    if {"layer", "reference"} <= set(values.columns) and len(whole := values.dropna()):
        with np.errstate(divide="ignore"):  # of 0
            return math.exp(np.median(np.log(whole["layer"] / whole["reference"])))
    medians = both.groupby("cell")[metric].median()
    if len(medians) < 2:
        return None
    return float(medians["layer"] / medians["reference"])
