"""The table of a run for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from osmef.report.series import other_than_asked, short_names, shown_values, written
from osmef.results.limits import Limit
from osmef.results.summary import CellInfo, Metric, Summary
from osmef.scenario.fields import Placement, Tenancy
from osmef.scenario.study import Scalar
from osmef.units import format_rate, rate_unit

_NOTHING = "-"
_SHORT: dict[object, str] = {
    Placement.SAME_HOST: "same",
    Placement.DIFFERENT_HOST: "other",
    Tenancy.SAME_TENANT: "same",
    Tenancy.DIFFERENT_TENANT: "other",
}
_LIMITS = {
    Limit.SENDER_CPU: "CPU tx",
    Limit.RECEIVER_CPU: "CPU rx",
    Limit.RECEIVE_WINDOW: "window",
    Limit.SEND_BUFFER: "buffer",
    Limit.NETWORK: "net",
    Limit.SENDER_IDLE: "idle",
    Limit.INCONCLUSIVE: "?",
}


@dataclass(frozen=True)
class _Column:
    """A column of one metric; ``form`` is its format, a rate's with a prefix if empty."""

    head: str
    metric: str
    form: str = ""


_CPU = (
    _Column("CPU\nsend\n%", "cpu_sender_percent", ".0f"),
    _Column("CPU\nrecv\n%", "cpu_receiver_percent", ".0f"),
)
# The first of each kind is the one whose interval is shown.
_COLUMNS = {
    "btc": (
        _Column("aggregate\nBTC", "aggregate_btc_bps"),
        _Column("BTC per\nconnection", "connection_btc_bps"),
        _Column("aggregate\nreverse", "reverse_aggregate_btc_bps"),
        _Column("J", "jain_fairness", ".3f"),
        *_CPU,
        _Column("retr.", "retransmits", ".0f"),
        _Column("RTT\nµs", "rtt_mean_us", ".0f"),
    ),
    "latency": (
        _Column("RTT\np50\nµs", "rtt_p50_us", ".0f"),
        _Column("RTT\np99\nµs", "rtt_p99_us", ".0f"),
        _Column("done\n/s", "exchanges_per_s", ".0f"),
        _Column("idle\np50\nµs", "idle_rtt_p50_us", ".0f"),
        _Column("idle\np99\nµs", "idle_rtt_p99_us", ".0f"),
        _Column("loaded\np50\nµs", "loaded_rtt_p50_us", ".0f"),
        _Column("loaded\np99\nµs", "loaded_rtt_p99_us", ".0f"),
        _Column("ratio of\nmedians", "latency_increase_ratio", ".1f"),
        _Column("loaded\ndone\n/s", "loaded_exchanges_per_s", ".0f"),
        _Column("background\nBTC", "background_aggregate_btc_bps"),
        _Column("background\ngoodput", "background_goodput_bps"),
    ),
    "size-sweep": (
        _Column("smallest\nmessage\nµs", "latency_min_us", ".1f"),
        _Column("highest\nthroughput", "throughput_max_bps"),
        _Column("half of it\nfrom B", "n_half_bytes", ".0f"),
        _Column("sizes", "sizes_measured", ".0f"),
    ),
    "udp": (
        _Column("goodput", "goodput_bps"),
        _Column("sent", "sent_bps"),
        _Column("loss\n%", "loss_percent", ".2f"),
        _Column("reverse\ngoodput", "reverse_goodput_bps"),
        _Column("reverse\nloss\n%", "reverse_loss_percent", ".2f"),
        _Column("recv.\ndrops", "receiver_drops", ".0f"),
        _Column("reord.\n%", "reordered_percent", ".2f"),
        _Column("dup.\n%", "duplicate_percent", ".2f"),
        _Column("jitter\nµs", "jitter_us", ".1f"),
        *_CPU,
    ),
    "pingpong": (
        _Column("goodput", "goodput_bps"),
        _Column("requests\n/s", "requests_per_s", ".0f"),
        _Column("time\nmedian\nµs", "time_p50_us", ".0f"),
        _Column("time\n99 %\nµs", "time_p99_us", ".0f"),
        _Column("request\n99 %\nµs", "request_p99_us", ".0f"),
        _Column("failed", "failed_requests", ".0f"),
        _Column("retries", "retries", ".0f"),
        *_CPU,
    ),
}
_HEADS = {"placement": "host", "tenancy": "tenant", "connections": "conn."}


def summary_table(summary: Summary) -> Table:
    """Return the cells of a run, one row each; fits 100 columns with the paper's sweep.

    Numbers are medians over the trials, with the exact 95 % interval of the first one where there
    is any. CPU is the agent's, in percent of one CPU; retransmits are segments, RTT microseconds.
    """
    same = _same(summary)
    told = dict.fromkeys(key for cell in summary.cells for key in shown_values(cell))
    swept = [key for key in told if key not in same]
    columns = _columns(summary)
    interval = any(_interval(cell, columns) for cell in summary.cells)
    table = Table(
        title=Text(f"{summary.run.scenario}  {summary.run.description}".strip(), style="bold"),
        title_justify="left",
        caption=Text("\n".join([_caption(summary, interval=interval), *_told(same)])),
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=0,
    )
    for key, name in short_names(swept).items():
        table.add_column(Text(_HEADS.get(key, name)))
    heads = ["dist.", "ok", *(column.head for column in columns)]
    if interval:
        heads.insert(3, "95 %\ninterval")
    limits = any(cell.limited_by for cell in summary.cells)
    if limits:
        heads.append("limit")
    for head in heads:
        table.add_column(Text(head), justify="right", no_wrap=True)
    for cell in summary.cells:
        values = [_value(cell, key) for key in swept]
        last = [Text(_limit(cell))] if limits else []
        table.add_row(*values, *_numbers(cell, columns, interval=interval), *last)
    return keep_whole(table)


def _same(summary: Summary) -> dict[str, Scalar]:
    """Return what an imported run tells of all of its cells alike; a sweep has no such values."""
    if summary.run.scenario_digest is not None or len(summary.cells) < 2:
        return {}
    first, *others = (cell.values for cell in summary.cells)
    return {
        key: value
        for key, value in first.items()
        if all(key in other and other[key] == value for other in others)
    }


def _told(same: Mapping[str, Scalar]) -> list[str]:
    values = ", ".join(f"{key} {_short(value)}" for key, value in same.items())
    return [f"All cells: {values}."] if same else []


def leading_metrics(summary: Summary) -> list[str]:
    """Return the metrics of the table, in its order; the first of each workload leads."""
    return [column.metric for column in _columns(summary)]


def keep_whole(table: Table) -> Table:
    """Let nothing of a table be cut off where the terminal is narrow, or is none; return it."""
    wide = Console(width=1000)
    table.width = Measurement.get(wide, wide.options, table).maximum
    return table


def _columns(summary: Summary) -> list[_Column]:
    """Return the columns of the run's workloads, as far as they have such a metric."""
    kinds = {cell.workload for cell in summary.cells}
    metrics = {name for cell in summary.cells for name in cell.metrics}
    of_kinds = [c for kind, columns in _COLUMNS.items() if kind in kinds for c in columns]
    known = [column for column in dict.fromkeys(of_kinds) if column.metric in metrics]
    # Imported, of a program that OSMeF does not run.
    foreign = {name for cell in summary.cells if cell.workload not in _COLUMNS
               for name in cell.metrics}  # fmt: skip
    more = sorted(foreign - {column.metric for column in known})
    return [*known, *(_Column(name.replace("_", "\n"), name, ".6g") for name in more)]


def _numbers(cell: CellInfo, columns: Sequence[_Column], *, interval: bool) -> list[Text]:
    texts = [
        _distance(cell),
        Text(f"{cell.n_ok}/{cell.n_ok + cell.n_failed}", style="red" if cell.n_failed else ""),
        *(Text(_shown(cell, column)) for column in columns),
    ]
    if interval:
        texts.insert(3, Text(_interval(cell, columns) or _NOTHING))
    return texts


def _distance(cell: CellInfo) -> Text:
    achieved = "?" if cell.distance is None else str(cell.distance)
    if cell.requested_distance in (None, cell.distance):
        return Text(achieved)
    return Text(f"{achieved} not {cell.requested_distance}", style="yellow")


def _limit(cell: CellInfo) -> str:
    """Return in short what limited more than half of the connections of the cell."""
    if not cell.limited_by:
        return _NOTHING
    limit = max(cell.limited_by, key=lambda one: cell.limited_by[one])
    most = 2 * cell.limited_by[limit] > sum(cell.limited_by.values())
    return _LIMITS.get(limit, limit.value) if most else "mixed"


def _value(cell: CellInfo, key: str) -> Text:
    """Return a swept value in words; placement and tenancy in short, and as they really were."""
    other = other_than_asked(cell)
    if key not in other:
        return Text(_short(cell.values.get(key)))
    achieved, asked = other[key]
    shown = "?" if achieved is None else _short(achieved)
    if asked is Placement.ANY:
        return Text(f"any: {shown}")
    return Text(f"{shown} not {_short(asked)}", style="yellow")


def _short(value: Scalar) -> str:
    return _NOTHING if value is None else _SHORT.get(value, written(value))


def _median(cell: CellInfo, name: str) -> float | None:
    metric = cell.metrics.get(name)
    return metric.median if metric else None


def _shown(cell: CellInfo, column: _Column) -> str:
    median = _median(cell, column.metric)
    if median is None:
        return _NOTHING
    return format(median, column.form) if column.form else format_rate(median)


def _interval(cell: CellInfo, columns: Sequence[_Column]) -> str | None:
    """Return the interval of the leading number in the unit that its median is shown in.

    What leads a workload of another program is the first of the ``columns``.
    """
    leading = _COLUMNS.get(cell.workload, columns)
    metric: Metric | None = cell.metrics.get(leading[0].metric) if leading else None
    if metric is None or metric.median is None:
        return None
    if metric.ci95_low is None or metric.ci95_high is None:
        return None
    ends = (metric.ci95_low, metric.ci95_high)
    if form := leading[0].form:
        return "..".join(format(end, form) for end in ends)
    divisor, _unit = rate_unit(metric.median)
    return "..".join(f"{end:.0f}" if end >= 100 else f"{end:.3g}" for end in
                     (end / divisor for end in ends))  # fmt: skip


def _caption(summary: Summary, *, interval: bool) -> str:
    told = "Medians of the trials; too few (n < 6) for an interval of 95 %."
    if interval:
        told = "Medians of the trials; the interval is that of the first number's median."
    sites = ", ".join(f"{name} ({kind})" for name, kind in summary.run.sites.items())
    return f"{told}\nSites: {sites}." if sites else told
