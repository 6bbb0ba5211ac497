"""Changes of level and of spread beside those that ruptures and two packages of R find.

ruptures 1.1.10 (Truong, Oudre and Vayatis, Signal Processing 167, 2020) was given the same series,
scaled to a standard deviation of 1, with ``min_size=5, jump=1``: PELT with the cost of normal
values (mean and variance) and a penalty of 4 log n, and KernelCPD with the RBF kernel, which sees
any change of distribution, and 2 log n. Both find what is written here, but for the last series.

The series of R are drawn as R draws them, from the same seeds: the results beside them are those
that the manuals of the packages print. Those of ``changepoint`` 2.2 (Killick and Eckley, J. Stat.
Soft. 58, 2014) are of the examples of ``cpt.var``, that of ``ecp`` (James and Matteson, J. Stat.
Soft. 62, 2014: E-divisive) is of the example of ``ecp_wrapper`` in ggchangepoint, which prints the
value there, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import ndtri

from osmef.analysis.change_points import change_points, spread_changes


def _series() -> Iterator[tuple[str, np.ndarray]]:
    chance = np.random.default_rng(2014)
    parts = [chance.normal(0, 1, 100), chance.normal(0, 5, 100), chance.normal(0, 1, 100)]
    yield "spread of 1, 5, 1", np.concatenate(parts)
    parts = [chance.normal(0, 1, 60), chance.normal(3, 1, 60), chance.normal(0, 1, 60)]
    yield "level of 0, 3, 0", np.concatenate(parts)
    yield "both", np.concatenate([chance.normal(0, 1, 80), chance.normal(4, 4, 80)])
    yield "neither", chance.normal(0, 1, 200)
    parts = [chance.normal(0, 0.05, 100), chance.normal(0, 0.4, 100)]
    yield "spread, lognormal", np.exp(np.concatenate(parts))
    yield "the Nile at Aswan, 1871 to 1970", _column(sm.datasets.nile, "volume")
    gdp = _column(sm.datasets.macrodata, "realgdp")
    yield "growth of the GDP of the United States, 1959 to 2009", np.diff(np.log(gdp))


def _column(source: object, name: str) -> np.ndarray:
    return source.load_pandas().data[name].to_numpy(float)  # type: ignore[attr-defined, no-any-return]


SERIES = dict(_series())


@pytest.mark.real("simulations")
@pytest.mark.parametrize(
    ("name", "ruptures", "levels", "spreads"),
    [
        pytest.param("spread of 1, 5, 1", {100, 200}, [], [100, 200], id="spread"),
        pytest.param("level of 0, 3, 0", {59, 120}, [59, 120], [], id="level"),
        # It can't say what has changed; the spread alone is found 17 values later.
        pytest.param("both", {84}, [84], [101], id="both"),
        pytest.param("neither", set(), [], [], id="neither"),
        pytest.param("spread, lognormal", {100}, [], [100], id="lognormal"),
        # The dam of 1902 was begun in 1898, the 28th year after 1870.
        pytest.param("the Nile at Aswan, 1871 to 1970", {28}, [28], [], id="nile"),
        # The Great Moderation of 1984. PELT also has the last two years, the kernel neither.
        pytest.param(
            "growth of the GDP of the United States, 1959 to 2009", {101}, [], [100], id="gdp"
        ),
    ],
)
def test_changes_are_those_that_ruptures_finds(
    name: str, ruptures: set[int], levels: list[int], spreads: list[int]
) -> None:
    values = SERIES[name].tolist()
    cuts = change_points(values)
    assert cuts == levels
    assert spread_changes(values, cuts) == spreads
    ours = {*cuts, *spreads}
    assert all(min(abs(at - one) for one in ours) <= 1 for at in ruptures)


def r_normal(seed: int, count: int) -> np.ndarray:
    """Return what ``set.seed(seed); rnorm(count)`` gives in R since 1.7.

    Two numbers of the Mersenne Twister, whose state a linear congruential generator fills, make
    one of 59 bits; the normal distribution is inverted at it.
    """
    state = []
    for at in range(50 + 625):
        seed = (69069 * seed + 1) % 2**32
        if at > 50:
            state.append(seed)
    source = np.random.RandomState()
    source.set_state(("MT19937", np.array(state, dtype=np.uint32), 624, 0, 0.0))
    uniform = source.randint(0, 2**32, 2 * count, dtype=np.uint32) * 2.3283064365386963e-10
    return ndtri((np.floor(2**27 * uniform[::2]) + uniform[1::2]) / 2**27)  # type: ignore[no-any-return]


def test_numbers_are_those_of_r() -> None:
    known = [1.37095845, -0.56469817, 0.36312841, 0.63286260, 0.40426832]
    assert r_normal(42, 5) == pytest.approx(known, abs=1e-8)
    assert 10 * r_normal(2022, 102)[101] == pytest.approx(-12.2, abs=0.05)


@pytest.mark.real("simulations")
@pytest.mark.parametrize(
    ("seed", "spreads", "printed", "found"),
    [
        # cpt.var, AMOC: "the change in variance is at 100 and we are 99% confident".
        pytest.param(1, (1, 10), [100], [100], id="changepoint, one"),
        # cpt.var, PELT and CROPS: "3 changepoints, 50,100,150 is the most appropriate"; the manual
        # of cpt.range has 50, 99, 150 for the same. Its cost is that of normal values; of series
        # with memory, which are allowed for here, half the spread is too little to be told.
        pytest.param(1, (1, 10, 5, 1), [50, 100, 150], [49, 150], id="changepoint, three"),
        # e.divisive: the new distribution begins at the 102nd value.
        pytest.param(2022, (1, 10), [101], [100], id="ecp"),
    ],
)
def test_changes_of_spread_are_among_those_that_packages_of_r_print(
    seed: int, spreads: tuple[float, ...], printed: list[int], found: list[int]
) -> None:
    values = (r_normal(seed, 200) * np.repeat(spreads, 200 // len(spreads))).tolist()
    assert change_points(values) == []
    assert spread_changes(values) == found
    assert all(min(abs(one - at) for at in printed) <= 1 for one in found)
