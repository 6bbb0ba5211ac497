"""What agents in memory tell of requests and responses, and of sweeps over sizes."""

from __future__ import annotations

from tests.memory.model import (
    Event,
    Path,
    distribution,
    endpoint_use,
    histogram,
    process_use,
    tcp_state,
    thread_use,
)
from tests.memory.work import Run


def _begin(run: Run, job: str) -> Event:
    return {
        "event": "result",
        "job": job,
        "role": "receiver" if run.listens else "sender",
        "start_realtime_ns": run.start_ns,
        "refused": 0,
    }


def _hand(run: Run, elapsed_s: float, sent_bytes: int) -> Event:
    tcp = tcp_state(run.path, elapsed_s, sent_bytes)
    return {**thread_use(elapsed_s), "last_cpu": 0, "tcp": tcp | {"receive_rtt_us": None}}


def _use(elapsed_s: float) -> Event:
    return {"process": process_use(elapsed_s), "endpoint": endpoint_use(elapsed_s)}


def exchange_count(run: Run) -> int:
    """Return how many exchanges a flow makes: one after the other, or at its rate."""
    path, per_s = run.path, run.number("rate_per_s")
    shortest_us = path.loaded_rtt_us if run.loaded else path.rtt_us
    mean_us = sum(share * times for share, times in path.tail) * shortest_us
    return round(run.number("duration_s") * (per_s or 1e6 / mean_us))


def exchange(run: Run) -> list[Event]:
    """Return what an end of an exchange tells; only the one that asks has times."""
    sent, elapsed_s = exchange_count(run), run.number("duration_s")
    protocol = run.command.get("protocol", "tcp")
    lost = round(run.path.loss * sent) if protocol in {"udp", "icmp"} else None
    count = sent - (lost or 0)
    flows = int(run.command["connections"])
    times = run.path.round_trips_ns(count, loaded=run.loaded)
    hand = _hand(run, elapsed_s, count * int(run.number("request_size", 1)))
    told: Event = {"elapsed_s": elapsed_s, "count": flows * count}
    each: Event = {"count": count}
    if run.listens and protocol == "icmp":  # the kernel answers
        told["count"] = each["count"] = 0
    if not run.listens:
        waited = {"lost": None if lost is None else flows * lost, "late": 0, "unsent": 0}
        every = {ns: flows * number for ns, number in times.items()}
        each = {**distribution(times), **waited, "lost": lost}
        told = {"elapsed_s": elapsed_s, **distribution(every), **waited}
        told["histogram"] = histogram(every)
        if run.number("rate_per_s"):
            told["response"] = {**distribution(every), "histogram": histogram(every)}
    told["flows"] = [{"flow": flow, **each, **hand} for flow in range(flows)]
    return [_begin(run, "exchange") | told | _use(elapsed_s)]


def sweep_sizes(low: int, high: int, perturbation: int) -> list[int]:
    """Return the sizes of a sweep: both ends, powers of two, half steps, and beside each."""
    found: list[int] = []

    def add(size: int) -> None:
        if low <= size <= high and size > (found[-1] if found else 0):
            found.append(size)

    def step(size: int, width: int) -> None:
        beside = perturbation if width > 2 * perturbation else 0
        for one in (size - beside, size, size + beside):
            add(one)

    add(low)
    step(1, 1)
    power = 2
    while power <= high + perturbation:
        step(power, power // 2)
        step(power + power // 2, power // 2)
        power *= 2
    add(high)
    return found


def message_us(path: Path, size: int, mode: str, rate_bps: float) -> float:
    """Return how long a message takes, in microseconds; in a ping-pong its way counts, too."""
    way_us = path.rtt_us / 2 if mode == "pingpong" else 1.0
    return way_us + 8e6 * size / rate_bps


def sizes(run: Run) -> list[Event]:
    """Return what an end of a size sweep tells: its points, of those that fit, and its result."""
    mode, flows = str(run.command.get("mode", "pingpong")), int(run.command["connections"])
    low, high = int(run.number("min_size", 1)), int(run.number("max_size", 8 << 20))
    plan = sweep_sizes(low, high, int(run.number("perturbation", 3)))
    point_s, trials = run.number("point_s", 0.5), int(run.number("trials", 3))
    done = plan[: int(run.number("duration_s") / point_s)]
    rates = run.path.rates_in(run.trial, flows)
    points: list[Event] = []
    messages = 0
    for size in done:
        times = [message_us(run.path, size, mode, rate_bps) for rate_bps in rates]
        there_and_back = 2 if mode == "pingpong" else 1
        fitting = int(1e6 * point_s / trials / (there_and_back * max(times)))
        each = max(fitting, int(run.number("min_repetitions", 3)))
        messages += there_and_back * trials * each
        points.append(_point(size, trials, trials * each, times))
    elapsed_s = point_s * len(done)
    told: Event = {"elapsed_s": elapsed_s, "mode": mode, "check": bool(run.command.get("check"))}
    if not run.listens:
        told |= {"points": len(done), "complete": len(done) == len(plan)}
    hand = _hand(run, elapsed_s, sum(done))
    told["flows"] = [{"flow": flow, "messages": messages, **hand} for flow in range(flows)]
    result = _begin(run, "sizes") | told | _use(elapsed_s)
    return [result] if run.listens else [*points, result]


def _point(size: int, trials: int, repetitions: int, times: list[float]) -> Event:
    spread = {"min": 1.0, "median": 1.25, "max": 2.0}
    return {
        "event": "point",
        "size": size,
        "repetitions": repetitions,
        "trials": trials,
        **{f"time_{name}_us": [factor * us for us in times] for name, factor in spread.items()},
        "time_slowest_us": 1.25 * max(times),
    }
