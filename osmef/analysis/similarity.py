"""How similar machine types are, and which ones of other providers come closest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from osmef.errors import InputError

COMPONENT_WORDS = {
    "threads": "threads",
    "cpu_s": "CPU time",
    "memory_mb": "memory",
    "memory_mb_per_s": "memory rate",
    "disk_read_mb_per_s": "disk read",
    "disk_write_mb_per_s": "disk write",
    "network_mb_per_s": "network",
}
COMPONENTS = tuple(COMPONENT_WORDS)
"""EasyCompare's vector: threads at once, Tachyon's seconds, memory and its STREAM triad, IOzone's
reads and writes, iperf's rate."""


def machine_vectors(
    measurements: pd.DataFrame,
    machine: Sequence[str] = ("provider", "flavor"),
    components: Sequence[str] = COMPONENTS,
) -> pd.DataFrame:
    """Return the vector of each machine type: the median of each component's measurements.

    ``measurements`` has the columns of ``machine`` and of ``components``, each in one unit of its
    own; a row may hold any of them, NaN is unknown. One row a machine type, indexed by
    ``machine``; a component that was never measured stays NaN.

    Assumed is that measurements of a component are of one kind, so that their median is typical.

    Source: Kratzke and Quint, "How to Operate Container Clusters more Efficiently?", 2015, equation
    1 (EasyCompare).
    """
    return measurements.groupby(list(machine), sort=False)[list(components)].median()


def similarity_matrix(vectors: pd.DataFrame) -> pd.DataFrame:
    """Return how similar each two of the machine types are, from 0 to 1; with themselves 1.

    ``vectors`` has one row a machine type and one column for each of its m components, all in one
    unit a column; the answer has the machine types as rows and as columns. s(i, j) = 1 - 1/m * sum
    (1 - min(i, j) / max(i, j))^2 over the components: symmetric, and no unit or direction matters.
    It is defined for positive components only: raises InputError with the machine and the component
    of each that is missing, infinite, zero or negative.

    Assumed is that all components matter alike.

    Source: Kratzke and Quint 2015, equation 2.
    """
    values = vectors.to_numpy(dtype="float64")
    odd = [
        f"{_text(vectors.index[i])}: {vectors.columns[j]} is {_amount(values[i, j])}"
        for i, j in np.argwhere(~(np.isfinite(values) & (values > 0)))
    ]
    if odd:
        raise InputError(
            "similarity needs all components above 0:\n" + "\n".join(f"  {one}" for one in odd),
            cure="measure what is missing, or leave out the machine or the component everywhere",
        )
    one, other = values[:, None, :], values[None, :, :]
    apart = 1 - np.minimum(one, other) / np.maximum(one, other)
    similar = 1 - (apart**2).mean(axis=2) if values.shape[1] else np.ones((len(values),) * 2)
    return pd.DataFrame(similar, index=vectors.index, columns=vectors.index)


def counterparts(matrix: pd.DataFrame, provider: str = "provider") -> pd.DataFrame:
    """Return, for each machine type, those of other providers, the most similar first.

    ``matrix`` is that of ``similarity_matrix``; ``provider`` is the level of its index that names
    the provider. Columns: machine and counterpart, each as a text; similarity; rank, from 1, those
    that are equally similar share the better one. Raises KeyError without that level.

    Assumed is what ``similarity_matrix`` assumes.

    Source: OSMeF, with the similarity of Kratzke and Quint, 2015.
    """
    similar = matrix.to_numpy(dtype="float64")
    of = matrix.index.get_level_values(provider)
    rows = [
        {
            "machine": _text(matrix.index[i]),
            "counterpart": _text(matrix.index[j]),
            "similarity": similar[i, j],
        }
        for i in range(len(matrix))
        for j in range(len(matrix))
        if of[i] != of[j]
    ]
    table = pd.DataFrame(rows, columns=pd.Index(["machine", "counterpart", "similarity"]))
    ranks = table.groupby("machine")["similarity"].rank(method="min", ascending=False)
    table["rank"] = ranks.astype("int64")
    order = {_text(name): i for i, name in enumerate(matrix.index)}
    table = table.assign(place=table["machine"].map(order))
    table = table.sort_values(["place", "rank"], kind="stable", ignore_index=True)
    return table.drop(columns="place")


def _text(name: object) -> str:
    return " ".join(map(str, name)) if isinstance(name, tuple) else str(name)


def _amount(value: float) -> str:
    return "missing" if np.isnan(value) else f"{value:g}"
