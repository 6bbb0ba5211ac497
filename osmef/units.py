"""Durations, rates and sizes: parsing and formatting; the only factors 1000 and 1024.

Durations are seconds, rates are bits per second, sizes are bytes. Decimal prefixes (k, M, G, T)
are powers of 1000 and binary ones (Ki, Mi, Gi, Ti) powers of 1024 (IEC 80000-13). A lower-case
``b`` or ``bit`` is a bit, an upper-case ``B`` a byte. A number without a unit is an error, since
its meaning would be unknown; only zero needs none.

The text of a ValueError is "what is wrong; what to do about it".
"""

from __future__ import annotations

import math
import re

_COUNT = re.compile(r"[0-9]{1,15}")
_NUMBER = re.compile(r"\s*(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[A-Za-zµ/]*)\s*")

_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_PREFIX = {
    "": 1.0,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 1024.0,
    "Mi": 1024.0**2,
    "Gi": 1024.0**3,
    "Ti": 1024.0**4,
}
_RATES = {f"{p}{u}": f for p, f in _PREFIX.items() for u in ("bit/s", "bps", "bit", "b/s")} | {
    f"{p}B/s": 8 * f for p, f in _PREFIX.items()
}
_SIZES = {f"{p}B": f for p, f in _PREFIX.items()}

_MEANT = {
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("msec", "msecs"), "ms"),
    **dict.fromkeys(("usec", "usecs"), "us"),
    **dict.fromkeys(("nsec", "nsecs"), "ns"),
    "k": "kB",
    "m": "MB",
    "g": "GB",
}
"""Units as other programs write them, in lower case, and ours."""
_OF_RATES = re.compile(r"([kmgt]?i?)(?:b|bits?)?(?:/s|/sec|ps)?")
"""Rates as other programs write them, such as ``10M``, ``10mbit`` and ``10Mbits/sec``."""

DURATION_UNITS = tuple(_SECONDS)
RATE_UNITS = tuple(_RATES)
SIZE_UNITS = tuple(_SIZES)


def _parse(text: str, units: dict[str, float], what: str, example: str) -> float:
    cure = f"write it as {example}"
    match = _NUMBER.fullmatch(text)
    if match is None:
        shown = repr(text) if len(text) <= 60 else f"{text[:56]!r}…"
        if _NUMBER.fullmatch(text.strip().removeprefix("-")):
            raise ValueError(f"{shown} is negative, and a {what} is not; {cure}")
        raise ValueError(f"{shown} is not a {what}; {cure}")
    number, unit = float(match["number"]), match["unit"]
    if not unit and number == 0:
        return 0.0
    if unit not in units:
        given = f"the unit {unit!r} is not one of a {what}" if unit else f"{text!r} has no unit"
        meant = _meant(unit, units) if unit else None
        if meant is not None:
            cure = f"did you mean {match['number']}{meant}?"
        raise ValueError(f"{given}; {cure}")
    factor = units[unit]
    # A power of ten below 1 has no exact float, its inverse has: 700 ms are 0.7 s.
    value = number / round(1 / factor) if factor < 1 else number * factor
    if not math.isfinite(value):
        raise ValueError(f"this {what} is too large; {cure}")
    return value


def _meant(unit: str, units: dict[str, float]) -> str | None:
    """Return the unit that was most likely meant, or None."""
    lower = unit.casefold()
    alike = [one for one in units if one.casefold() == lower]
    if units is _RATES and (rate := _OF_RATES.fullmatch(lower)):
        alike = [one for one in units if one.casefold() == f"{rate[1]}bit/s"]
    known = _MEANT.get(lower)
    return alike[0] if alike else known if known in units else None


def parse_duration(text: str) -> float:
    """Return seconds for ``360s``, ``500ms``, ``2min``, ``1.5h``. Raises ValueError."""
    return _parse(text, _SECONDS, "duration", "'10s', '500ms' or '6min'")


def parse_rate(text: str) -> float:
    """Return bits per second for ``1Gbit/s``, ``100 Mbps``, ``125MB/s``. Raises ValueError."""
    return _parse(text, _RATES, "rate", "'1Gbit/s', '100Mbit/s' or '125MB/s'")


def parse_size(text: str) -> int:
    """Return bytes for ``128KiB``, ``1.5MB``. Raises ValueError."""
    return round(_parse(text, _SIZES, "size", "'128KiB' or '1MB'"))


def parse_count(text: object) -> int | None:
    """Parse a number of up to 15 digits 0 to 9; None for another text.

    ``isdigit`` is true for "²", which is no number, and ``int`` takes "٣", "1_0" and " +1".
    """
    is_count = isinstance(text, str) and _COUNT.fullmatch(text) is not None
    return int(str(text)) if is_count else None


def _scale(value: float) -> tuple[float, str]:
    """Return the decimal prefix for three digits, and its factor."""
    divisor = 1.0
    for prefix in ("", "k", "M", "G"):
        if abs(value) / divisor < 999.5:
            return divisor, prefix
        divisor *= 1000
    return divisor, "T"


def format_prefixed(value: float, unit: str) -> str:
    """Format a value with three digits and a decimal prefix: ``21.9 GB/s``."""
    divisor, prefix = _scale(value)
    shown = value / divisor
    digits = ".3g" if abs(shown) < 999.5 else ".0f"  # of the largest prefix
    return f"{shown:{digits}} {prefix}{unit}"


def format_rate(bits_per_second: float) -> str:
    """Format a rate with three digits: ``9.41 Gbit/s``."""
    return format_prefixed(bits_per_second, "bit/s")


def format_size(count: float) -> str:
    """Format a size with three digits, decimal: ``1.31 MB``."""
    return format_prefixed(count, "B")


def format_duration(seconds: float) -> str:
    """Format a duration: ``350 ms``, ``12 s``, ``5 min``, ``4 min 05 s``, ``2 h``.

    What is a whole number of one unit is written so that it can be read back.
    """
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if minutes else f"{hours} h"


def format_time(seconds: float) -> str:
    """Return a short time for people, three digits: ``46.2 µs``, ``10.9 ms``, ``1.2 s``."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3)):
        if abs(seconds) >= 0.9995 * factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def counted(count: int, noun: str) -> str:
    """Format a count with its noun, in the plural unless it is one: "1 trial", "24 trials"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def format_share(share: float) -> str:
    """Format a share of 1 in percent: ``5 %``."""
    return f"{100 * share:g} %"


def rate_unit(rate: float, unit: str = "bit/s") -> tuple[float, str]:
    """Return the unit of a table or axis for rates up to one: divisor and name."""
    divisor, prefix = _scale(rate)
    return divisor, f"{prefix}{unit}"


_PER_SECOND = {f"1/{unit}": 1 / seconds for unit, seconds in _SECONDS.items()}
_SHARES = {"1": 1.0, "%": 0.01}
_BINARY = {f"{prefix}b": factor / 8 for prefix, factor in _PREFIX.items()}
_DIMENSIONS = (
    _SECONDS,
    {**_RATES, **{f"{unit}/s": 8 * factor for unit, factor in _SIZES.items()}},
    {**_SIZES, **_BINARY},
    _PER_SECOND,
    _SHARES,
)


def convert(value: float, unit: str, into: str) -> float:
    """Convert a value between units: ``convert(1, "MB/s", "bit/s")`` is 8e6.

    Units that are the same need not be known. Raises ValueError for two that measure different
    things, or of which one is not known.
    """
    if unit == into:
        return value
    for units in _DIMENSIONS:
        if unit in units and into in units:
            return value * units[unit] / units[into]
    raise ValueError(
        f"{unit[:40]} can't be converted into {into[:40]}; write both in units of one kind,"
        " such as MB/s and bit/s, or ms and s"
    )


def whole_gib(size: int) -> int:
    """Return a size in bytes as GiB, rounded up."""
    return -(-size // 2**30)
