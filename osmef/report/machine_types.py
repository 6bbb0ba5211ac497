"""The vectors of machine types, as a file has them or as runs measured them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from osmef.analysis.replicates import has_sessions, independent
from osmef.analysis.similarity import COMPONENTS, machine_vectors, similarity_matrix
from osmef.report.cells import nothing
from osmef.report.data import Data, read_machines
from osmef.results.summary import EndpointInfo

MEASURED = ("threads", "memory_mb", "network_mb_per_s")
"""The components of a vector that OSMeF's runs tell, of ``COMPONENTS``."""

_BTC = "aggregate_btc_bps"


def similar_machines(data: Data, file: Path | None = None) -> pd.DataFrame:
    """Return how similar machine types are (``similarity_matrix``), of a CSV file or of runs.

    ``attrs["components"]`` says by what: those that a file has columns of; of runs those of
    ``MEASURED`` that every machine type has. Raises InputError for a file that is none, and
    NothingToDrawError where runs know no two machine types, or nothing of both.
    """
    if file is not None:
        measured = read_machines(file)
        return _matrix(measured, [name for name in COMPONENTS if name in measured])
    table = machines_of(data)
    vectors = machine_vectors(table, components=MEASURED)
    known = [name for name in MEASURED if (vectors[name] > 0).all()]
    if len(vectors) < 2 or not known:
        cure = "give runs of two flavors, or a CSV file of measurements with --machines"
        raise nothing("two machine types of which the same is known", cure)
    return _matrix(table, known)


def _matrix(table: pd.DataFrame, components: Sequence[str]) -> pd.DataFrame:
    matrix = similarity_matrix(machine_vectors(table, components=components))
    matrix.attrs["components"] = list(components)
    return matrix


def machines_of(data: Data) -> pd.DataFrame:
    """Return what runs measured of machine types: provider, flavor and ``MEASURED``.

    One row an endpoint has its CPUs and, by its facts, its memory in MB; one row a flavor its rate
    in MB/s: the best median of aggregate BTC of any cell between machines of that flavor, over the
    trials, or the sessions where there are any, without a background. NaN is unknown.
    """
    rows = [
        {
            "provider": summary.run.provider or "unknown",
            "flavor": end.flavor,
            "threads": math.nan if end.vcpus is None else float(end.vcpus),
            "memory_mb": _memory_mb(end),
        }
        for summary in data.summaries.values()
        for end in summary.endpoints
        if end.flavor
    ]
    columns = pd.Index(["provider", "flavor", *MEASURED])
    return pd.DataFrame([*rows, *_rates(data.trials)], columns=columns)


def _memory_mb(end: EndpointInfo) -> float:
    memory = (end.facts.get("before") or {}).get("memory") or {}
    return float(memory.get("total_bytes") or math.nan) / 1e6


def _rates(trials: pd.DataFrame) -> Iterable[dict[str, object]]:
    if _BTC not in trials:
        return []
    alike = trials["sender_flavors"].eq(trials["receiver_flavors"]) & trials["background"].isna()
    one = ~trials["sender_flavors"].str.contains(",", na=True)
    own = trials[alike & one & trials[_BTC].notna()]
    sessions = has_sessions(own)
    keys = [own["provider"].fillna("unknown"), own["sender_flavors"]]
    return [
        {"provider": provider, "flavor": flavor, "network_mb_per_s": best / 8e6}
        for (provider, flavor), group in own.groupby(keys, sort=False)
        if (best := _best(group, by_session=sessions)) is not None
    ]


def _best(group: pd.DataFrame, *, by_session: bool) -> float | None:
    medians = [
        pd.Series(independent(cell, _BTC, by_session=by_session)).median()
        for _, cell in group.groupby(["scenario", "cell"], sort=False)
    ]
    return max(medians, default=None)
