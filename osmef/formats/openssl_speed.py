"""Reader of the output of openssl speed -mr.

Source: openssl-speed(1) and speed.c of OpenSSL 1.1.1, 3.0 and 3.5. A line that begins with +F is
the sum of all processes of -multi, each of which has one behind Got: as well. Rates are per second
of CPU time of the process, and with -elapsed per second that passes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from osmef.errors import OutputError
from osmef.formats import failed, shows_tail
from osmef.formats.reading import positive, whole

_FAILED = re.compile(r"^speed: (.*)", re.MULTILINE)
_SIZES = re.compile(r"^(?:Got: )?\+H:([0-9:]+)(?: from [0-9]+)?$", re.MULTILINE | re.ASCII)
_RESULT = re.compile(r"^\+F([2-6]?):(.*)$", re.MULTILINE)
_FORK = re.compile(r"^Forked child [0-9]+$", re.MULTILINE | re.ASCII)

Operation = Literal["bulk", "signature", "exchange"]


@dataclass(frozen=True)
class OpensslSpeed:
    """A run of one algorithm: its name if printed, and rates over all processes.

    Of ``bulk`` there are ``bytes_per_s`` by the size of a block in bytes, of a ``signature`` how
    many are made and verified per second, of an ``exchange`` of keys how many are made.
    """

    operation: Operation
    name: str | None
    processes: int
    bytes_per_s: Mapping[int, float]
    signatures_per_s: float | None = None
    verifications_per_s: float | None = None
    exchanges_per_s: float | None = None


@shows_tail
def read(text: str) -> OpensslSpeed:
    """Read the output of one algorithm. Raises OutputError, also for a failure."""
    refused = _FAILED.search(text)
    if refused:
        raise failed("openssl speed", refused[1])
    found = list(_RESULT.finditer(text))
    if len(found) != 1:
        told = f"there are {len(found)} results of openssl speed, and not one"
        raise OutputError(told, cure="" if found else "it prints them with -mr")
    kind, fields = found[0][1], found[0][2].split(":")
    processes = len(_FORK.findall(text)) or 1
    match kind, fields:
        case "", [_, name, *rates]:
            return OpensslSpeed("bulk", name, processes, _by_size(rates, text))
        case "5", [_, _, rate, _]:
            made = positive(rate, "the exchanges/s")
            return OpensslSpeed("exchange", None, processes, {}, exchanges_per_s=made)
        case "6", [_, _, name, signed, verified]:
            return _signature(name, processes, signed, verified)
        case "2" | "3" | "4", [_, _, signed, verified, *_]:
            return _signature(None, processes, signed, verified)
    raise OutputError(f"this is no result of openssl speed: {found[0][0][:80]}")


def _signature(name: str | None, processes: int, signed: str, verified: str) -> OpensslSpeed:
    return OpensslSpeed(
        "signature",
        name,
        processes,
        {},
        signatures_per_s=positive(signed, "the signatures/s"),
        verifications_per_s=positive(verified, "the verifications/s"),
    )


def _by_size(rates: list[str], text: str) -> Mapping[int, float]:
    heads = {head[1] for head in _SIZES.finditer(text)}
    sizes = [whole(size, "a size") for head in heads for size in head.split(":")]
    if len(sizes) != len(rates):
        raise OutputError(f"there are {len(rates)} rates of {len(sizes)} sizes of a block")
    return {size: positive(rate, "the bytes/s") for size, rate in zip(sizes, rates, strict=True)}
