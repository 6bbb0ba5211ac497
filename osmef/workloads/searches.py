"""Search for the highest rate of datagrams with an allowed loss: its steps."""

from __future__ import annotations

from collections.abc import Sequence

from osmef.analysis.throughput import Bounds, Next, Tried, next_trial, passes, throughput
from osmef.results.measure import Measure
from osmef.results.observations import Datagrams, RateSearch, RateTried, SearchEnding

_SOURCE = "RFC 1242, section 3.17, with a loss that is allowed; RFC 2544, section 26.1"
FOUND = (
    Measure(
        name="throughput_bps", unit="bit/s", better="higher", label="throughput",
        head="throughput", over_pairs="sum", leading=True,
        help="the highest rate of payload at which no more was lost than `search.loss`, for"
        " `duration`; `null` where there was none",
        source=_SOURCE,
    ),
    Measure(
        name="throughput_datagrams_per_s", unit="1/s", better="higher",
        label="throughput in datagrams", head="datagrams\n/s", digits=".0f", over_pairs="sum",
        help="the same in datagrams per second; one is a packet up to the path's MTU",
        source=_SOURCE,
    ),
    Measure(
        name="refused_bps", unit="bit/s", better="neither", label="refused rate",
        head="refused\nat", over_pairs="sum", spare=True,
        help="the lowest rate above that which did not pass: the highest one is in between; `null`"
        " where the highest that was tried passed",
        source=_SOURCE,
    ),
    Measure(
        name="search_steps", unit="1", better="neither", label="steps of the search",
        over_pairs="only", least=1, help="rates that were tried", source="OSMeF",
    ),
)  # fmt: skip

Steps = Sequence[Sequence[Datagrams]]
"""The flows of all pairs in each step, in the order of the steps."""


def tried_so_far(bounds: Bounds, steps: Steps) -> list[Tried]:
    """Return the result of each step, at rates of one flow.

    The rate that was offered in each follows from what came before it.
    """
    tried: list[Tried] = []
    for records in steps:
        wanted = next_trial(bounds, tried)
        if wanted is None:  # nobody runs what is not wanted
            break
        tried.append(_tried(wanted, records))
    return tried


def _tried(wanted: Next, records: Sequence[Datagrams]) -> Tried:
    sending = [flow.sent_bps or 0.0 for one in records for flow in one.sender.flows]
    sent, lost, _ = _counts(records)
    return Tried(
        offered_bps=wanted.offered_bps,
        sent_bps=sum(sending) / len(sending),
        loss=lost / sent if sent else 0.0,
        is_full=wanted.is_full,
    )


def _counts(records: Sequence[Datagrams]) -> tuple[int, int, int | None]:
    """Return the numbers of sent, lost, and receiver-dropped datagrams."""
    flows = [flow for one in records for flow in one.receiver.flows]
    known = [flow.dropped for flow in flows if flow.dropped is not None]
    drops = sum(known) if len(known) == len(flows) else None
    return sum(flow.sent for flow in flows), sum(flow.lost for flow in flows), drops


def search_found(bounds: Bounds, steps: Steps, lengths_s: tuple[float, float]) -> RateSearch:
    """Return the result of a search, of all flows together.

    ``lengths_s`` are those of a short and of a full step.
    """
    tried = tried_so_far(bounds, steps)
    found, flows = throughput(bounds, tried), len([f for one in steps[0] for f in one.sender.flows])
    counted = zip(tried, map(_counts, steps), strict=True)
    return RateSearch(
        loss_percent=100 * bounds.loss,
        ended=SearchEnding(found.ended.value),
        passed_bps=None if found.passed_bps is None else flows * found.passed_bps,
        refused_bps=None if found.refused_bps is None else flows * found.refused_bps,
        tried=[
            RateTried(
                offered_bps=flows * one.offered_bps,
                sent_bps=flows * one.sent_bps,
                length_s=lengths_s[one.is_full],
                datagrams=sent,
                lost=lost,
                receiver_drops=drops,
                passed=passes(one, bounds),
            )
            for one, (sent, lost, drops) in counted
        ],
    )


def confirming(bounds: Bounds, steps: Steps) -> int | None:
    """Return the step that confirmed the highest rate, from 0; None without any."""
    tried = tried_so_far(bounds, steps)
    confirmed = throughput(bounds, tried).confirmed
    return None if confirmed is None else tried.index(confirmed)


def search_metrics(found: RateSearch, size: int) -> dict[str, float | None]:
    """Return the metrics of a search with datagrams of so many bytes of payload."""
    passed = found.passed_bps
    return {
        "throughput_bps": passed,
        "throughput_datagrams_per_s": None if passed is None else passed / (8 * size),
        "refused_bps": found.refused_bps,
        "search_steps": float(len(found.tried)),
    }
