"""What agents in memory tell of HTTP: siege that asks, ping that passes on, and pong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.memory.model import Event, Path, endpoint_use, histogram, process_use, quantile_ns
from tests.memory.work import Run

# On top of what the path takes: siege's and ping's own work for each request.
RELAYING_US = 25.0
_HEAD_BYTES, _BATCH = 100, 1000
_STATUS, _BAD = 5, 503
_MASK = (1 << 64) - 1


def _random(seed: int) -> Iterator[int]:
    """Give SplitMix64's numbers of 64 bits (Steele, Lea, Flood 2014)."""
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        yield z ^ (z >> 31)


def asked_sizes(run: Run) -> list[int]:
    """Return the sizes that a siege asks for, in its order: the agent draws the same ones."""
    numbers = _random(int(run.number("seed")))

    def below(limit: int) -> int:
        return ((next(numbers) >> 32) * limit) >> 32

    listed = str(run.command.get("sizes") or "")
    low, high = int(run.number("size_min", 1)), int(run.number("size_max", 500_000))
    if listed:
        drawn = [int(size) for size in listed.split(",")]
    else:
        count = int((high - low + 1) * run.number("coverage", 0.05) + 0.5) or 1
        drawn = [low + below(high - low + 1) for _ in range(count)]
    found = drawn * int(run.number("repetitions", 1))
    for at in range(len(found) - 1, 0, -1):
        other = below(at + 1)
        found[at], found[other] = found[other], found[at]
    return found


@dataclass(frozen=True)
class Shot:
    """One request: when it was due and how long it took, in microseconds, and its answer."""

    size: int
    start_us: float
    duration_us: float
    relay_us: float | None
    code: int
    length: int

    @property
    def is_good(self) -> bool:
        """Whether it got a good answer."""
        return self.code != _BAD


def relay_us(path: Path, size: int) -> float:
    """Return how long pong's answer takes, as ping or a siege without ping measures it."""
    return round(path.rtt_us + 8e6 * max(size, 4) / path.rate_bps, 3)


def shots(run: Run) -> list[Shot]:
    """Return the requests of a siege, on as many connections as it has, in the order of starts."""
    asks_ping = str(run.command.get("path", "/mping/")).startswith("/mping/")
    per_s = run.number("rate_per_s")
    free_us = [0.0] * int(run.number("connections", 1))
    found: list[Shot] = []
    for number, size in enumerate(asked_sizes(run), 1):
        gun = free_us.index(min(free_us))
        due_us = 1e6 * (number - 1) / per_s if per_s else free_us[gun]
        answer_us = relay_us(run.path, size)
        taken_us = answer_us + (RELAYING_US if asks_ping else 0.0)
        free_us[gun] = max(due_us, free_us[gun]) + taken_us
        bad = bool(run.path.bad_every) and number % run.path.bad_every == 0
        found.append(
            Shot(
                *(size, round(due_us, 3), round(free_us[gun] - due_us, 3)),
                *(answer_us if asks_ping else None, _BAD if bad else 200, max(size, 4)),
            )
        )
    return found


def siege(run: Run) -> list[Event]:
    """Return what a siege tells: its requests, and its result."""
    made = shots(run)
    asks_ping = made[0].relay_us is not None
    good = [shot for shot in made if shot.is_good]
    elapsed_s = max(shot.start_us + shot.duration_us for shot in made) / 1e6
    length = sum(shot.length for shot in good)
    times = Counter(round(1000 * shot.duration_us) for shot in good)
    ranks = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}
    shown = {
        name: None if (ns := quantile_ns(times, rank)) is None else ns / 1000
        for name, rank in ranks.items()
    }
    failed = len(made) - len(good)
    no_errors = dict.fromkeys(("connect", "timeout", "closed", "protocol"), 0)
    result = {
        "event": "result",
        "job": "siege",
        "start_realtime_ns": run.start_ns,
        "elapsed_s": elapsed_s,
        "requests": len(made),
        "failed": failed,
        "errors": {**no_errors, "status": failed},
        "requests_per_s": len(good) / elapsed_s,
        "length": length,
        "received_bytes": length + _HEAD_BYTES * len(made),
        "connections": int(run.number("connections", 1)),
        "retries": 0 if asks_ping else None,
        "duration_us": shown,
        "histogram": histogram(times),
        "process": process_use(elapsed_s),
        "endpoint": endpoint_use(elapsed_s),
    }
    parts = range(0, len(made), _BATCH)
    return [*(_requests(first, made[first : first + _BATCH]) for first in parts), result]


def _requests(first: int, made: list[Shot]) -> Event:
    return {
        "event": "requests",
        "first": first,
        "size": [shot.size for shot in made],
        "start_us": [shot.start_us for shot in made],
        "duration_us": [shot.duration_us for shot in made],
        "relay_us": [shot.relay_us for shot in made],
        "code": [shot.code for shot in made],
        "length": [shot.length for shot in made],
        "retries": [None if shot.relay_us is None else 0 for shot in made],
        "error": [0 if shot.is_good else _STATUS for shot in made],
    }


def served(run: Run, elapsed_s: float) -> Event:
    """Return the result of a server, ping or pong, that has served for so long."""
    return {
        "event": "result",
        "job": run.command["cmd"],
        "start_realtime_ns": run.start_ns,
        "elapsed_s": elapsed_s,
        "requests": len(run.served),
        "bad": 0,
        "connections": int(bool(run.served)),
        "refused": 0,
        "late": 0,
        "bytes": sum(run.served) + _HEAD_BYTES * len(run.served),
        "process": process_use(elapsed_s),
        "endpoint": endpoint_use(elapsed_s),
    }
