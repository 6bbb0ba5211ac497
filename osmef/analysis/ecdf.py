"""The distribution function of a sample, with a band that assumes no shape."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from osmef.analysis.quantiles import check, finite


@dataclass(frozen=True)
class Ecdf:
    """The empirical distribution function: which share of a sample is at most a value.

    Four arrays of one length: ``values``, the different ones in order and in their unit; ``share``
    of the sample up to each; ``low`` and ``high``, a band that holds the whole true function.
    """

    values: npt.NDArray[np.float64]
    share: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


def ecdf(values: Iterable[float], confidence: float = 0.95) -> Ecdf:
    """Return the empirical distribution function of a sample with its confidence band.

    ``values`` are n >= 1 observations of one unit. Assumed is that they are independent and of one
    distribution, of any shape. The band is share +- sqrt(ln(2 / (1 - confidence)) / 2n), cut at 0
    and 1; it holds the whole function at once, so it is wider than the interval of one quantile.
    Raises ValueError for none, for a value that is not finite, and for a confidence outside (0, 1).

    Source: Dvoretzky, Kiefer and Wolfowitz, Ann. Math. Statist. 27, 1956, with the constant of
    Massart, Ann. Probab. 18, 1990.
    """
    check(0.5, confidence)
    known = finite(list(values))
    if not known:
        raise ValueError("a distribution function needs at least one value")
    different, counts = np.unique(np.asarray(known), return_counts=True)
    share = np.cumsum(counts) / len(known)
    reach = math.sqrt(math.log(2 / (1 - confidence)) / (2 * len(known)))
    return Ecdf(different, share, np.maximum(share - reach, 0.0), np.minimum(share + reach, 1.0))
