"""Measures on axes: which one is shown, and in which unit."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from osmef.errors import InputError
from osmef.report.cells import nothing
from osmef.results.frame import measures_of
from osmef.results.measure import BIT_RATE, Measure, shown_unit
from osmef.units import rate_unit

_FEW = 3  # of the measures of runs in which none leads


@dataclass(frozen=True)
class Unit:
    """How a measure is written: what its values are divided by, and the name of its axis."""

    divisor: float
    label: str


def measured(trials: pd.DataFrame) -> list[Measure]:
    """Return what the trials of ``osmef.load`` have measured, the main ones first."""
    return [one for name, one in measures_of(trials).items() if trials[name].notna().any()]


def leading(trials: pd.DataFrame) -> list[Measure]:
    """Return the leading measures that there are; where none leads, the first few."""
    known = measured(trials)
    return [one for one in known if one.leading] or known[:_FEW]


def chosen(trials: pd.DataFrame, metric: str | None) -> Measure:
    """Return the measure of a name, or what leads, else the first at all.

    Raises InputError where no trial has it.
    """
    known = {one.name: one for one in measured(trials)}
    if metric is not None and metric not in known:
        raise InputError(
            f"no trial has a metric {metric!r}; there are: {', '.join(known) or 'none'}",
            where="--metric",
            cure="give one of these",
        )
    if not known:
        raise nothing("metric", "give runs with trials that went well")
    return known[metric] if metric else leading(trials)[0]


def unit(measure: Measure, top: float) -> Unit:
    """Return how to write a measure whose values reach to ``top``."""
    if measure.unit == BIT_RATE:
        divisor, name = rate_unit(top)
        return Unit(divisor, f"{measure.words} in {name}")
    if measure.unit == "1/s":
        return Unit(1.0, f"{measure.words} per second")
    name = shown_unit(measure.unit)
    return Unit(1.0, f"{measure.words} in {name}" if name else measure.words)
