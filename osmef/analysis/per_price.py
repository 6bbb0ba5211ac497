"""Price-performance of one result."""

from __future__ import annotations

import re
from collections.abc import Sequence

from osmef.analysis.direction import Direction, direction

_RATE = re.compile(r"_bps$|_per_s$")


def per_price(metric: str, value: float | None, hourly: Sequence[float]) -> float | None:
    """Return a result over the hourly price of the VM that gave it: price-performance.

    ``hourly`` are the prices of all VMs that took part, in one currency; with several prices it is
    their mean, so that a pair of equal VMs has the price of one of them, as Deval has it. The unit
    is that of the value for a unit of the currency an hour. None for what is no rate that is better
    higher, and where anything is unknown.

    Assumed is that all VMs were needed for the result alike.

    Source: Deval, 2017, section 5.2.
    """
    good = direction(metric) is Direction.HIGHER and _RATE.search(metric)
    if not good or value is None or not hourly:
        return None
    return value / (sum(hourly) / len(hourly))
