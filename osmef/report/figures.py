"""All figures by their names, and those that a run gets by itself.

``figure("btc-connections", "results/*")`` returns a figure of matplotlib; ``KINDS`` has the names
and what they show, and ``possible`` those that runs have the data for. ``write`` in
``osmef.report.style`` saves one as SVG, PNG or PDF. Each kind is a function of its own on frames,
such as ``osmef.report.btc.btc_connections``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path

from matplotlib.figure import Figure

from osmef.errors import InputError, NothingToDrawError
from osmef.report import pingpong
from osmef.report.btc import btc_connections, btc_distance, cpu, fairness
from osmef.report.data import Data
from osmef.report.distribution import latency
from osmef.report.limits import limits
from osmef.report.look import Look
from osmef.report.pingpong import Messages
from osmef.report.style import save
from osmef.report.sweep import sweep_throughput, sweep_time
from osmef.report.udp import udp_jitter, udp_loss


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a figure: its look, and what only some kinds have.

    ``messages`` is for the kinds of ping-pong. ``whole`` is the CPU load of whole endpoints.
    """

    look: Look = field(default_factory=Look)
    messages: Messages = field(default_factory=Messages)
    whole: bool = False


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
