"""What real programs printed, ``data/PROGRAM/NAME.txt``, and what is read of it, ``NAME.json``.

The programs: iperf3 3.12 and 3.22, iperf 2.1.8, nuttcp 6.1.2, netperf 2.7, NetPIPE 3.7.2, ab 2.3,
wrk 4.1, sockperf 3.7, qperf 0.4.11, dbench and tbench 4.00, STREAM 5.10 (``invalid`` is of one with
an error in Triad), sysbench 1.0.20, OpenSSL 1.1.1w, 3.0.19 and 3.5.7, 7-Zip 25.01 and 26.02,
Tachyon 0.99, stress-ng 0.12.06, 0.15.06 and 0.19.02, IOzone 3.465, fio
3.25, 3.33 and 3.39, ioping 1.2 (``old``) and 1.3, redis-benchmark 6.0 (``old``), 7.0 and 8.0,
UnixBench 6.0.0 with the reports of its script Run, of which what grep printed is left out. The
tables of memtier_benchmark were published by others: it is in no distribution.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from osmef.errors import OutputError

DATA = Path(__file__).parent / "data"
SAMPLES = sorted(DATA.glob("*/*.txt"))


def name_of(path: Path) -> str:
    """Return the name that a sample has in a test's."""
    return f"{path.parent.name}/{path.stem}"


def read(program: str, text: str) -> Any:
    """Return what the reader of a program makes of a text. Raises OutputError."""
    return importlib.import_module(f"osmef.workloads.kinds.{program}").read(text)


def outline(value: Any) -> Any:
    """Return what was read as JSON has it, with nine digits of each number."""
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {field.name: outline(getattr(value, field.name)) for field in fields}
    if isinstance(value, Mapping):
        return {str(key): outline(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [outline(one) for one in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return float(f"{value:.9g}") if isinstance(value, float) else value


def outcome(program: str, text: str) -> Any:
    """Return the outline of what is read, or the error that there is instead."""
    try:
        return outline(read(program, text))
    except OutputError as error:
        return {"error": error.message, **({"line": error.line} if error.line else {})}
