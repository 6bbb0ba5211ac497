"""What to think of a number: what ``osmef.analysis.trust`` doubts, and whether there are enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from osmef.analysis.contention import contended

if TYPE_CHECKING:
    import pandas as pd  # slow to load


def doubts_of(
    row: Mapping[Any, Any], error_percent: float = 5.0, busy: Mapping[str, str] | None = None
) -> str:
    """Return what to think of a row of ``trust`` in words, the first doubt first; "" for none.

    ``error_percent`` is that for which ``repetitions`` are needed: a median that fewer values give
    may be further off, whatever its interval says of the noise. ``busy`` is what ``busy_cells``
    tells.
    """
    needed, n = row["repetitions"], row["n"]
    found = []
    if isinstance(needed, float | int) and isinstance(n, int) and needed > n:  # NaN is not
        found.append(f"too few for ±{error_percent:g} %: {n} of {needed:.0f}")
    if others := (busy or {}).get(str(row.get("cell"))):
        found.append(others)
    return "; ".join([*found, *filter(None, [str(row["doubts"])])])


def busy_cells(cells: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Return what others took of the CPUs of each cell's endpoints, where it was much.

    ``cells`` has the trials of each by its name.
    """
    told = {
        cell: contended(*(_known(trials, f"cpu_{name}_percent") for name in ("others", "steal")))
        for cell, trials in cells.items()
    }
    return {cell: words for cell, words in told.items() if words}


def _known(trials: pd.DataFrame, name: str) -> list[float]:
    return [float(value) for value in trials[name].dropna()] if name in trials else []
