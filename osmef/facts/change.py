"""What happened on an endpoint between two collections of its facts."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

Facts = Mapping[str, JsonValue]


def change(before: Facts, after: Facts) -> dict[str, JsonValue]:
    """Return the seconds between, the network rates of each interface, and how the CPUs were used.

    Rates are ``rx_bps`` and ``tx_bps`` in bits per second, packets, errors and drops per second.
    CPU times are percent of all CPU time in between. What can't be told is None: a counter that
    is missing or went backwards, and everything after a restart of the endpoint.
    """
    elapsed = _difference(before, after, "uptime_s")
    known = elapsed or None
    then, now = _group(before, "counters"), _group(after, "counters")
    return {
        "elapsed_s": known,
        "interfaces": {
            name: _rates(_group(then, name), _group(now, name), known)
            for name in sorted(then.keys() & now.keys())
        },
        "cpu_percent": _cpu_percent(_group(before, "cpu_time"), _group(after, "cpu_time"), known),
    }


def _rates(then: Facts, now: Facts, elapsed: float | None) -> dict[str, JsonValue]:
    rates: dict[str, JsonValue] = {}
    for key in then.keys() & now.keys():
        counted = _difference(then, now, key)
        rate = None if elapsed is None or counted is None else counted / elapsed
        if key.endswith("_bytes"):
            rates[key.replace("_bytes", "_bps")] = None if rate is None else 8 * rate
        else:
            rates[f"{key}_per_s"] = rate
    return dict(sorted(rates.items()))


def _cpu_percent(then: Facts, now: Facts, elapsed: float | None) -> dict[str, JsonValue]:
    spent = {key: _difference(then, now, key) for key in sorted(then.keys() & now.keys())}
    # Guest time is counted within user time as well, and must not count twice (proc(5)).
    total = sum(s for key, s in spent.items() if s is not None and not key.startswith("guest"))
    known = elapsed is not None and total > 0
    return {
        key.removesuffix("_s"): 100 * s / total if known and s is not None else None
        for key, s in spent.items()
    }


def _difference(before: Facts, after: Facts, key: str) -> float | None:
    then, now = before.get(key), after.get(key)
    if not isinstance(then, int | float) or not isinstance(now, int | float):
        return None
    return now - then if now >= then else None


def _group(facts: Facts, key: str) -> Facts:
    group = facts.get(key)
    return group if isinstance(group, dict) else {}
