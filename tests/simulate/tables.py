"""What each table of docs/methods.md on noise is made of: a rate in percent for each case."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from osmef.analysis import change_points, null_distributions
from osmef.analysis.change_points import spread_changes
from osmef.analysis.diagnostics import LOSS, find_warm_up
from osmef.analysis.effects import median_ratio
from osmef.analysis.hypothesis_tests import (
    allowed_autocorrelation,
    hommel,
    lower_p,
    mann_whitney,
    paired_difference,
)
from osmef.analysis.null_distributions import rank_sums
from osmef.analysis.quantiles import confidence_sequence, is_narrow_enough, quantile_interval
from osmef.analysis.replication import repetitions_for_median
from osmef.analysis.throughput import Bounds, NextTrial, SearchTrial, next_trial, throughput
from osmef.analysis.token_bucket import is_proved
from osmef.analysis.trends import carried_trend, common_autocorrelation
from tests.simulate.shapes import (
    COV,
    MIDDLE,
    SHAPES,
    Draw,
    bimodal,
    coarse,
    correlated,
    disturbed,
    flat,
    lognormal,
    normal,
    staying,
)

Case = tuple[str, Callable[[np.random.Generator], bool]]
"""What is drawn, and whether one draw came out so."""

CELLS, TRIALS = 24, 6


def step_alarms() -> Iterator[Case]:
    """Whether a series without a step has one."""
    for name, draw in SHAPES.items():
        yield f"{name}, n = 30", _alarm(draw, 30)


def memory_alarms() -> Iterator[Case]:
    """Whether a series that remembers has a step."""
    for count in (10, 30, 60, 120):
        for memory in (-0.5, 0.6, 0.7, 0.8, 0.9):
            yield f"autocorrelation {memory}, n = {count}", _alarm(correlated(memory), count)
        yield f"autocorrelation 0.7, 5 % outliers, n = {count}", _alarm(disturbed(0.7), count)
        yield f"autocorrelation 0.9, rounded, n = {count}", _alarm(coarse(0.9), count)
        for stays in (0.3, 0.5, 0.7, 0.9):
            yield (
                f"two kinds of hosts, autocorrelation {stays}, n = {count}",
                _alarm(staying(stays), count),
            )


def year_alarms() -> Iterator[Case]:
    """Whether a year of daily sessions without a step has one."""
    for name in ("bimodal, 80/20", "autocorrelation 0.5"):
        yield name, _alarm(SHAPES[name], 365)


@dataclass(frozen=True)
class _Stepped:
    """Whether series have a step: of many, only those that may have one are looked at again."""

    draw: Draw
    count: int
    fall: Callable[[np.ndarray], None] | None = None

    def __call__(self, chance: np.random.Generator) -> bool:
        """Return whether one series has a step."""
        return bool(self.many(chance, 1)[0])

    def many(self, chance: np.random.Generator, draws: int) -> np.ndarray:
        """Return whether each of so many series has a step."""
        rows = self.draw(chance, (draws, self.count))
        if self.fall is not None:
            self.fall(rows)
        return np.array(
            [one and _has_step(row) for one, row in zip(self._may(rows), rows, strict=True)]
        )

    def _may(self, rows: np.ndarray) -> list[bool]:
        """Return whether an autoregression does not explain a series, which is quick to say."""
        offsets, known = null_distributions._ar1_null(self.count, change_points.SHORTEST)
        least = known[-int(change_points.LEVEL * (1 + known.size))] - 1e-6
        scaled = (rows - np.median(rows, axis=1, keepdims=True)) / np.maximum(
            np.ptp(rows, axis=1, keepdims=True), 1e-12
        )
        parts = [null_distributions.log_likelihood_ratios(some, change_points.SHORTEST)
                 for some in np.array_split(scaled, 1 + len(rows) // 500)]  # fmt: skip
        return [bool(one >= least) for one in (np.concatenate(parts) - offsets).max(axis=1)]


def _alarm(draw: Draw, count: int) -> _Stepped:
    return _Stepped(draw, count)


def spread_alarms() -> Iterator[Case]:
    """Whether a series without a change of spread has one, also where its level changes."""
    for name, draw in SHAPES.items():
        yield f"{name}, n = 30", _spread_alarm(draw, 30)
    for at in (5, 15):

        def stepped(chance: np.random.Generator, at: int = at) -> bool:
            row = normal()(chance, (30,))
            row[at:] -= MIDDLE / 10
            return _has_spread(row)

        yield f"a step of 10 % after {at} of 30", stepped


def spread_power() -> Iterator[Case]:
    """Whether it is found that the second half of a series varies more."""
    for times in (2, 3, 5):
        for count in (20, 30, 60):

            def is_found(chance: np.random.Generator, n: int = count, k: float = times) -> bool:
                row = normal()(chance, (n,))
                row[n // 2 :] = MIDDLE + k * (row[n // 2 :] - MIDDLE)
                return _has_spread(row)

            yield f"{times} times, n = {count}", is_found


def spread_year_alarms() -> Iterator[Case]:
    """Whether a year of daily sessions without a change of spread has one."""
    for name in ("bimodal, 80/20", "autocorrelation 0.5"):
        yield name, _spread_alarm(SHAPES[name], 365)


def _spread_alarm(draw: Draw, count: int) -> Callable[[np.random.Generator], bool]:
    return lambda chance: _has_spread(draw(chance, (count,)))


def _has_spread(row: np.ndarray) -> bool:
    values = row.tolist()
    return bool(spread_changes(values, change_points.change_points(values)))


def step_power() -> Iterator[Case]:
    """Whether steps are found, at a spread of 2 %."""
    for count in (10, 15, 30, 60):
        for share in (0.10, 0.05, 0.04):
            yield f"{100 * share:g} % in the middle, n = {count}", _fall(count, share, (0.5, 1.0))
    for count in (20, 30, 60):
        yield f"10 % for the last 5, n = {count}", _fall(count, 0.1, (1 - 5 / count, 1.0))
        yield f"10 % from a quarter on, n = {count}", _fall(count, 0.1, (0.25, 1.0))
        yield f"10 % for the middle third, n = {count}", _fall(count, 0.1, (1 / 3, 2 / 3))


def _fall(count: int, share: float, where: tuple[float, float]) -> _Stepped:
    begin, end = (round(one * count) for one in where)

    def fall(rows: np.ndarray) -> None:
        rows[:, begin:end] -= MIDDLE * share

    return _Stepped(normal(), count, fall)


def _has_step(row: np.ndarray) -> bool:
    return bool(change_points.change_points(row.tolist()))


@dataclass(frozen=True)
class _Table:
    """Whether any cell of a table is worse, where B varies so many times as much as A."""

    draw: Draw
    spread: float = 1.0
    cells: int = CELLS
    sizes: tuple[int, int] = (TRIALS, TRIALS)

    def __call__(self, chance: np.random.Generator) -> bool:
        """Return whether one table has a worse cell."""
        return bool(self.many(chance, 1)[0])

    def many(self, chance: np.random.Generator, draws: int) -> np.ndarray:
        """Return whether each of so many tables has a worse cell."""
        return np.concatenate([self._some(chance, min(500, draws - done))
                               for done in range(0, draws, 500)])  # fmt: skip

    def _some(self, chance: np.random.Generator, draws: int) -> np.ndarray:
        a, b = (self.draw(chance, (draws, self.cells, size)) for size in self.sizes)
        b = MIDDLE + self.spread * (b - MIDDLE)
        return np.array([bool(one) and _is_worse(x, y)
                         for one, x, y in zip(_may_be_worse(a, b), a, b, strict=True)])  # fmt: skip


def _may_be_worse(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return whether ranks alone would allow for a worse cell, which is quick to say."""
    above = (a[..., :, None] > b[..., None, :]).sum(axis=(-1, -2))
    known = rank_sums(tuple(range(2, 2 + 2 * (a.shape[-1] + b.shape[-1]), 2)), b.shape[-1])
    count, pairs = b.shape[-1], a.shape[-1] * b.shape[-1]
    p_of = [known.at_most(2 * (pairs - n) + count * (count + 1)) for n in range(pairs + 1)]
    p = np.sort(np.array(p_of)[above], axis=-1)
    least: np.ndarray = (p * a.shape[1] / np.arange(1, a.shape[1] + 1)).min(axis=-1)
    may: np.ndarray = least <= 0.05
    return may


def _is_worse(a: np.ndarray, b: np.ndarray) -> bool:
    memory = allowed_autocorrelation([*a.tolist(), *b.tolist()])
    found = [lower_p(x, y, memory) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    return min(p for p in hommel(found) if p is not None) <= 0.05


def table_alarms() -> Iterator[Case]:
    """Whether any of equal cells of 6 against 6 is worse, without a margin, of 24 or as told."""
    for name, draw in SHAPES.items():
        if name not in {"rounded", "5 % outliers"}:
            yield name, _Table(draw)
    yield "two kinds of hosts, autocorrelation 0.5", _Table(staying(0.5))
    shapes = {"normal": normal(), "heavy tails": SHAPES["heavy tails (t of 2)"], "flat": flat()}
    for name, draw in shapes.items():
        for times in (4.0, 10.0):
            for sizes in ((6, 6), (20, 5), (5, 20)):
                how = f"B varies {times:g} times as much, {sizes[0]} against {sizes[1]}"
                yield f"{name}, {how}", _Table(draw, times, CELLS, sizes)
    for cells in (1, 4, 100):
        yield f"normal, {cells} cells", _Table(normal(), 1.0, cells)
        yield f"normal, B varies 10 times as much, {cells} cells", _Table(normal(), 10.0, cells)
        for memory in (0.3, 0.5):
            yield f"autocorrelation {memory}, {cells} cells", _Table(correlated(memory), 1.0, cells)


def table_power() -> Iterator[Case]:
    """Whether a cell that is 10 % lower is worse beyond 5 %, of so many, at a spread of 2 %."""
    for cells, slower in ((1, 1), (4, 1), (CELLS, 1), (CELLS, CELLS)):
        for sizes in ((5, 5), (6, 6), (8, 8), (10, 10), (20, 5)):

            def is_worse(
                chance: np.random.Generator,
                n: tuple[int, int] = sizes,
                k: int = slower,
                cells: int = cells,
            ) -> bool:
                a, b = (normal()(chance, (cells, size)) for size in n)
                b[:k] *= 0.9
                a *= 0.95  # what does not matter
                memory = allowed_autocorrelation([*a.tolist(), *b.tolist()])
                found = [lower_p(x, y, memory) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
                return (hommel(found)[0] or 0.0) <= 0.05

            yield f"{slower} of {cells} lower, {sizes[0]} against {sizes[1]}", is_worse


def drifting(slower: float) -> Iterator[Case]:
    """Whether cells of a run over which the cloud loses a tenth differ at 5 %."""
    for count in (6, 8, 10, 14, 20, 30, 40):
        for how in ("unpaired", "paired"):
            for drift in ("slow", "at once"):

                def differs(
                    chance: np.random.Generator, n: int = count, h: str = how, d: str = drift
                ) -> bool:
                    a, b = _two_of_four(chance, n, d)
                    b *= slower
                    test = paired_difference if h == "paired" else mann_whitney
                    return (test(a.tolist(), b.tolist()).p or 0.0) <= 0.05

                yield f"{how}, {drift}, n = {count}", differs


def _two_of_four(chance: np.random.Generator, n: int, drift: str) -> tuple[np.ndarray, np.ndarray]:
    """Return two of four equal cells in blocks of random order, in the order of the blocks."""
    at = np.arange(4 * n) / (4 * n - 1)
    fall = 1 - 0.1 * (at if drift == "slow" else (at > 0.5))
    values = (MIDDLE * fall * (1 + COV * chance.standard_normal(4 * n))).reshape(n, 4)
    values = chance.permuted(values, axis=1)
    return values[:, 0], values[:, 1]


def block_alarms() -> Iterator[Case]:
    """Whether equal cells of a run over which the cloud loses a tenth differ at 5 %."""
    return drifting(1.0)


def block_power() -> Iterator[Case]:
    """Whether a cell that is 3 % slower differs, in a run over which the cloud loses a tenth."""
    return drifting(0.97)


def pair_alarms() -> Iterator[Case]:
    """Whether two equal cells differ block by block at 5 %, where each remembers its own values."""
    for count in (6, 20):
        for memory in (0.0, 0.3, 0.5):

            def differs(chance: np.random.Generator, n: int = count, m: float = memory) -> bool:
                a, b = correlated(m)(chance, (2, n))
                return (paired_difference(a.tolist(), b.tolist()).p or 0.0) <= 0.05

            yield f"autocorrelation {memory}, n = {count}", differs


def ratio_coverage() -> Iterator[Case]:
    """Whether the interval of a ratio of medians holds it."""
    for count in (6, 20):
        for name, draw in {**SHAPES, "bimodal, 65/35": bimodal(0.65)}.items():

            def holds(chance: np.random.Generator, d: Draw = draw, n: int = count) -> bool:
                a, b = np.abs(d(chance, (2, n)))
                found = median_ratio(a.tolist(), b.tolist()).interval
                return (found.low or 0.0) <= 1 <= (found.high or math.inf)

            yield f"{name}, n = {count}", holds


def memory() -> Iterator[Case]:
    """Whether cells of 10 values have a common memory."""
    for name in ("bimodal, 80/20", "rounded", "autocorrelation 0.3", "autocorrelation 0.5"):
        draw = SHAPES[name]
        for cells in (1, CELLS) if "autocorrelation" in name else (CELLS,):

            def seen(chance: np.random.Generator, d: Draw = draw, k: int = cells) -> bool:
                found = common_autocorrelation(d(chance, (k, 10)).tolist())
                return found is not None and found.p <= 0.05

            yield f"{name}, {cells} cells" if cells > 1 else f"{name}, 1 cell", seen


def stop_coverage() -> Iterator[Case]:
    """Whether a campaign that stops within +-5 % holds the median, of those that stop by n = 60."""
    shapes = {
        "normal, 10 %": normal(0.1),
        "lognormal of 0.1": lognormal(0.1),
        "bimodal, 80/20": bimodal(),
        "bimodal, 55/45": bimodal(0.55),
        "autocorrelation 0.5, 10 %": correlated(0.5, 0.1),
    }
    for name, draw in shapes.items():
        rows = draw(np.random.default_rng(0), (1_000_001,))
        truth = float(np.median(rows))
        for look, how in (
            (confidence_sequence, "every look"),
            (quantile_interval, "a single look"),
        ):

            def missed(
                chance: np.random.Generator,
                d: Draw = draw,
                truth: float = truth,
                look: Callable[[list[float]], object] = look,
            ) -> bool:
                row = d(chance, (60,)).tolist()
                for n in range(6, 61):
                    found = look(row[:n])
                    low, high = found.low, found.high  # type: ignore[attr-defined]
                    if low is not None and high - low <= 0.1 * float(np.median(row[:n])):
                        return not low <= truth <= high
                return False

            yield f"{name}, {how}", missed


def until_coverage() -> Iterator[Case]:
    """Whether a cell of ``repeat: {until: 5%, least: 6, most: N}`` ends with a wrong interval."""
    shapes = {
        "normal, 3 %": normal(0.03),
        "normal, 10 %": normal(0.1),
        "lognormal of 0.3": lognormal(0.3),
        "bimodal, 80/20": bimodal(),
        "bimodal, 55/45": bimodal(0.55),
        "autocorrelation 0.3, 10 %": correlated(0.3, 0.1),
        "autocorrelation 0.5, 10 %": correlated(0.5, 0.1),
    }
    for most in (12, 30, 100):
        for name, draw in shapes.items():
            truth = float(np.median(draw(np.random.default_rng(0), (1_000_001,))))

            def missed(
                chance: np.random.Generator, d: Draw = draw, n: int = most, truth: float = truth
            ) -> bool:
                row = d(chance, (n,)).tolist()
                ends = next((k for k in range(6, n) if is_narrow_enough(row[:k], 0.1)), n)
                found = confidence_sequence(row[:ends])
                return not (found.low or 0.0) <= truth <= (found.high or math.inf)

            yield f"{name}, at most {most}", missed


def until_alarms() -> Iterator[Case]:
    """Whether two equal cells of ``repeat: {until: 5%, least: 6, most: N}`` differ by their p."""
    shapes = {
        "normal, 3 %": normal(0.03),
        "normal, 10 %": normal(0.1),
        "lognormal of 0.3": lognormal(0.3),
        "bimodal, 80/20": bimodal(),
        "bimodal, 55/45": bimodal(0.55),
        "autocorrelation 0.3, 3 %": correlated(0.3, 0.03),
    }
    for most in (12, 30):
        for name, draw in shapes.items():

            def differs(chance: np.random.Generator, d: Draw = draw, n: int = most) -> bool:
                rows = [d(chance, (n,)).tolist() for _ in "ab"]
                ends = [next((k for k in range(6, n) if is_narrow_enough(row[:k], 0.1)), n)
                        for row in rows]  # fmt: skip
                a, b = (row[:end] for row, end in zip(rows, ends, strict=True))
                p = lower_p(a, b, allowed_autocorrelation([a, b]))
                return p is not None and p <= 0.05

            yield f"{name}, at most {most}", differs


def enough() -> Iterator[Case]:
    """Whether as many trials as were told to be needed for +-5 % are enough."""
    shapes = {
        "normal, 10 %": normal(0.1),
        "lognormal of 0.3": lognormal(0.3),
        "bimodal, 80/20": bimodal(0.8, 70.0),
        "heavy tails (t of 3)": lambda chance, size: (
            MIDDLE * (1 + 0.1 * chance.standard_t(3, size))
        ),
        "autocorrelation 0.5, 10 %": correlated(0.5, 0.1),
    }
    for pilot in (6, 20):
        for name, draw in shapes.items():

            def holds(chance: np.random.Generator, d: Draw = draw, m: int = pilot) -> bool:
                n = repetitions_for_median(d(chance, (m,)).tolist(), 0.05)
                if n is None or n > 20_000:
                    return True
                row = d(chance, (n,)).tolist()
                found = quantile_interval(row)
                wide = (found.high or math.inf) - (found.low or 0.0)
                return wide <= 0.1 * float(np.median(row))

            yield f"{name}, pilot of {pilot}", holds


def warm_up_alarms() -> Iterator[Case]:
    """Whether six trials of equal intervals seem to begin slower."""
    shapes = {
        **{name: draw for name, draw in SHAPES.items() if "0.3" not in name},
        "autocorrelation 0.5, 10 %": correlated(0.5, 0.1),
        "autocorrelation 0.7, 10 %": correlated(0.7, 0.1),
        "autocorrelation 0.9, 10 %": correlated(0.9, 0.1),
    }
    for count in (10, 100):
        for name, draw in shapes.items():
            yield f"{name}, {count} intervals", _begins_slower(draw, count, 1.0)


def warm_up_power() -> Iterator[Case]:
    """Whether it is found that the first of ten intervals is slower, in six trials."""
    for slower in (0.9, 0.8, 0.5):
        for name, draw in (("2 %", normal()), ("10 %", normal(0.1))):
            yield f"{100 - 100 * slower:g} %, spread {name}", _begins_slower(draw, 10, slower)


def _begins_slower(draw: Draw, count: int, slower: float) -> Callable[[np.random.Generator], bool]:
    def is_seen(chance: np.random.Generator) -> bool:
        rows = draw(chance, (TRIALS, count))
        rows[:, 0] *= slower
        found = find_warm_up(rows.tolist())
        return found is not None and found.p <= 0.05 and found.loss >= LOSS

    return is_seen


def proof_alarms() -> Iterator[Case]:
    """Whether `until: knee` finds a bucket in a transfer of 40 equal intervals of 1 s."""
    shapes = {
        **{name: draw for name, draw in SHAPES.items() if "0.3" not in name},
        "normal, 20 %": normal(0.2),
        "autocorrelation 0.9, 10 %": correlated(0.9, 0.1),
        "autocorrelation 0.9, 30 %": correlated(0.9, 0.3),
    }
    for name, draw in shapes.items():

        def proves(chance: np.random.Generator, d: Draw = draw) -> bool:
            sizes = np.maximum(1, 1e6 * d(chance, (40,))).astype("int64").tolist()
            return any(is_proved([1.0] * n, sizes[:n]) for n in range(11, 41))

        yield name, proves


def carried_alarms() -> Iterator[Case]:
    """Whether cells of 6 equal trials seem to follow what was carried before."""
    for cells in (1, CELLS):
        for name, draw in SHAPES.items():
            yield f"{name}, {cells} cells", _follows(draw, cells, 0.0)


def carried_power() -> Iterator[Case]:
    """Whether it is seen that the rate of the last trials is lower, in cells of 6 trials."""
    for cells in (1, CELLS):
        for fall in (0.05, 0.2, 0.5):
            yield f"{100 * fall:g} %, {cells} cells", _follows(normal(), cells, fall)


def _follows(draw: Draw, cells: int, fall: float) -> Callable[[np.random.Generator], bool]:
    def is_told(chance: np.random.Generator) -> bool:
        rows = draw(chance, (cells, TRIALS))
        rows *= 1 - fall * np.arange(TRIALS) / (TRIALS - 1)
        found = carried_trend([(row.tolist(), range(TRIALS)) for row in rows])
        return found is not None and found.is_reportable

    return is_told


_ROOM = 100e6
_BITS = 8 * 1200
_BOUNDS = Bounds(lowest_bps=1e6, highest_bps=1e9, loss=1e-3, resolution=0.01, most=40)
_STEP_S, _FULL_S = 2.0, 60.0


@dataclass(frozen=True)
class _Link:
    """A link of 100 Mbit/s that loses more than what does not fit.

    ``loss`` is the chance of each datagram; a burst takes all of ``burst_s``, one in 100 s on
    average; a queue takes ``queue_s`` of what does not fit; the sender waits for its CPU in up to
    ``waits`` of the time.
    """

    loss: float = 0.0
    burst_s: float = 0.0
    queue_s: float = 0.0
    waits: float = 0.0

    def tried(self, chance: np.random.Generator, wanted: NextTrial) -> SearchTrial:
        length_s = _FULL_S if wanted.is_full else _STEP_S
        sent_bps = wanted.offered_bps * (1 - self.waits * chance.random())
        sent = int(sent_bps * length_s / _BITS)
        over = max(0.0, (sent_bps - _ROOM) * length_s - self.queue_s * _ROOM) / _BITS
        bursts = chance.poisson(length_s / 100) * self.burst_s / length_s
        lost = over + chance.binomial(max(0, sent - int(over)), min(1.0, self.loss + bursts))
        return SearchTrial(wanted.offered_bps, sent_bps, lost / sent, wanted.is_full)


def search_truth() -> Iterator[Case]:
    """Whether the rate at which 0.1 % are lost is between what a search says passed and did not."""
    links = {
        "nothing else": _Link(),
        "each with 0.01 %": _Link(loss=1e-4),
        "each with 0.05 %": _Link(loss=5e-4),
        "bursts of 10 ms": _Link(burst_s=0.01),
        "a queue of 50 ms": _Link(queue_s=0.05),
        "a sender that waits": _Link(waits=0.04),
    }
    for name, link in links.items():
        full_queue = link.queue_s / _FULL_S
        truth = _ROOM * (1 + full_queue) * (1 - link.loss) / (1 - _BOUNDS.loss)

        def holds(chance: np.random.Generator, link: _Link = link, truth: float = truth) -> bool:
            tried: list[SearchTrial] = []
            while (wanted := next_trial(_BOUNDS, tried)) is not None:
                tried.append(link.tried(chance, wanted))
            found = throughput(_BOUNDS, tried)
            low, high = found.passed_bps or 0.0, found.refused_bps or math.inf
            return low <= 1.001 * truth and truth <= 1.001 * high and high <= 1.06 * low

        yield name, holds


TABLES: dict[str, Callable[[], Iterator[Case]]] = {
    "ratio": ratio_coverage,
    "memory": memory,
    "stop": stop_coverage,
    "until": until_coverage,
    "until-alarms": until_alarms,
    "table": table_alarms,
    "table-power": table_power,
    "step": step_alarms,
    "step-power": step_power,
    "enough": enough,
    "warm-up": warm_up_alarms,
    "warm-up-power": warm_up_power,
    "year": year_alarms,
    "spread": spread_alarms,
    "spread-power": spread_power,
    "spread-year": spread_year_alarms,
    "proof": proof_alarms,
    "search": search_truth,
    "carried": carried_alarms,
    "carried-power": carried_power,
    "block": block_alarms,
    "block-power": block_power,
    "block-memory": pair_alarms,
    "step-memory": memory_alarms,
}
