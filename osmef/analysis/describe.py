"""A metric over the trials of a cell: location, spread, and an interval that assumes little."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from osmef.results.summary import Metric


@dataclass(frozen=True)
class MedianInterval:
    """An interval of the median, in the unit of the values.

    ``coverage`` is the exact probability, at least the wanted confidence, that such an interval
    holds the true median. Where no interval exists, the numbers are None and ``reason`` says why.
    """

    low: float | None
    high: float | None
    coverage: float | None
    reason: str | None = None


def median_interval(values: Sequence[float], confidence: float = 0.95) -> MedianInterval:
    """Return the exact order-statistic interval [X(k), X(n+1-k)] of the median.

    ``values`` are n observations of any one unit, in any order. Assumed is only that they are
    independent and of one continuous distribution, whatever its shape; ties make the interval
    wider than it need be. The number of observations under the median is then binomial (n, 1/2),
    so the coverage is 1 - 2 P(B <= k - 1); k is the largest that keeps it at the wanted confidence.
    For 95 % at least 6 observations are needed (1 - 2/2^6 = 96.9 %). Raises ValueError for a value
    that is not finite and for a confidence outside (0, 1).

    Source: David and Nagaraja, "Order Statistics", 3rd ed., 2003, section 7.1; Le Boudec,
    "Performance Evaluation of Computer and Communication Systems", 2010, theorem 2.1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies between 0 and 1, and {confidence!r} does not")
    # scipy takes a third of a second to load, and most commands describe nothing
    from scipy.special import bdtr  # noqa: PLC0415

    ordered = sorted(_finite(values))
    n = len(ordered)
    k = interval_rank(n, confidence)
    if k == 0:
        needed = max(2, math.ceil(1 - math.log2(1 - confidence)))
        reason = f"n = {n}; {100 * confidence:g} % needs n >= {needed}"
        return MedianInterval(None, None, None, reason)
    return MedianInterval(ordered[k - 1], ordered[n - k], 1 - 2 * float(bdtr(k - 1, n, 0.5)))


@lru_cache(maxsize=1024)
def interval_rank(n: int, confidence: float = 0.95) -> int:
    """Return k of the interval [X(k), X(n+1-k)] of the median of n values; 0 where there is none.

    See ``median_interval``.
    """
    import numpy as np  # noqa: PLC0415 - slow to load
    from scipy.special import bdtr  # noqa: PLC0415

    tails = 2 * bdtr(np.arange(n // 2), n, 0.5)
    return int(np.count_nonzero(1 - tails >= confidence))


def describe(values: Iterable[float | None]) -> Metric:
    """Return the metric of the values of a cell's trials; ``n`` counts those that are not None.

    The interval is ``median_interval`` at 95 %. Raises ValueError for a value that is not finite.
    """
    known = _finite([value for value in values if value is not None])
    interval = median_interval(known)
    mean = statistics.fmean(known) if known else None
    stdev = statistics.stdev(known) if len(known) > 1 else None
    return Metric(
        n=len(known),
        median=statistics.median(known) if known else None,
        mean=mean,
        stdev=stdev,
        cov_percent=100 * stdev / mean if mean and stdev is not None else None,
        min=min(known, default=None),
        max=max(known, default=None),
        ci95_low=interval.low,
        ci95_high=interval.high,
        ci95_reason=interval.reason,
    )


def _finite(values: Sequence[float]) -> list[float]:
    for value in values:
        if not math.isfinite(value):
            raise ValueError(f"an observation must be finite, and {value!r} is not")
    return [float(value) for value in values]
