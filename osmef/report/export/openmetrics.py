"""OpenMetrics text of a run's result, for Prometheus and its relatives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from osmef.results.measure import Measure
from osmef.results.summary import CellInfo, Metric, Summary

_NO_NAME = re.compile(r"[^a-zA-Z0-9_]")
_OF: Mapping[str, tuple[str, str]] = {
    "median": ("", "median over the trials of a cell"),
    "ci95_low": ("_ci95_low", "lower end of the 95 % interval of the median"),
    "ci95_high": ("_ci95_high", "upper end of the 95 % interval of the median"),
    "n": ("_trials", "trials that have it"),
}
"""What is told of a metric: the end of the family's name, and what its help begins with."""


def write_openmetrics(summary: Summary) -> Iterator[str]:
    """Yield the lines: four gauges of each metric, and trials by status; a sample a cell.

    Names begin with ``osmef_``; labels are run, scenario, provider, cell, workload, distance,
    connections, and the swept values. Numbers are in the unit of the metric, which the help tells.
    There are no times: who scrapes a file says when.

    Source: OpenMetrics 1.0.
    """
    labels = [_labels(summary, cell) for cell in summary.cells]
    for measure in summary.measures:
        for part, (end, told) in _OF.items():
            known = [
                (of, value)
                for cell, of in zip(summary.cells, labels, strict=True)
                if (value := _value(cell.metrics.get(measure.name), part)) is not None
            ]
            if known:
                of_unit = None if part == "n" else measure.unit
                help_ = _help(measure, told, of_unit)
                yield from _family(f"osmef_{_name(measure.name)}{end}", help_, known)
    for name, told in (("ok", "trials that went well"), ("failed", "trials that failed")):
        counts = [
            (of, float(getattr(cell, f"n_{name}")))
            for cell, of in zip(summary.cells, labels, strict=True)
        ]
        yield from _family(f"osmef_cell_trials_{name}", told, counts)
    yield "# EOF\n"


def _value(metric: Metric | None, part: str) -> float | None:
    value = None if metric is None else getattr(metric, part)
    return None if value is None else float(value)


def _help(measure: Measure, told: str, of_unit: str | None) -> str:
    unit = f", in {of_unit}" if of_unit else ""
    return f"{told}{unit}: {measure.help or measure.words}"


def _family(name: str, told: str, samples: list[tuple[str, float]]) -> Iterator[str]:
    yield f"# TYPE {name} gauge\n# HELP {name} {_escaped(told)}\n"
    for labels, value in samples:
        yield f"{name}{{{labels}}} {value!r}\n"


def _labels(summary: Summary, cell: CellInfo) -> str:
    run = summary.run
    told = {"run": run.id, "scenario": run.scenario, "provider": run.provider, "cell": cell.key,
            "workload": cell.workload, "session": run.session, "platform": run.platform,
            "distance": cell.distance, "connections": cell.connections}  # fmt: skip
    found = {name: str(value) for name, value in told.items() if value is not None}
    for name, value in cell.values.items():
        if value is not None and str(value) != found.get(name):  # connections are told once
            found[_unused(_name(name), found)] = str(value)
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in found.items())


def _unused(name: str, used: Mapping[str, str]) -> str:
    number = 2
    free = name
    while free in used:
        free, number = f"{name}_{number}", number + 1
    return free


def _name(text: str) -> str:
    plain = _NO_NAME.sub("_", text).lstrip("_")
    return plain if plain[:1].isalpha() else f"x{plain}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
