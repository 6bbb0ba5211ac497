"""Which flavor and placement meet given needs, with the evidence and what is missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from osmef.analysis.describe import describe
from osmef.analysis.price import known_prices
from osmef.results.summary import Metric

OPTION = (
    "provider",
    "sender_flavors",
    "receiver_flavors",
    "achieved_placement",
    "achieved_tenancy",
)
"""What tells one option from another, of the columns of ``osmef.load``."""

BTC = "aggregate_btc_bps"
RTT = "rtt_p50_us"


class Fit(StrEnum):
    """How well an option meets the needs, the best first."""

    YES = "yes"
    LIKELY = "likely"
    UNKNOWN = "unknown"
    NO = "no"


@dataclass(frozen=True)
class Needs:
    """What is needed; None where it does not matter.

    ``btc_bps``: aggregate BTC of at least this, with ``connections`` parallel connections;
    ``rtt_us``: a median round trip of at most this; ``price_per_hour``: all machines of the option
    together cost at most this, in the currency of the prices.
    """

    btc_bps: float | None = None
    rtt_us: float | None = None
    connections: int | None = None
    price_per_hour: float | None = None


def recommend(
    trials: pd.DataFrame,
    needs: Needs,
    prices: pd.DataFrame | None = None,
    by: Sequence[str] = OPTION,
) -> pd.DataFrame:
    """Return the options that were measured, the best first, with the evidence for each.

    ``trials`` are those of ``osmef.load``, ``prices`` as in ``price_performance``; an option is
    what ``by`` tells apart. Columns: those of ``by``; fit, a ``Fit``; btc and rtt, each with _n,
    _median, _low and _high (the exact 95 % interval), bit/s and microseconds; price_per_hour of all
    flavors in ``sender_flavors`` and ``receiver_flavors``, NaN if one is unknown; missing, what was
    not measured or is not known, in words.

    A need is met where the whole interval meets it, likely where the median does but not all of the
    interval, or there is none, and not met otherwise; an option is as good as its worst need. They
    are ranked by fit, then price, unknown ones last, then BTC. Assumed is that what was measured
    will be so again: see ``variability`` for how far that holds. Raises InputError as
    ``price_performance``.
    """
    rows = []
    for key, group in trials.groupby(list(by), sort=False, dropna=False):
        option = dict(zip(by, key, strict=True))
        rows.append({**option, **_judged(group, needs, _price(option, prices))})
    table = pd.DataFrame(rows)
    if table.empty:
        return table
    order = {fit: i for i, fit in enumerate(Fit)}
    table = table.assign(_fit=table["fit"].map(order), _btc=-table["btc_median"])
    table = table.sort_values(["_fit", "price_per_hour", "_btc"], kind="stable", ignore_index=True)
    return table.drop(columns=["_fit", "_btc"])


def _judged(group: pd.DataFrame, needs: Needs, price: float) -> dict[str, object]:
    at = group
    if needs.connections is not None:
        at = group[(group["connections"] == needs.connections).fillna(False).astype(bool)]
    btc, rtt = _described(at, BTC), _described(group, RTT)
    fits, missing = [], []
    wanted = ((needs.btc_bps, btc, "BTC", 1), (needs.rtt_us, rtt, "RTT", -1))
    for need, metric, name, sign in wanted:
        if need is not None:
            fits.append(_fit(metric, need, sign))
            if metric.n == 0:
                missing.append(f"{name}{_where(group, needs) if sign > 0 else ''}")
            elif metric.ci95_reason:
                missing.append(f"interval of the {name}: {metric.ci95_reason}")
    if needs.price_per_hour is not None:
        fits.append(_affordable(price, needs.price_per_hour))
        missing += ["price"] if math.isnan(price) else []
    worst = max(fits, key=list(Fit).index, default=Fit.YES)
    return {
        "fit": worst,
        **_evidence("btc", btc),
        **_evidence("rtt", rtt),
        "price_per_hour": price,
        "missing": "; ".join(missing),
    }


def _fit(metric: Metric, need: float, sign: int) -> Fit:
    """Judge a metric of which at least the need is wanted, or at most with a sign of -1."""
    if metric.median is None:
        return Fit.UNKNOWN
    if sign * (metric.median - need) < 0:
        return Fit.NO
    end = metric.ci95_low if sign > 0 else metric.ci95_high
    return Fit.YES if end is not None and sign * (end - need) >= 0 else Fit.LIKELY


def _affordable(price: float, budget: float) -> Fit:
    if math.isnan(price):
        return Fit.UNKNOWN
    return Fit.YES if price <= budget else Fit.NO


def _where(group: pd.DataFrame, needs: Needs) -> str:
    if needs.connections is None:
        return ""
    measured = sorted({int(count) for count in group["connections"].dropna()})
    seen = ", ".join(map(str, measured)) or "none"
    return f" with {needs.connections} connections (measured: {seen})"


def _described(group: pd.DataFrame, metric: str) -> Metric:
    return describe(group[metric].dropna().tolist() if metric in group else [])


def _evidence(name: str, metric: Metric) -> dict[str, object]:
    def known(value: float | None) -> float:
        return math.nan if value is None else value

    return {
        f"{name}_n": metric.n,
        f"{name}_median": known(metric.median),
        f"{name}_low": known(metric.ci95_low),
        f"{name}_high": known(metric.ci95_high),
    }


def _price(option: dict[str, object], prices: pd.DataFrame | None) -> float:
    if prices is None:
        return math.nan
    known = known_prices(prices).set_index(["provider", "flavor"])["price_per_hour"]
    flavors = _flavors(option.get("sender_flavors"), option.get("receiver_flavors"))
    found = [known.get((option.get("provider"), flavor), math.nan) for flavor in flavors]
    return math.fsum(found) if found else math.nan


def _flavors(*texts: object) -> Iterable[str]:
    return [name for text in texts if isinstance(text, str) for name in text.split(",")]
