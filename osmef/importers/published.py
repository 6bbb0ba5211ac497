"""Reproduction of published results: printed value, ours from the same data, and a verdict.

The data is no part of OSMeF. Contradictions within a source are noted in the line.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any

from osmef.analysis.describe import variance_components
from osmef.analysis.hypothesis_tests import welch
from osmef.analysis.token_bucket import find_knee
from osmef.errors import InputError
from osmef.files import exists
from osmef.importers import osmef2013
from osmef.importers.record import read_texts


class Agreement(StrEnum):
    """Verdict on a published value and ours."""

    SAME = "same"
    DIFFERENT = "different"
    WRONG_THERE = "wrong there"


@dataclass(frozen=True)
class PublishedValue:
    """A published value and ours; ``within`` is the tolerance, in the unit of both.

    ``why`` is the error of the published one; then ours is expected to differ.
    """

    source: str
    what: str
    published: float | None
    ours: float | None
    within: float
    why: str = ""

    @property
    def deviation_percent(self) -> float | None:
        """Deviation of ours from the published value, in percent."""
        if self.published is None or self.ours is None:
            return 0.0 if self.published is self.ours else None
        if not self.published:
            return 0.0 if not self.ours else None
        return 100 * (self.ours / self.published - 1)

    @property
    def agreement(self) -> Agreement:
        """The verdict."""
        known = self.published is not None and self.ours is not None
        apart = abs(self.ours - self.published) if known else math.inf  # type: ignore[operator]
        if apart <= self.within * (1 + 1e-9) or self.published is self.ours:
            return Agreement.SAME
        return Agreement.WRONG_THERE if self.why else Agreement.DIFFERENT


Check = Callable[[Path], Iterator[PublishedValue]]


def check_folder(folder: Path) -> list[PublishedValue]:
    """Return the comparisons for all published data in a folder, named in ``CHECKS``.

    Raises InputError where it holds none, or a file is not what it should be.
    """
    there = [name for name in CHECKS if exists(folder / name)]
    if not there:
        raise InputError(
            "the folder holds no published data that is known",
            where=str(folder),
            cure=f"put one of these there: {', '.join(CHECKS)}",
        )
    return list(chain.from_iterable(_checked(folder / name, CHECKS[name]) for name in there))


_PUT_BACK = "put the published file back"


def _checked(path: Path, check: Check) -> list[PublishedValue]:
    try:
        return list(check(path))
    except (LookupError, ValueError, TypeError, ArithmeticError) as error:
        raise InputError(
            f"this is not what was published: {type(error).__name__}: {error}",
            where=str(path),
            cure=_PUT_BACK,
        ) from error


def _rows(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    """Return the rows of a CSV file, of which there is at least one. Raises InputError."""
    (text,) = read_texts([path])
    if isinstance(text, InputError):
        raise text
    rows = list(csv.DictReader(io.StringIO(text.text), delimiter=delimiter))
    if not rows:
        raise InputError(
            "this is not what was published: it has no rows", where=str(path), cure=_PUT_BACK
        )
    return rows


def _number(text: str) -> float:
    """Return a finite number of a file. Raises ValueError."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is no number")
    return number


def _deval_cov(path: Path) -> Iterator[PublishedValue]:
    values: dict[tuple[str, ...], list[float]] = defaultdict(list)
    printed: dict[tuple[str, ...], float] = {}
    for row in _rows(path):
        key = (row["table"], row["instance_class"], row["metric"], row["platform"])
        values[key].append(_number(row["value"]))
        once = printed.setdefault(key, _number(row["published_cov_percent"]))
        if once != _number(row["published_cov_percent"]):
            message = f"{once:g} and {row['published_cov_percent']}"
            raise ValueError(f"the CoV of {', '.join(key)} is printed once, and here as {message}")
    for of, known in values.items():
        ours = 100 * statistics.stdev(known) / statistics.fmean(known)
        what = f"CoV of {', '.join(of[1:])}, %"
        yield PublishedValue(f"Deval 2017, table {of[0]}", what, printed[of], ours, 0.01)


_WRONG_PRICE = "9675.68 is printed; the median of the printed sessions at the printed price is 6585"


def _deval_prices(path: Path) -> Iterator[PublishedValue]:
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in _rows(path.parent / "sessions.csv"):
        if row["metric"] == "unixbench_multi":
            values[row["instance_class"], row["platform"]].append(_number(row["value"]))
    for row in _rows(path):
        key = (row["instance_class"], row["platform"])
        printed = _number(row["published_price_per_server_performance"])
        ours = statistics.median(values[key]) / _number(row["usd_per_hour"])
        what = f"score per USD and hour of {', '.join(key)}"
        why = _WRONG_PRICE if printed == 9675.68 else ""
        yield PublishedValue(
            f"Deval 2017, table {row['table']}", what, printed, ours, 0.002 * printed, why
        )


def _deval_p(path: Path) -> Iterator[PublishedValue]:
    values: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in _rows(path.parent / "sessions.csv"):
        values[row["instance_class"], row["metric"], row["platform"]].append(_number(row["value"]))
    for row in _rows(path):
        kind = (row["instance_class"], row["metric"])
        pair = (row["platform_a"], row["platform_b"])
        ours = welch(values[*kind, pair[0]], values[*kind, pair[1]]).p
        printed = row["published_p"].upper()
        mantissa, _, exponent = printed.partition("E")
        digit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
        why = "the printed sessions give 0.00032" if row["note"] else ""
        # Half of the last digit where it was rounded, all of it where it was cut.
        what = f"Welch's p of {', '.join(kind)}: {' and '.join(pair)}"
        yield PublishedValue("Deval 2017, appendix D", what, _number(printed), ours, digit, why)


_BUCKETS = {"large": (311e9, 0.75e9), "xlarge": (551e9, 1.25e9), "2xlarge": (951e9, 2.51e9),
            "4xlarge": (1340e9, 5.02e9)}  # fmt: skip
"""Bytes of the bucket and bit/s of the sustained rate, by the size of c5 VMs."""

_TRACE = re.compile(r"(?P<name>c5\.(?P<size>\w+)-[^/]*)\.bw")
_RATE = re.compile(r"crnt bw = ([0-9.]+)")
_NO_BUCKET = 5.5e9
"""A c5.4xlarge whose host lets it burst to no more than this has nothing to lose."""


def _token_buckets(path: Path) -> Iterator[PublishedValue]:
    source = "Uta et al., NSDI 2020"
    for text in read_texts([path]):
        found = None if isinstance(text, InputError) else _TRACE.search(text.name)
        if isinstance(text, InputError) or found is None:
            continue
        rates = [1e9 * float(rate) for rate in _RATE.findall(text.text)]
        knee = find_knee([1.0] * len(rates), [int(rate / 8) for rate in rates])
        name, (size, rate) = found["name"], _BUCKETS[found["size"]]
        if found["size"] == "4xlarge" and statistics.median(rates) < _NO_BUCKET:
            yield PublishedValue(
                source, f"no bucket of {name}", None, knee.burst_bytes if knee else None, 0
            )
            continue
        held, sustained = (knee.burst_bytes, knee.plateau_bps) if knee else (None, None)
        yield PublishedValue(source, f"bucket of {name}, bytes", size, held, 0.03 * size)
        yield PublishedValue(
            source, f"sustained rate of {name}, bit/s", rate, sustained, 0.03 * rate
        )


def _table_4(path: Path) -> Iterator[PublishedValue]:
    """Compare the fitting of types by threads and memory."""
    least: dict[str, tuple[float, str]] = {}
    for row in _rows(path):
        ends = [(_number(row["aws_threads"]), _number(row["gce_threads"])),
                (_number(row["aws_gib"]), _number(row["gce_gib"]))]  # fmt: skip
        bound = 1 - sum((1 - min(pair) / max(pair)) ** 2 for pair in ends) / 7
        margin = bound - _number(row["similarity"])
        least[row["aws"]] = min(least.get(row["aws"], (math.inf, "")), (margin, row["gce"]))
    for name, (margin, other) in least.items():
        what = f"similarities of {name} above what threads and memory allow (closest: {other})"
        yield PublishedValue(
            "Kratzke and Quint 2015, table IV", what, 0.0, max(0.0, -margin), 0.005
        )


def _pingpong(path: Path) -> Iterator[PublishedValue]:
    """Compare the request rate of each row with the one that follows from its time."""
    apart: dict[str, float] = defaultdict(float)
    for row in _rows(path):
        ours = 1000 / _number(row["Time per request"])
        printed = _number(row["Requests per second (mean)"])
        apart[row["Tag"]] = max(apart[row["Tag"]], 100 * abs(ours / printed - 1))
    for tag, worst in apart.items():
        what = f"requests per second of {tag}: largest deviation of a row, %"
        yield PublishedValue("Kratzke 2014", what, 0.0, worst, 0.5)


_PAPER = "Venzano and Michiardi 2013"
_METRICS = ("aggregate_btc_bps", "connection_btc_bps", "jain_fairness", "cpu_sender_percent",
            "cpu_receiver_percent")  # fmt: skip
Medians = Mapping[tuple[str, str], Mapping[int, float]]
"""By metric and scenario, and by connections."""


def _paper(path: Path) -> Iterator[PublishedValue]:
    values: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    apart, files = dict.fromkeys(_METRICS, 0.0), 0
    for text in read_texts([path]):
        if isinstance(text, InputError) or not text.name.endswith(".json"):
            continue
        files += 1
        (record,) = osmef2013.parse(text).records
        reported = _by_definition(json.loads(text.text)["btc"])
        for name in _METRICS:
            ours = record.metrics[name] or 0.0
            apart[name] = max(apart[name], 100 * abs(ours / reported[name] - 1))
            values[name, text.folder or ""][record.connections or 1].append(ours)
    for name, worst in apart.items():
        what = f"{name} of {files} files by its definition: largest deviation, %"
        yield PublishedValue(_PAPER, what, 0.0, worst, 1e-6)
    medians = {
        key: {count: statistics.median(known) for count, known in of.items()}
        for key, of in values.items()
    }
    yield from _claims(medians)


def _by_definition(flows: Mapping[str, Any]) -> dict[str, float]:
    rates = [8 * 1024 * _number(flow["rx"]["rate_KBps"]) for flow in flows.values()]
    cpu = [
        sum(
            100 * (_number(flow[end]["user"]) + _number(flow[end]["system"]))
            / _number(flow[end]["real_seconds"])
            for flow in flows.values()
        )
        for end in ("tx", "rx")
    ]  # fmt: skip
    fairness = sum(rates) ** 2 / (len(rates) * sum(rate**2 for rate in rates))
    return dict(zip(_METRICS, (sum(rates), sum(rates) / len(rates), fairness, *cpu), strict=True))


def _claims(medians: Medians) -> Iterator[PublishedValue]:
    """Compare the numbers in the paper's text."""
    near, far = (medians["connection_btc_bps", f"vm_to_vm_{n}"] for n in (1, 2))
    share = statistics.median(far[n] / near[n] for n in far)
    yield PublishedValue(_PAPER, "rate at distance 2 over distance 0: a tenth", 0.1, share, 0.04)
    rates = {name: of for (metric, name), of in medians.items() if metric == _METRICS[0]}
    lost = max(100 * (1 - rates["vm_to_vm_2"][n] / rates["host_to_host"][n]) for n in far)
    yield PublishedValue(_PAPER, "what VMs lose to hosts at distance 2, at most, %", 4.0, lost, 1.0)
    plateau = {
        name: statistics.median(rate for n, rate in rates[name].items() if n >= 20)
        for name in ("vm_localhost_4cpu", "vm_localhost_16cpu")
    }
    more = plateau["vm_localhost_16cpu"] / plateau["vm_localhost_4cpu"]
    why = "the text has the rate double with the vCPUs; the files have 3.5 for 4 times as many"
    yield PublishedValue(_PAPER, "loopback with 16 over 4 vCPUs", 4.0, more, 0.2, why)
    fair = min(medians["jain_fairness", "vm_localhost_4cpu"].values())
    why = "the text has J close to 1 whatever the flavor; the files of 4 vCPUs fall to 0.83"
    yield PublishedValue(_PAPER, "least J of the VM with 4 vCPUs", 1.0, fair, 0.02, why)
    best = [max(rates[name].values()) for name in ("vm_localhost_16cpu", "localhost")]
    why = "the text has a penalty of 40 % for 16 vCPUs; the files have 31 %"
    yield PublishedValue(
        _PAPER, "what 16 vCPUs lose to the host, %", 40.0, 100 * (1 - best[0] / best[1]), 2, why
    )


_SMALL = "rmit-combined_v3_aws-eu_m1.small"
_BETWEEN, _WITHIN = 14.0, 5.0


def _vms(path: Path) -> Iterator[PublishedValue]:
    vms: dict[str, list[float]] = defaultdict(list)
    for row in _rows(path, ";"):
        rate = row["iperf/multi-thread-bandwidth"].strip()
        if row["source"] == _SMALL and rate not in {"", "NA"}:
            vms[row["provider_vm_id"]].append(_number(rate))
    found = variance_components(vms)
    for where, printed in (("between", _BETWEEN), ("within", _WITHIN)):
        ours = 100 * getattr(found, where) / found.mean if found else None
        what = f"spread of the network {where} {len(vms)} VMs of m1.small, %"
        yield PublishedValue("Scheuner and Leitner 2018", what, printed, ours, 0.5)


CHECKS: Mapping[str, Check] = {
    "deval-2017/sessions.csv": _deval_cov,
    "deval-2017/prices.csv": _deval_prices,
    "deval-2017/pvalues.csv": _deval_p,
    "token-buckets-2019/traces.tar.gz": _token_buckets,
    "easycompare-2015/similarity-table4.csv": _table_4,
    "sdvn-2014/logdata.csv": _pingpong,
    "osmef-2013/runs.tar.gz": _paper,
    "cwb-2018/data-interim.csv": _vms,
}
"""What checks each file of published data, by its path in a folder."""
