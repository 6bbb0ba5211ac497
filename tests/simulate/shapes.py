"""Noise of many shapes, of one true median: what statistics meet in clouds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]

MIDDLE = 100.0
COV = 0.02
"""The coefficient of variation of the normal shapes: 2 %."""


def normal(cov: float = COV) -> Draw:
    """Return independent normal values around 100."""
    return lambda chance, size: MIDDLE * (1 + cov * chance.standard_normal(size))


def lognormal(sigma: float) -> Draw:
    """Return skewed values whose median is 100."""
    return lambda chance, size: MIDDLE * chance.lognormal(0, sigma, size)


def bimodal(share: float = 0.8, other: float = 50.0) -> Draw:
    """Return values around 100, and else around another level, as of two kinds of hosts."""

    def draw(chance: np.random.Generator, size: tuple[int, ...]) -> Array:
        level = np.where(chance.random(size) < share, MIDDLE, other)
        return level * (1 + COV * chance.standard_normal(size))

    return draw


def rounded(chance: np.random.Generator, size: tuple[int, ...]) -> Array:
    """Return normal values of which many are the same."""
    return np.round(MIDDLE + 0.7 * chance.standard_normal(size))


def heavy(chance: np.random.Generator, size: tuple[int, ...]) -> Array:
    """Return values with tails so heavy that they have no variance (t of 2)."""
    return MIDDLE * (1 + COV * chance.standard_t(2, size))


def outlying(chance: np.random.Generator, size: tuple[int, ...]) -> Array:
    """Return normal values of which 5 % lie ten standard deviations away."""
    far = np.where(chance.random(size) < 0.05, 10.0, 0.0)
    return MIDDLE * (1 + COV * (chance.standard_normal(size) - far))


def correlated(memory: float, cov: float = COV) -> Draw:
    """Return normal values, each correlated so much with the one before along the last axis."""

    def draw(chance: np.random.Generator, size: tuple[int, ...]) -> Array:
        from scipy.signal import lfilter  # noqa: PLC0415 - slow to load

        noise = chance.standard_normal(size) * math.sqrt(1 - memory**2)
        noise[..., 0] /= math.sqrt(1 - memory**2)
        series: Array = lfilter([1.0], [1.0, -memory], noise, axis=-1)
        return MIDDLE * (1 + cov * series)

    return draw


def disturbed(memory: float) -> Draw:
    """Return correlated values of which 5 % lie ten standard deviations away."""

    def draw(chance: np.random.Generator, size: tuple[int, ...]) -> Array:
        far = np.where(chance.random(size) < 0.05, 10 * COV * MIDDLE, 0.0)
        return correlated(memory)(chance, size) - far

    return draw


def coarse(memory: float) -> Draw:
    """Return correlated values that are rounded to half a standard deviation."""
    step = COV * MIDDLE / 2
    return lambda chance, size: step * np.round(correlated(memory)(chance, size) / step)


def flat(cov: float = COV) -> Draw:
    """Return values that are equally likely between two limits, without any tails."""
    reach = math.sqrt(3) * cov
    return lambda chance, size: MIDDLE * (1 + chance.uniform(-reach, reach, size))


def staying(memory: float, share: float = 0.8, other: float = 70.0) -> Draw:
    """Return values of two kinds of hosts, of which the next value often has the same one.

    Which of both it is, is correlated so much with the one before along the last axis.
    """

    def draw(chance: np.random.Generator, size: tuple[int, ...]) -> Array:
        new = chance.random(size) < share
        for at in range(1, size[-1]):
            stays = chance.random(size[:-1]) < memory
            new[..., at] = np.where(stays, new[..., at - 1], new[..., at])
        level = np.where(new, MIDDLE, other)
        return level * (1 + COV * chance.standard_normal(size))

    return draw


SHAPES: Mapping[str, Draw] = {
    "normal": normal(),
    "lognormal of 0.5": lognormal(0.5),
    "bimodal, 80/20": bimodal(),
    "rounded": rounded,
    "heavy tails (t of 2)": heavy,
    "5 % outliers": outlying,
    "autocorrelation 0.3": correlated(0.3),
    "autocorrelation 0.5": correlated(0.5),
}
