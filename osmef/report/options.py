"""Options of figures: their kinds, and the look: title, names, axes and size.

They are known without the slow import of the figures' modules.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from osmef.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes  # tables are made without matplotlib, too
    from matplotlib.axis import Axis  # tables are made without matplotlib, too
    from matplotlib.ticker import Formatter  # tables are made without matplotlib, too


class FigureKind(StrEnum):
    """A kind of figure; ``about`` describes it."""

    about: str

    def __new__(cls, name: str, about: str) -> FigureKind:
        """Create a member that equals its name."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.about = about
        return member

    BTC_CONNECTIONS = "btc-connections", "aggregate BTC against connections"
    BTC_DISTANCE = "btc-distance", "BTC per connection against distance"
    FAIRNESS = "fairness", "Jain's index of fairness against connections"
    CPU = "cpu", "CPU load of both ends against connections"
    LIMITS = "limits", "what limited the connections"
    INTERVALS = "intervals", "rate over time"
    BUCKET = "bucket", "what a token bucket let pass until it was empty, and how it fills"
    TOPOLOGY = "topology", "endpoints in their hosts, with the rates between them"
    UDP_LOSS = "udp-loss", "loss of UDP against the offered rate"
    UDP_JITTER = "udp-jitter", "jitter of UDP against the offered rate"
    LATENCY = "latency", "distribution of round-trip times: the share that took longer"
    COURSE = "course", "rate and round-trip time over time"
    SWEEP_THROUGHPUT = "sweep-throughput", "throughput against message size, as NetPIPE's"
    SWEEP_TIME = "sweep-time", "time of a message against its size, as NetPIPE's"
    SCALE_RATE = "scale-rate", "rate of a computation against the number of endpoints"
    SCALE_TIME = "scale-time", "time of a computation against the number of endpoints"
    PINGPONG_TRANSFER = "pingpong-transfer", "transfer rate of requests against message size"
    PINGPONG_LATENCY = "pingpong-latency", "latency of requests against message size"
    PINGPONG_REQUESTS = "pingpong-requests", "requests per second against message size"
    LAYERS = "layers", "what layers such as an overlay or a container leave of the bare rate"
    ECDF = "ecdf", "distribution function of a metric over the trials"
    SESSIONS = "sessions", "box plots of a metric by session"
    COV = "cov", "coefficient of variation of metrics"
    PRICE = "price", "what flavors deliver for their hourly price"
    SIMILARITY = "similarity", "heatmap of how similar machine types are"


@dataclass(frozen=True)
class Look:
    """Title, names, axes and size; None keeps the figure's own.

    ``of`` is what is shown, such as a scenario, before the figure's own title. ``names`` gives what
    the legend calls a series: by its whole label, or by one of the values that it is made of;
    ``known`` collects what could have been renamed so, while a figure is drawn with names. Ends
    of axes are in the unit that the axis has, sizes in bytes. ``x_ticks`` and ``y_ticks`` say about
    how many ticks there are. ``width`` and ``height`` are in inches.
    """

    title: str | None = None
    of: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    legend: bool = True
    x_label: str | None = None
    y_label: str | None = None
    x_min: float | None = None
    x_max: float | None = None
    y_min: float | None = None
    y_max: float | None = None
    x_log: bool | None = None
    y_log: bool | None = None
    x_ticks: int | None = None
    y_ticks: int | None = None
    width: float | None = None
    height: float | None = None
    known: dict[str, None] = field(default_factory=dict, repr=False, compare=False)

    def named(self, text: str) -> str:
        """Return the display name of a series, or of a value of its label."""
        if self.names and text:
            self.known[text] = None
        return self.names.get(text, text)

    @property
    def scales(self) -> str:
        """Say which axes are logarithmic, in a figure where both are by itself."""
        kept = [name for name, log in (("x", self.x_log), ("y", self.y_log)) if log is not False]
        if len(kept) == 1:
            return f"the axis of {kept[0]} is logarithmic"
        return "both axes are logarithmic" if kept else "both axes are linear"

    def check(self, labels: Iterable[str]) -> None:
        """Raise InputError where two series get the same name."""
        twice = [label for label, count in Counter(labels).items() if count > 1]
        if self.names and twice:
            cure = "give each a name of its own"
            raise InputError(f"several are called {twice[0]!r}", where="--name", cure=cure)

    def apply(self, axes: Axes) -> None:
        """Set the axes of a figure. Raises InputError for an axis that it does not have."""
        x_changes = self.x_log is not None and self.x_log != (axes.get_xscale() == "log")
        y_changes = self.y_log is not None and self.y_log != (axes.get_yscale() == "log")
        formatters = [axis.get_major_formatter() for axis in (axes.xaxis, axes.yaxis)]
        if x_changes:
            axes.set_xscale("log" if self.x_log else "linear")
        if y_changes:
            axes.set_yscale("log" if self.y_log else "linear")
        # Ends of a logarithmic axis are wide apart for a linear one.
        if x_changes and not self.x_log:
            axes.autoscale(axis="x")
        if y_changes and not self.y_log:
            axes.autoscale(axis="y")
        axes.set_xlim(_ends("x", axes.get_xscale(), axes.get_xlim(), (self.x_min, self.x_max)))
        axes.set_ylim(_ends("y", axes.get_yscale(), axes.get_ylim(), (self.y_min, self.y_max)))
        _set_ticks(axes.xaxis, self.x_ticks, formatters[0] if x_changes else None)
        _set_ticks(axes.yaxis, self.y_ticks, formatters[1] if y_changes else None)
        if self.x_label is not None:
            axes.set_xlabel(self.x_label)


_USUAL_TICKS = 6  # with units, of a panel beside another


def _ends(
    name: str,
    scale: str,
    drawn: tuple[float, float],
    wanted: tuple[float | None, float | None],
) -> tuple[float, float]:
    """Return the limits of an axis."""
    low, high = (own if one is None else one for own, one in zip(drawn, wanted, strict=True))
    if wanted == (None, None):
        return low, high
    if not (low < high and math.isfinite(high - low)):
        cure = "let it begin below its end"
        raise InputError(f"the axis of {name} would go from {low:g} to {high:g}", cure=cure)
    if scale == "log" and low <= 0:
        cure = "let it begin above 0, or be linear"
        raise InputError(f"the axis of {name} is logarithmic, and has no {low:g}", cure=cure)
    return low, high


def _set_ticks(axis: Axis, count: int | None, formatter: Formatter | None) -> None:
    """Set the number of ticks; ``formatter`` is that of an axis before its scale was changed."""
    if count is None and formatter is None:
        return
    from matplotlib.ticker import (  # noqa: PLC0415
        FuncFormatter,
        LogLocator,
        MaxNLocator,
        NullLocator,
    )

    wanted = count or _USUAL_TICKS
    if axis.get_scale() == "log":
        axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=wanted))
    else:
        axis.set_major_locator(MaxNLocator(wanted))
    axis.set_minor_locator(NullLocator())
    if isinstance(formatter, FuncFormatter):  # it may write the unit
        axis.set_major_formatter(formatter)
    elif formatter is not None:
        axis.set_major_formatter(FuncFormatter(lambda value, _position: f"{value:g}"))


PLAIN = Look()
"""Every figure as it is drawn by itself."""
