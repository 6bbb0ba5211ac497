"""Recommendation of flavor and placement for given needs, with the evidence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from osmef.analysis.describe import describe
from osmef.analysis.replication import (
    cell_names,
    describe_replicates,
    fill_platforms,
    has_runs,
    has_sessions,
    is_loopback,
    platform_columns,
)
from osmef.errors import InputError
from osmef.results.observations import MANY_LOST_PERCENT
from osmef.results.summary import MetricSummary

OPTION = (
    "provider",
    "sender_flavors",
    "receiver_flavors",
    "achieved_placement",
    "achieved_tenancy",
)
"""What distinguishes options, of the columns of ``osmef.load``."""

BTC = "aggregate_btc_bps"
RTT = "rtt_p50_us"
LOST = "lost_percent"


class Fit(StrEnum):
    """Rating of an option by how well it meets the needs, the best first."""

    YES = "yes"
    LIKELY = "likely"
    UNKNOWN = "unknown"
    NO = "no"


_ORDER = {fit: rank for rank, fit in enumerate(Fit)}


@dataclass(frozen=True)
class Needs:
    """Requirements of a recommendation; None where it does not matter.

    ``btc_bps``: aggregate BTC of at least this, with ``connections`` parallel connections;
    ``rtt_us``: a median round trip of at most this; ``price_per_hour``: all machines of the option
    together cost at most this, in ``currency``, or whatever the prices are in without it.
    """

    btc_bps: float | None = None
    rtt_us: float | None = None
    connections: int | None = None
    price_per_hour: float | None = None
    currency: str | None = None

    def check(self) -> None:
        """Raise InputError where nothing is needed, or connections without a rate."""
        if self.btc_bps is None and self.connections is not None:
            raise InputError("a number of connections needs a BTC", cure="say which BTC is needed")
        if (self.btc_bps, self.rtt_us, self.price_per_hour) == (None, None, None):
            raise InputError(
                "no requirement is given",
                cure="give at least one of --btc, --rtt and --budget",
            )


@dataclass(frozen=True)
class _Evidence:
    """Evidence of one cell on one need, how many of its trials failed, and what they lost."""

    cell: str
    metric: MetricSummary
    trials: int
    failed: int
    lost_percent: float
    fit: Fit
    price: float
    currency: str | None


def recommend(trials: pd.DataFrame, needs: Needs, by: Sequence[str] = OPTION) -> pd.DataFrame:
    """Return the options that were measured, the best first, with the evidence for each.

    ``trials`` are those of ``osmef.load``; an option is a combination of the columns ``by``. Wishes
    are judged cell by cell, of all cells of an option that were measured between two machines (a
    loopback is no network) and without a background, and the best cell counts: other settings of
    the same option may do worse. Columns: those of ``by``; fit, a ``Fit``; btc and rtt, each with
    _n, _median, _low and _high (the exact 95 % interval), bit/s and microseconds, over the trials
    or, where there are any, sessions, or runs where a cell is of several, _trials and _failed, how
    many trials there were and how many of these failed, and _cell, which one it is; price_per_hour
    of all machines of these cells with currency, NaN and None where unknown; missing, what was not
    measured or is unknown, in words.

    A need is met where the whole interval meets it and no trial failed, likely where the median
    does but not all of the interval, there is none, trials failed or 1 % of the requests of a round
    trip were lost, and not met otherwise; an option is as good as its worst need. They are ranked
    by fit, then price, unknown ones last, then BTC. Assumed is that what was measured will be so
    again: see ``variability`` for how far that holds. The best of many cells is partly so by
    chance. Raises InputError as ``Needs.check``.

    Source: OSMeF; the interval as in Hoefler and Belli, SC 2015, rule 5.
    """
    needs.check()
    trials = fill_platforms(trials)
    if len(trials) and is_loopback(trials).all():
        raise InputError(
            "all trials are of a machine with itself, which says nothing of a network",
            cure="measure from one machine to another",
        )
    trials = trials[~is_loopback(trials)]
    sessions = has_sessions(trials)
    rows = []
    for key, group in trials.groupby(list(by), sort=False, dropna=False):
        option = dict(zip(by, key, strict=True))
        rows.append({**option, **_judged(_without_background(group), needs, by_session=sessions)})
    table = pd.DataFrame(rows)
    if table.empty:
        return table
    table = table.assign(_fit=table["fit"].map(_ORDER), _btc=-table["btc_median"])
    table = table.sort_values(["_fit", "price_per_hour", "_btc"], kind="stable", ignore_index=True)
    return table.drop(columns=["_fit", "_btc"])


def _without_background(group: pd.DataFrame) -> pd.DataFrame:
    return group[group["background"].isna()] if "background" in group else group


def _judged(group: pd.DataFrame, needs: Needs, *, by_session: bool) -> dict[str, object]:
    at = group
    if needs.connections is not None:
        at = group[(group["connections"] == needs.connections).fillna(False).astype(bool)]
    btc = _best(_cells(at, BTC, needs, by_session=by_session), 1)
    rtt = _best(_cells(group, RTT, needs, by_session=by_session), -1)
    fits, missing = [], []
    for need, found, name in ((needs.btc_bps, btc, "BTC"), (needs.rtt_us, rtt, "RTT")):
        if need is None:
            continue
        fits.append(Fit.UNKNOWN if found is None else found.fit)
        if found is None:
            missing.append(f"{name}{_where(group, needs) if name == 'BTC' else ''}")
            continue
        if found.metric.ci95_reason:
            missing.append(f"interval of the {name}: {found.metric.ci95_reason}")
        if found.failed:
            missing.append(f"{found.failed} of {found.trials} trials of the {name} failed")
        if found.lost_percent >= MANY_LOST_PERCENT:
            missing.append(f"{found.lost_percent:.3g} % of the requests were lost")
    used = [one for need, one in ((needs.btc_bps, btc), (needs.rtt_us, rtt))
            if one and need is not None] or [one for one in (btc, rtt) if one]  # fmt: skip
    price, currency = _price(used)
    if needs.price_per_hour is not None:
        fits.append(_affordable(price, currency, needs))
        missing += [_no_price(currency)] if fits[-1] is Fit.UNKNOWN else []
    return {
        "fit": max(fits, key=_ORDER.__getitem__),
        **_evidence("btc", btc),
        **_evidence("rtt", rtt),
        "price_per_hour": price,
        "currency": currency,
        "missing": "; ".join(missing),
    }


def _cells(
    group: pd.DataFrame, metric: str, needs: Needs, *, by_session: bool
) -> Iterator[_Evidence]:
    """Yield the evidence of each cell of an option on a need."""
    need, sign = (needs.btc_bps, 1) if metric == BTC else (needs.rtt_us, -1)
    # At another price it was another offer, such as in another region.
    keys = [name for name in ("scenario", "platform", "price_per_hour", "cell") if name in group]
    names = cell_names(group, platform_columns(group, columns=("platform",)))
    for _key, trials in group.assign(_name=names).groupby(keys, sort=False, dropna=False):
        found = _described(trials, metric, by_session=by_session)
        if found.n == 0:
            continue
        prices = trials["price_per_hour"] if "price_per_hour" in trials else pd.Series([math.nan])
        currencies = set(trials["currency"].dropna()) if "currency" in trials else set()
        price = float(prices.iloc[-1]) if prices.notna().all() else math.nan
        currency = currencies.pop() if len(currencies) == 1 else None
        failed = int((trials["status"] != "ok").sum()) if "status" in trials else 0
        lost = float(trials[LOST].median()) if metric == RTT and LOST in trials else math.nan
        doubtful = bool(failed) or lost >= MANY_LOST_PERCENT
        fit = Fit.YES if need is None else _fit(found, need, sign, doubtful=doubtful)
        if needs.price_per_hour is not None:
            fit = max(fit, _affordable(price, currency, needs), key=_ORDER.__getitem__)
        yield _Evidence(
            str(trials["_name"].iloc[0]), found, len(trials), failed, lost, fit, price, currency
        )


def _described(trials: pd.DataFrame, metric: str, *, by_session: bool) -> MetricSummary:
    """Return the statistics of a cell over its trials, sessions, or runs if there are several."""
    runs = has_runs(trials) and not by_session
    found = describe_replicates(trials, metric, by_session=by_session or runs)
    if not runs or found.ci95_reason is None:
        return found
    return found.model_copy(update={"ci95_reason": f"of runs, {found.ci95_reason}"})


def _best(found: Iterator[_Evidence], sign: int) -> _Evidence | None:
    """Return the cell with the best fit; of equal ones that with the best median."""
    return min(
        found, key=lambda one: (_ORDER[one.fit], -sign * (one.metric.median or 0.0)), default=None
    )


def _fit(metric: MetricSummary, need: float, sign: int, *, doubtful: bool) -> Fit:
    """Return the fit of a metric to a lower bound, or to an upper bound with a sign of -1."""
    if metric.median is None:
        return Fit.UNKNOWN
    if sign * (metric.median - need) < 0:
        return Fit.NO
    end = metric.ci95_low if sign > 0 else metric.ci95_high
    sure = end is not None and sign * (end - need) >= 0 and not doubtful
    return Fit.YES if sure else Fit.LIKELY


def _affordable(price: float, currency: str | None, needs: Needs) -> Fit:
    if needs.price_per_hour is None:
        return Fit.YES
    other = needs.currency is not None and currency != needs.currency
    if math.isnan(price) or other:
        return Fit.UNKNOWN
    return Fit.YES if price <= needs.price_per_hour else Fit.NO


def _no_price(currency: str | None) -> str:
    return "price" if currency is None else f"price in the currency of the budget, not {currency}"


def _price(used: Sequence[_Evidence]) -> tuple[float, str | None]:
    """Return the highest price of the cells of one option."""
    prices = [one.price for one in used]
    currencies = {one.currency for one in used}
    if not prices or any(map(math.isnan, prices)) or len(currencies) > 1:
        return math.nan, None
    return max(prices), currencies.pop()


def _where(group: pd.DataFrame, needs: Needs) -> str:
    if needs.connections is None:
        return ""
    measured = sorted({int(count) for count in group["connections"].dropna()})
    seen = ", ".join(map(str, measured)) or "none"
    return f" with {needs.connections} connections (measured: {seen})"


def _evidence(name: str, found: _Evidence | None) -> dict[str, object]:
    def known(value: float | None) -> float:
        return math.nan if value is None else value

    metric = found.metric if found else describe([])
    return {
        f"{name}_n": metric.n,
        f"{name}_median": known(metric.median),
        f"{name}_low": known(metric.ci95_low),
        f"{name}_high": known(metric.ci95_high),
        f"{name}_trials": found.trials if found else 0,
        f"{name}_failed": found.failed if found else 0,
        f"{name}_cell": found.cell if found else None,
    }
