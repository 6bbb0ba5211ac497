"""Price-performance of one result."""

from __future__ import annotations

from collections.abc import Sequence

from osmef.results.measure import Better, Measure


def per_price(measure: Measure, value: float | None, hourly: Sequence[float]) -> float | None:
    """Return a result over the hourly price of the VM that gave it: price-performance.

    ``hourly`` are the prices of all VMs that took part, in one currency; with several prices it is
    their mean, so that a pair of equal VMs has the price of one of them, as Deval has it. The unit
    is that of the value for a unit of the currency an hour. None for what is no rate that is better
    higher, and where anything is unknown.

    Assumed is that all VMs were needed for the result alike.

    Source: Deval, 2017, section 5.2.
    """
    good = measure.better is Better.HIGHER and measure.is_rate
    if not good or value is None or not hourly:
        return None
    return value / (sum(hourly) / len(hourly))
