"""What programs tell of requests: rows of ping-pong, one a message size."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from osmef.importers.record import RECEIVER, SENDER
from osmef.results.exchange import Request


def message(  # noqa: PLR0913 - what a row has
    size: int, *, time_s: float | None, length: int | None, relayed: bool = False,
    code: int | None = 200, retries: int | None = None, error: str | None = None,
) -> Request:  # fmt: skip
    """Return a row of the requests; a row of a program may stand for the mean of several."""
    return Request(
        trial=0,
        purpose="measured",
        sender=SENDER,
        receiver=RECEIVER,
        size=size,
        intended_start_s=None,
        duration_s=None if relayed else time_s,
        relay_s=time_s if relayed else None,
        code=code,
        length=length,
        retries=retries,
        error=error,
    )


def message_metrics(rows: Sequence[Request]) -> dict[str, float | None]:
    """Return time and rate over the rows that went well, each counted as one request.

    ``transfer_rate_bytes_per_s`` = sum(length) / sum(time) (Kratzke and Quint, CLOSER 2016). None
    where no row went well.
    """
    good = [
        (row.relay_s or row.duration_s, row.length)
        for row in rows
        if row.error is None and row.length is not None
    ]
    times = [time for time, _length in good if time]
    total = sum(times)
    moved = sum(length or 0 for _time, length in good)
    return {
        "transfer_rate_bytes_per_s": moved / total if total else None,
        "time_mean_us": 1e6 * statistics.fmean(times) if times else None,
        "time_p50_us": 1e6 * statistics.median(times) if times else None,
        "time_max_us": 1e6 * max(times) if times else None,
    }
