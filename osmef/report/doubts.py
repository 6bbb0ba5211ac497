"""What to think of a number: what ``osmef.analysis.trust`` doubts, and whether there are enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def doubts_of(row: Mapping[Any, Any], error_percent: float = 5.0) -> str:
    """Return what to think of a row of ``trust`` in words, the first doubt first; "" for none.

    ``error_percent`` is that for which ``repetitions`` are needed: a median that fewer values give
    may be further off, whatever its interval says of the noise.
    """
    needed, n = row["repetitions"], row["n"]
    found = []
    if isinstance(needed, float | int) and isinstance(n, int) and needed > n:  # NaN is not
        found.append(f"too few for ±{error_percent:g} %: {n} of {needed:.0f}")
    return "; ".join([*found, *filter(None, [str(row["doubts"])])])
