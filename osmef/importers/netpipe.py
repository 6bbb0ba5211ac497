"""Importer of NetPIPE's sweeps, by ``osmef.workloads.kinds.netpipe``."""

from __future__ import annotations

from osmef.analysis.throughput import half_performance_length, shortest_times, total_rates
from osmef.errors import OutputError
from osmef.importers.record import RECEIVER, SENDER, Parsed, Record, Text, placed, refused
from osmef.results.observations import Purpose, SizePoint, SweepMode
from osmef.results.trial import Failure
from osmef.workloads.kinds.netpipe import NetpipeOutput, Point, read_all


def parse(text: Text) -> Parsed:
    """Read a sweep over message sizes on one connection; np.out has no options.

    In printed output the highest rate shows whether both directions were used at once (-2); that is
    a value, ``mode``. All else counts as a ping-pong. Printed output of an unfinished sweep is a
    failed trial. Metrics: latency_min_us, the time of the smallest message, throughput_max_bps,
    n_half_bytes and sizes_measured. Raises InputError.
    """
    try:
        outputs = read_all(text.text)
    except OutputError as error:
        raise refused(error, text) from None
    return Parsed([_record(sweep) for sweep in outputs.found], placed(text, outputs))


def _record(sweep: NetpipeOutput) -> Record:
    mode = SweepMode.BOTH if sweep.both_ways else SweepMode.PINGPONG
    points = [_point(point, mode) for point in sweep.points]
    rates, times = total_rates(points), shortest_times(points)
    return Record(
        workload="size-sweep",
        metrics={
            "latency_min_us": times[min(times)] if mode is SweepMode.PINGPONG else None,
            "throughput_max_bps": max(rates.values()),
            "n_half_bytes": half_performance_length(rates),
            "sizes_measured": float(len(rates)),
        },
        values={} if sweep.both_ways is None else {"mode": mode.value},
        connections=1,
        sizes=points,
        failure=None if sweep.error is None else Failure(kind="netpipe", message=sweep.error),
    )


def _point(point: Point, mode: SweepMode) -> SizePoint:
    return SizePoint(
        purpose=Purpose.MEASURED,
        sender=SENDER,
        receiver=RECEIVER,
        flow=0,
        mode=mode if point.times is not None else SweepMode.PINGPONG,
        checked=False,
        size=point.size_bytes,
        repetitions=point.times,
        trials=None,
        time_min_us=point.time_us,
        time_median_us=None,
        time_max_us=None,
        throughput_bps=point.bps,
    )
