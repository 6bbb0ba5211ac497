"""The measures that workloads and importers declare, for tests that make results by hand."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from osmef.importers import MEASURES
from osmef.results.frame import describe_columns
from osmef.results.measure import Measure, merge_measures, of_background
from osmef.results.summary import CellInfo
from osmef.workloads import siege
from osmef.workloads.kinds import btc, latency, size_sweep, udp

WORKLOADS = {
    "btc": btc.BOTH_WAYS,
    "latency": (*latency.MEASURES, *latency.BESIDE),
    "size-sweep": size_sweep.MEASURES,
    "udp": udp.BOTH_WAYS,
    "pingpong": siege.MEASURES,
}
_EVERY = merge_measures([*WORKLOADS.items(), *MEASURES.items()])
_BACKGROUND = {one.name: one for one in map(of_background, _EVERY.values())}


def measures(*names: str) -> list[Measure]:
    """Return the measures of these names, in the order in which they are declared."""
    every = {**_EVERY, **_BACKGROUND}
    unknown = set(names) - every.keys()
    assert not unknown
    return [one for one in every.values() if one.name in names]


def measure(name: str) -> Measure:
    """Return the measure of a name."""
    (found,) = measures(name)
    return found


def with_measures(frame: pd.DataFrame, swept: Iterable[str] = ()) -> pd.DataFrame:
    """Return a frame with the declared measures of its columns."""
    return describe_columns(frame, [*_EVERY.values(), *_BACKGROUND.values()], swept)


def measures_in(cells: Iterable[CellInfo], others: Iterable[Measure] = ()) -> list[Measure]:
    """Return the measures of the metrics of cells: ``others``, else the declared ones."""
    more = {one.name: one for one in others}
    names = {name for cell in cells for name in cell.metrics}
    return [*measures(*(names - more.keys())), *more.values()]
