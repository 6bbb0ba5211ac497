"""What several programs of the field tell: each number declared once, for all of them."""

from __future__ import annotations

from osmef.results.measure import Better, Component, Measure, OverPairs


def _time(name: str, told: str, **more: object) -> Measure:
    over = OverPairs.MEAN if name.endswith("_mean_us") else OverPairs.WORST
    return Measure(
        name=name, unit="us", better=Better.LOWER, help=told, over_pairs=over, **more
    )  # fmt: skip


def _times(of: str, label: str, what: str) -> tuple[Measure, ...]:
    """Return the mean, the quantiles and the longest of times; the median and p99 have columns."""
    quantiles = {"p50": "50", "p90": "90", "p99": "99", "p999": "99.9"}
    shown: dict[str, dict[str, object]] = {
        one: {"head": f"{label}\n{one}\nµs", "digits": ".1f", "leading": one == "p50"}
        for one in ("p50", "p99")
    }
    return (
        _time(f"{of}_min_us", f"shortest {what}", label=f"{label} min"),
        _time(f"{of}_mean_us", f"mean {what}", label=f"{label} mean"),
        *(
            _time(
                f"{of}_{name}_us", f"{percent} % of these times are not longer: {what}",
                label=f"{label} {name}", **shown.get(name, {}),
            )
            for name, percent in quantiles.items()
        ),
        _time(f"{of}_max_us", f"longest {what}", label=f"{label} max"),
    )  # fmt: skip


_ALL = (
    Measure(
        name="goodput_bps", unit="bit/s", better=Better.HIGHER, label="goodput", head="goodput",
        over_pairs=OverPairs.SUM, leading=True, component=Component.NETWORK,
        help="what the receiver got, per second; summed over connections and pairs",
    ),
    Measure(
        name="sent_bps", unit="bit/s", better=Better.NEITHER, label="sent",
        over_pairs=OverPairs.SUM, help="what the sender sent, per second",
    ),
    Measure(
        name="retransmits", unit="1", better=Better.LOWER, head="retr.", digits=".0f",
        over_pairs=OverPairs.SUM, help="segments that were sent again, TCP",
    ),
    Measure(
        name="loss_percent", unit="%", better=Better.LOWER, head="loss\n%", digits=".2f",
        over_pairs=OverPairs.WORST, help="datagrams that were lost, UDP",
    ),
    Measure(
        name="jitter_us", unit="us", better=Better.LOWER, label="jitter", head="jitter\nµs",
        digits=".1f", over_pairs=OverPairs.WORST, help="interarrival jitter of the datagrams, UDP",
    ),
    Measure(
        name="exchanges_per_s", unit="1/s", better=Better.HIGHER, label="exchanges",
        head="done\n/s", digits=".0f", over_pairs=OverPairs.SUM,
        help="requests with their responses, per second; summed over the pairs",
    ),
    *_times("rtt", "RTT", "time from a request to its response"),
    Measure(
        name="requests_per_s", unit="1/s", better=Better.HIGHER, label="requests",
        head="requests\n/s", digits=".0f", over_pairs=OverPairs.SUM, leading=True,
        help="requests that were answered, per second; summed over the pairs",
    ),
    *_times("request", "request", "time from a request to the end of its answer"),
    Measure(
        name="received_bytes_per_s", unit="B/s", better=Better.HIGHER, label="received",
        digits=".4g", over_pairs=OverPairs.SUM, help="bytes of the answers with their heads",
    ),
    Measure(
        name="failed_requests", unit="1", better=Better.LOWER, head="failed", digits=".0f",
        over_pairs=OverPairs.SUM, least=1, help="requests without a good answer",
    ),
)  # fmt: skip
_BY_NAME = {one.name: one for one in _ALL}


def common(source: str, *names: str) -> tuple[Measure, ...]:
    """Return measures that several programs tell, as one of them defines them: its ``source``."""
    return tuple(_BY_NAME[name].model_copy(update={"source": source}) for name in names)


def lost_percent(sent: float | None, lost: float | None) -> float | None:
    """Return how many percent of what was sent were lost; None where nobody tells."""
    return None if not sent or lost is None else 100 * max(0.0, lost) / sent


def missing(sent: float | None, came: float | None) -> float | None:
    """Return what was sent and did not come; None where one of both is not told."""
    return None if sent is None or came is None else sent - came
