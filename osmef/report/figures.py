"""Registry of figures, and the default ones of a run.

``figure("btc-connections", "results/*")`` returns a figure of matplotlib; ``FigureKind`` has their
names and what they show, and ``possible`` those that runs have the data for. ``write`` in
``osmef.report.style`` saves one as SVG, PNG or PDF. Each kind is a function of its own on frames,
such as ``osmef.report.throughput.btc_connections``.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from osmef.analysis.similarity import machine_vectors, similarity_matrix
from osmef.errors import InputError, NothingToDrawError
from osmef.report import pingpong
from osmef.report.data import Data, texts_of
from osmef.report.line_charts import latency, layers, sweep_throughput, sweep_time
from osmef.report.machine_figures import price, similarity, topology
from osmef.report.machine_types import measured_machines, price_ranking
from osmef.report.options import FigureKind, Look
from osmef.report.pingpong import Messages
from osmef.report.spread import cov, ecdf, sessions
from osmef.report.style import TooManyError, save
from osmef.report.throughput import (
    btc_connections,
    btc_distance,
    cpu,
    fairness,
    limits,
    scale_rate,
    scale_time,
    udp_jitter,
    udp_loss,
)
from osmef.report.time_series import bucket, course, intervals
from osmef.results.frame import swept_of


@dataclass(frozen=True)
class FigureOptions:
    """Options of a figure: its look, and those of some kinds only.

    ``messages`` is for the kinds of ping-pong. ``whole`` is the CPU load of whole endpoints.
    ``metrics`` are for layers, ecdf, sessions, cov and price; all but cov take one. ``prices`` is a
    file for ``osmef.report.machine_types.price_table``, ``flavor`` the column that names flavors,
    and ``machines`` a CSV file with the columns of ``osmef.analysis.similarity``, without which the
    runs tell some of them.
    """

    look: Look = field(default_factory=Look)
    messages: Messages = field(default_factory=Messages)
    whole: bool = False
    metrics: Sequence[str] = ()
    prices: Path | None = None
    flavor: str = "sender_flavors"
    machines: Path | None = None

    @property
    def metric(self) -> str | None:
        """The only metric. Raises InputError for several."""
        if len(self.metrics) > 1:
            raise InputError("this figure shows one metric", where="--metric", cure="give one")
        return self.metrics[0] if self.metrics else None


@dataclass(frozen=True)
class Drawing:
    """Function that draws a kind of figure, and its options.

    ``own`` is drawn for every run; ``relative`` can also be drawn as ratios to a reference.
    """

    draw: Callable[[Data, FigureOptions], Figure]
    own: bool = False
    relative: bool = False


def _messages(kind: pingpong.RequestMetric) -> Drawing:
    return Drawing(
        lambda d, w: pingpong.messages(d.requests, d.trials, kind, w.look, w.messages),
        own=True,
        relative=True,
    )


def _price(data: Data, wanted: FigureOptions) -> Figure:
    measure, found = price_ranking(data, wanted.metric, wanted.prices, wanted.flavor)
    if found.ranking.empty:
        raise _no_price(found.unpriced, wanted.prices)
    return price(found, measure, wanted.look)


def _no_price(unpriced: pd.DataFrame, prices: Path | None) -> NothingToDrawError:
    """Return the error for results without a known price."""
    if prices is None:
        cure = "give a price list or a CSV file with --prices"
        return NothingToDrawError("these runs recorded no price", cure=cure)
    known = {f"{row['provider']} {row['flavor']}" for row in unpriced.to_dict("records")}
    return NothingToDrawError(
        f"{prices} has no price of {', '.join(sorted(known))}",
        cure="add them, or name with --flavor the column that has the flavors",
    )


def _similarity(data: Data, wanted: FigureOptions) -> Figure:
    measured = measured_machines(data, wanted.machines)
    return similarity(similarity_matrix(machine_vectors(measured)), wanted.look)


KINDS: dict[FigureKind, Drawing] = {
    FigureKind.BTC_CONNECTIONS: Drawing(lambda d, w: btc_connections(d.trials, w.look), own=True),
    FigureKind.BTC_DISTANCE: Drawing(lambda d, w: btc_distance(d.trials, w.look), own=True),
    FigureKind.FAIRNESS: Drawing(lambda d, w: fairness(d.trials, w.look)),
    FigureKind.CPU: Drawing(lambda d, w: cpu(d.trials, w.look, whole=w.whole)),
    FigureKind.LIMITS: Drawing(lambda d, w: limits(d.limits, d.trials, w.look), own=True),
    FigureKind.INTERVALS: Drawing(lambda d, w: intervals(d.intervals, d.trials, w.look)),
    FigureKind.BUCKET: Drawing(
        lambda d, w: bucket(d.intervals, d.buckets, d.trials, w.look), own=True
    ),
    FigureKind.TOPOLOGY: Drawing(lambda d, w: topology(d.endpoints, d.pairs, w.look)),
    FigureKind.UDP_LOSS: Drawing(lambda d, w: udp_loss(d.trials, w.look), own=True),
    FigureKind.UDP_JITTER: Drawing(lambda d, w: udp_jitter(d.trials, w.look), own=True),
    FigureKind.LATENCY: Drawing(lambda d, w: latency(d.exchanges, d.trials, w.look), own=True),
    FigureKind.COURSE: Drawing(
        lambda d, w: course(d.intervals, d.round_trips, d.trials, w.look), own=True
    ),
    FigureKind.SWEEP_THROUGHPUT: Drawing(
        lambda d, w: sweep_throughput(d.sizes, d.trials, w.look), own=True
    ),
    FigureKind.SWEEP_TIME: Drawing(lambda d, w: sweep_time(d.sizes, d.trials, w.look), own=True),
    FigureKind.SCALE_RATE: Drawing(lambda d, w: scale_rate(d.trials, w.look), own=True),
    FigureKind.SCALE_TIME: Drawing(lambda d, w: scale_time(d.trials, w.look), own=True),
    FigureKind.PINGPONG_TRANSFER: _messages(pingpong.TRANSFER),
    FigureKind.PINGPONG_LATENCY: _messages(pingpong.LATENCY),
    FigureKind.PINGPONG_REQUESTS: _messages(pingpong.REQUESTS),
    FigureKind.LAYERS: Drawing(lambda d, w: layers(d.trials, w.look, metric=w.metric), own=True),
    FigureKind.ECDF: Drawing(lambda d, w: ecdf(d.trials, w.look, metric=w.metric)),
    FigureKind.SESSIONS: Drawing(lambda d, w: sessions(d.trials, w.look, metric=w.metric)),
    FigureKind.COV: Drawing(lambda d, w: cov(d.trials, w.look, metrics=w.metrics)),
    FigureKind.PRICE: Drawing(_price),
    FigureKind.SIMILARITY: Drawing(_similarity),
}


def figure(
    kind: str,
    *paths: str | PathLike[str],
    wanted: FigureOptions | None = None,
    where: Mapping[str, Sequence[str]] | None = None,
) -> Figure:
    """Draw a kind of figure for the runs that paths name, as ``osmef.load`` takes them.

    ``where`` keeps some of the trials, see ``osmef.report.data.Data``.

    Raises InputError for an unknown kind, a path without a run, and runs without the data.
    """
    found = next((one for one in FigureKind if one == kind), None)
    if found is None:
        raise InputError(
            f"there is no figure {kind!r}", cure=f"give one of: {', '.join(FigureKind)}"
        )
    data = Data(*paths, where=where, components=found is FigureKind.SIMILARITY)
    return draw(found, data, wanted or FigureOptions())


def draw(kind: FigureKind, data: Data, wanted: FigureOptions) -> Figure:
    """Draw a kind of figure from lazily read frames. Raises InputError."""
    try:
        return KINDS[kind].draw(data, _of_scenario(wanted, data))
    except TooManyError as error:
        if (example := _choice(data.trials)) is None:
            raise
        raise TooManyError(error.message, example) from error


def _choice(trials: pd.DataFrame) -> str | None:
    """Return a choice of some trials, as for ``--where``; None where all have the same values."""
    for name in (*swept_of(trials), "run"):
        values = texts_of(trials[name]).dropna().unique()
        if len(values) > 1:
            return shlex.quote(f"{name}={values[0]}")
    return None


def _of_scenario(wanted: FigureOptions, data: Data) -> FigureOptions:
    """Name the scenario in titles, if all runs have the same."""
    if wanted.machines is not None or wanted.look.of:  # a file, of no scenario
        return wanted
    names = set(data.trials["scenario"].dropna())
    if len(names) != 1:
        return wanted
    return replace(wanted, look=replace(wanted.look, of=str(names.pop())))


@dataclass(frozen=True)
class Possible:
    """A figure for which there is data: its name, its description, and itself."""

    name: str
    about: str
    figure: Figure


def possible(
    data: Data, wanted: FigureOptions | None = None, *, own: bool = False
) -> Iterator[Possible]:
    """Yield all figures for which there is data; also relative to the first series.

    Only those that a run gets by itself with ``own``.
    """
    how = _of_scenario(wanted or FigureOptions(), data)
    relative = replace(how, messages=replace(how.messages, relative=True))
    for kind, drawing in KINDS.items():
        if own and not drawing.own:
            continue
        ways = [(kind.value, kind.about, how)]
        if drawing.relative:
            ways.append((f"{kind}-relative", f"{kind.about}, relative", relative))
        for name, about, way in ways:
            try:
                yield Possible(name, about, drawing.draw(data, way))
            except NothingToDrawError:
                continue


def draw_figures(run: Path) -> list[Path]:
    """Draw the figures of a run into its directory, as PNG and SVG, and return the paths.

    The files are called as the kinds. A figure that would show no point is not drawn. Raises
    StorageError.
    """
    paths: list[Path] = []
    for one in possible(Data(run), own=True):
        with contextlib.suppress(NothingToDrawError):  # its words leave no room for it
            paths += save(one.figure, run, one.name)
    return paths
