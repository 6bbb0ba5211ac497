"""All figures by their names, and those that a run gets by itself.

``figure("btc-connections", "results/*")`` returns a figure of matplotlib; ``KINDS`` has the names
and what they show, and ``possible`` those that runs have the data for. ``write`` in
``osmef.report.style`` saves one as SVG, PNG or PDF. Each kind is a function of its own on frames,
such as ``osmef.report.btc.btc_connections``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path

from matplotlib.figure import Figure

from osmef.analysis.price import price_performance
from osmef.analysis.similarity import COMPONENTS, machine_vectors, similarity_matrix
from osmef.errors import InputError, NothingToDrawError
from osmef.report import pingpong
from osmef.report.btc import btc_connections, btc_distance, cpu, fairness
from osmef.report.data import Data, read_table
from osmef.report.distribution import latency
from osmef.report.intervals import intervals
from osmef.report.limits import limits
from osmef.report.look import Look
from osmef.report.machines import price, similarity
from osmef.report.metric import chosen
from osmef.report.pingpong import Messages
from osmef.report.spread import cov, ecdf, sessions
from osmef.report.style import save
from osmef.report.sweep import sweep_throughput, sweep_time
from osmef.report.topology import topology
from osmef.report.udp import udp_jitter, udp_loss


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a figure: its look, and what only some kinds have.

    ``messages`` is for the kinds of ping-pong. ``whole`` is the CPU load of whole endpoints.
    ``metrics`` are for ecdf, sessions, cov and price; all but cov take one. ``prices`` is a CSV
    file with the columns of ``osmef.analysis.price``, ``flavor`` the column that tells flavors
    apart, and ``machines`` a CSV file with the columns of ``osmef.analysis.similarity``.
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
class Kind:
    """A kind of figure: what it shows, and what draws it; ``own`` is drawn for every run."""

    about: str
    draw: Callable[[Data, Wanted], Figure]
    own: bool = True


def _messages(kind: pingpong.Kind) -> Callable[[Data, Wanted], Figure]:
    return lambda data, wanted: pingpong.messages(
        data.requests, data.trials, kind, wanted.look, wanted.messages
    )


def _price(data: Data, wanted: Wanted) -> Figure:
    if wanted.prices is None:
        raise NothingToDrawError("prices are not known", cure="give a CSV file with --prices")
    metric = chosen(data.trials, wanted.metric)
    if wanted.flavor not in data.trials:
        raise InputError(
            f"the trials have no column {wanted.flavor!r}",
            where="--flavor",
            cure="give the column of the flavors, or of what is as good as one",
        )
    known = data.trials.rename(columns={wanted.flavor: "flavor"})
    results = known.groupby(["provider", "flavor"], sort=False)[metric].median().reset_index()
    return price(price_performance(results, read_table(wanted.prices), metric), metric, wanted.look)


def _similarity(_data: Data, wanted: Wanted) -> Figure:
    if wanted.machines is None:
        cure = "give a CSV file of measurements with --machines"
        raise NothingToDrawError("machine types are not known", cure=cure)
    table = read_table(wanted.machines)
    missing = [name for name in ("provider", "flavor", *COMPONENTS) if name not in table]
    if missing:
        raise InputError(
            f"the table has no column {', '.join(missing)}",
            where=str(wanted.machines),
            cure=f"give it the columns provider, flavor, {', '.join(COMPONENTS)}",
        )
    return similarity(similarity_matrix(machine_vectors(table)), wanted.look)


KINDS: dict[str, Kind] = {
    "btc-connections": Kind(
        "aggregate BTC against connections", lambda d, w: btc_connections(d.trials, w.look)
    ),
    "btc-distance": Kind(
        "BTC per connection against distance", lambda d, w: btc_distance(d.trials, w.look)
    ),
    "fairness": Kind(
        "Jain's index against connections", lambda d, w: fairness(d.trials, w.look), own=False
    ),
    "cpu": Kind(
        "CPU load of both ends", lambda d, w: cpu(d.trials, w.look, whole=w.whole), own=False
    ),
    "limits": Kind("what limited the connections", lambda d, w: limits(d.limits, d.trials, w.look)),
    "udp-loss": Kind("loss against offered rate", lambda d, w: udp_loss(d.trials, w.look)),
    "udp-jitter": Kind("jitter against offered rate", lambda d, w: udp_jitter(d.trials, w.look)),
    "latency": Kind(
        "how many round trips took longer", lambda d, w: latency(d.exchanges, d.trials, w.look)
    ),
    "sweep-throughput": Kind(
        "throughput against message size, NetPIPE",
        lambda d, w: sweep_throughput(d.sizes, d.trials, w.look),
    ),
    "sweep-time": Kind(
        "time of a message against its size, NetPIPE",
        lambda d, w: sweep_time(d.sizes, d.trials, w.look),
    ),
    "pingpong-transfer": Kind("transfer rate against message size", _messages(pingpong.TRANSFER)),
    "pingpong-latency": Kind("latency against message size", _messages(pingpong.LATENCY)),
    "intervals": Kind(
        "rate over time", lambda d, w: intervals(d.intervals, d.trials, w.look), own=False
    ),
    "topology": Kind(
        "endpoints in their hosts, with rates between them",
        lambda d, w: topology(d.endpoints, d.pairs, w.look),
        own=False,
    ),
    "ecdf": Kind(
        "distribution function of a metric",
        lambda d, w: ecdf(d.trials, w.look, metric=w.metric),
        own=False,
    ),
    "sessions": Kind(
        "box plots of a metric by session",
        lambda d, w: sessions(d.trials, w.look, metric=w.metric),
        own=False,
    ),
    "cov": Kind(
        "coefficient of variation",
        lambda d, w: cov(d.trials, w.look, metrics=w.metrics),
        own=False,
    ),
    "price": Kind("what is got for an hour's price", _price, own=False),
    "similarity": Kind("heatmap of how similar machine types are", _similarity, own=False),
    "pingpong-requests": Kind(
        "requests per second against message size", _messages(pingpong.REQUESTS)
    ),
}


def figure(kind: str, *paths: str | PathLike[str], wanted: Wanted | None = None) -> Figure:
    """Draw a kind of figure of the runs that paths name, as ``osmef.load`` takes them.

    Raises InputError for an unknown kind, a path without a run, and runs without the data.
    """
    return draw(kind, Data(*paths), wanted or Wanted())


def draw(kind: str, data: Data, wanted: Wanted) -> Figure:
    """Draw a kind of figure of frames that are read as they are needed. Raises InputError."""
    if kind not in KINDS:
        raise InputError(f"there is no figure {kind!r}", cure=f"give one of: {', '.join(KINDS)}")
    return KINDS[kind].draw(data, wanted)


def possible(
    data: Data, wanted: Wanted | None = None, *, own: bool = False
) -> Iterator[tuple[str, Figure]]:
    """Give all figures that the data have, by name; those relative to the first series as well.

    Only those that a run gets by itself with ``own``.
    """
    look = wanted or Wanted()
    relative = replace(look, messages=replace(look.messages, relative=True))
    for name, kind in KINDS.items():
        if own and not kind.own:
            continue
        both = {name: look} | ({f"{name}-relative": relative} if "pingpong" in name else {})
        for title, how in both.items():
            try:
                yield title, kind.draw(data, how)
            except NothingToDrawError:
                continue  # there are no data of this kind


def draw_figures(run: Path) -> list[Path]:
    """Draw the figures of a run into its directory, as PNG and SVG, and return the paths.

    The files are called as the kinds. A figure that would show no point is not drawn. Raises
    StorageError.
    """
    paths: list[Path] = []
    for name, drawn in possible(Data(run), own=True):
        paths += save(drawn, run, name)
    return paths
