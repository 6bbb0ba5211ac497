"""Export of results: samples, OpenMetrics, JUnit XML, RO-Crate, and CSV files of ppbench.

Samples are single trials as newline JSON, CSV, InfluxDB lines, and OpenSearch's bulk format. JUnit
XML has the verdicts of a comparison; ppbench's files have single requests.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import zipfile
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO
from xml.etree import ElementTree as Xml

from osmef.errors import InputError
from osmef.files import open_file
from osmef.report.summary import written
from osmef.report.table import fails_alone, is_lost
from osmef.results.files import files_below, storage
from osmef.results.observations import Purpose
from osmef.results.rundir import RunDirectory
from osmef.results.summary import CellInfo, MetricSummary, Summary

if TYPE_CHECKING:
    import pandas as pd  # slow to load, and not of all formats

Value = str | int | float | bool

LABELS = (
    "run", "scenario", "provider", "cell", "trial", "repetition", "pair", "session", "window",
    "platform", "workload", "background", "achieved_placement", "achieved_tenancy", "distance",
    "connections", "sender_flavors", "receiver_flavors",
)  # fmt: skip
"""Identity of a trial, in the names of ``osmef.load``; swept values come after them."""


@dataclass(frozen=True)
class Sampled:
    """A trial: its labels, its start, and its metrics by name."""

    labels: dict[str, Value]
    at: datetime | None
    metrics: dict[str, float]


def sampled(trials: pd.DataFrame) -> Iterator[Sampled]:
    """Yield the successful trials of a frame of ``osmef.load``.

    What is not known is left out, and so are swept values that are no scalars.
    """
    import pandas as pd  # noqa: PLC0415

    from osmef.results.frame import measures_of, swept_of  # noqa: PLC0415

    names = [name for name in dict.fromkeys((*LABELS, *swept_of(trials))) if name in trials]
    metrics = list(measures_of(trials))
    good = trials[trials["status"] == "ok"]
    for row in good.to_dict("records"):
        labels = {str(name): known for name in names if (known := _known(row[name])) is not None}
        numbers = {str(name): float(value) for name in metrics
                   if not pd.isna(value := row[name]) and math.isfinite(value)}  # fmt: skip
        at = row.get("started_at")
        yield Sampled(labels, None if pd.isna(at) else at.to_pydatetime(), numbers)


def _known(value: object) -> Value | None:
    """Return a scalar as JSON; None for an unknown value, or no scalar."""
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, float) and plain.is_integer():
        return int(plain)
    if isinstance(plain, str | int | bool) or (isinstance(plain, float) and math.isfinite(plain)):
        return plain
    return None


def units(trials: pd.DataFrame) -> dict[str, str | None]:
    """Return the unit of each metric of a frame, by its ``Measure``."""
    from osmef.results.frame import measures_of  # noqa: PLC0415 - pandas takes a while to load

    return {name: one.unit for name, one in measures_of(trials).items()}


def write_ndjson(trials: pd.DataFrame) -> Iterator[str]:
    """Yield a line for each metric of each trial: metric, unit, value, time, labels."""
    from osmef.results.frame import original_name  # noqa: PLC0415 - pandas takes a while to load

    unit_of = units(trials)
    for one in sampled(trials):
        at = None if one.at is None else one.at.isoformat()
        for name, value in one.metrics.items():
            known = {"metric": original_name(name), "unit": unit_of[name]}
            reported = {**known, "value": value, "time": at}
            yield _json({**reported, "labels": one.labels})


def write_csv(trials: pd.DataFrame) -> Iterator[str]:
    """Yield a header, and a row for each metric of each trial; a label is a column."""
    from osmef.results.frame import original_name  # noqa: PLC0415 - pandas takes a while to load

    unit_of, every = units(trials), list(sampled(trials))
    labels = list(dict.fromkeys(name for one in every for name in one.labels))
    yield _row(["metric", "unit", "value", "time", *(f"label_{name}" for name in labels)])
    for one in every:
        at = "" if one.at is None else one.at.isoformat()
        known = [written(one.labels.get(name, "")) for name in labels]
        for name, value in one.metrics.items():
            metric = original_name(name)
            yield _row([metric, unit_of[name] or "", repr(value), at, *known])


def write_opensearch(trials: pd.DataFrame) -> Iterator[str]:
    """Yield two lines for each trial: the action, and the document with its metrics.

    The id is that of run and trial, so that a run that is sent twice is there once.

    Source: the bulk API of OpenSearch and Elasticsearch.
    """
    for one in sampled(trials):
        name = f"{one.labels['run']}/{one.labels['trial']}"
        yield _json({"index": {"_index": "osmef-trials", "_id": name}})
        at = {} if one.at is None else {"@timestamp": one.at.isoformat()}
        yield _json({**at, "labels": one.labels, "metrics": one.metrics})


def write_influx(trials: pd.DataFrame) -> Iterator[str]:
    """Yield a line of the measurement ``osmef`` for each trial: labels are tags, metrics fields.

    One called ``time``, which InfluxDB drops, is ``time_``.

    Source: the line protocol of InfluxDB; times are in nanoseconds.
    """
    for one in sampled(trials):
        if not one.metrics:
            continue
        tags = ("=".join((_key(name), _influx(written(value))))
                for name, value in sorted(one.labels.items()) if str(value))  # fmt: skip
        fields = (f"{_key(name)}={value!r}" for name, value in one.metrics.items())
        at = "" if one.at is None else f" {round(one.at.timestamp() * 1e6) * 1000}"
        yield f"{','.join(('osmef', *tags))} {','.join(fields)}{at}\n"


_NO_TAG = re.compile(r"[\x00-\x1f\x7f\\]")
_SPECIAL = re.compile(r"([,= ])")


def _key(name: str) -> str:
    return "time_" if name == "time" else _influx(name)


def _influx(text: str) -> str:
    # A line can hold no other line, and a backslash would take away the meaning of what follows.
    return _SPECIAL.sub(r"\\\1", _NO_TAG.sub(" ", text))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def _row(values: list[Value]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


_NO_NAME = re.compile(r"[^a-zA-Z0-9_]")
_OF: Mapping[str, tuple[str, str]] = {
    "median": ("", "median of a cell: over trials, or over the medians of pairs or sessions"),
    "ci95_low": ("_ci95_low", "lower end of the 95 % interval of the median"),
    "ci95_high": ("_ci95_high", "upper end of the 95 % interval of the median"),
    "n": ("_trials", "trials that have it"),
}
"""Exported values of a metric: the end of the family's name, and what its help begins with."""
_COUNTS = (("ok", "trials that went well"), ("failed", "trials that failed"))


def write_openmetrics(summary: Summary) -> Iterator[str]:
    """Yield the lines: four gauges of each metric, and trials by status; a sample a cell.

    Names begin with ``osmef_``; labels are run, scenario, provider, cell, workload, session,
    platform, distance, connections, and the swept values. Numbers are in the unit of the metric,
    which the help states. It does not define the metric: workloads define some names differently,
    and of two files with different helps node_exporter leaves the second one's family out.
    There are no timestamps: the scraper sets them.

    Source: OpenMetrics 1.0.
    """
    labels = [_labels(summary, cell) for cell in summary.cells]
    used = {f"osmef_cell_trials_{name}" for name, _reported in _COUNTS}
    # Those of the medians first: a metric may be called as the interval of another one.
    names = [_taken(f"osmef_{_name(one.name)}", used) for one in summary.measures]
    for median, measure in zip(names, summary.measures, strict=True):
        for part, (end, reported) in _OF.items():
            known = [
                (of, value)
                for cell, of in zip(summary.cells, labels, strict=True)
                if (value := _value(cell.metrics.get(measure.name), part)) is not None
            ]
            if known:
                in_unit = f", in {measure.unit}" if measure.unit and part != "n" else ""
                name = _taken(f"{median}{end}", used) if end else median
                yield from _family(name, f"{reported}{in_unit}", known)
    for name, reported in _COUNTS:
        counts = [
            (of, float(getattr(cell, f"n_{name}")))
            for cell, of in zip(summary.cells, labels, strict=True)
        ]
        yield from _family(f"osmef_cell_trials_{name}", reported, counts)
    yield "# EOF\n"


def _value(metric: MetricSummary | None, part: str) -> float | None:
    value = None if metric is None else getattr(metric, part)
    return None if value is None else float(value)


def _family(name: str, reported: str, samples: list[tuple[str, float]]) -> Iterator[str]:
    # OpenMetrics has no bare quote, and the text format, which node_exporter reads, no escaped one.
    help_ = _escaped(reported.replace('"', "'"))
    yield f"# TYPE {name} gauge\n# HELP {name} {help_}\n"
    for labels, value in samples:
        yield f"{name}{{{labels}}} {value!r}\n"


def _labels(summary: Summary, cell: CellInfo) -> str:
    run = summary.run
    reported = {"run": run.id, "scenario": run.scenario, "provider": run.provider, "cell": cell.key,
            "workload": cell.workload, "session": run.session, "platform": run.platform,
            "distance": cell.distance, "connections": cell.connections}  # fmt: skip
    found = {name: str(value) for name, value in reported.items() if value is not None}
    for name, value in cell.values.items():
        if value is not None and written(value) != found.get(name):  # connections are stated once
            found[_unused(_name(name), found)] = written(value)
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in found.items())


def _taken(name: str, used: set[str]) -> str:
    """Return a name that is not used yet, and note it."""
    free = _unused(name, used)
    used.add(free)
    return free


def _unused(name: str, used: Container[str]) -> str:
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


_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WORSE, _INCONCLUSIVE = "worse", "inconclusive"


def write_junit(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    failures: Sequence[Mapping[str, Any]],
    lost: Sequence[str],
) -> str:
    """Return a document with one suite: a case for each cell and metric, and each cell's trials.

    ``rows``, ``failures`` and ``lost`` are those of ``osmef compare --json``. What is worse,
    lost, or fails in B alone has failed, as for ``--fail-on regression``; what is inconclusive is
    skipped, which CI servers show and pass over. The class is the cell, the case the metric, and
    the text of a case its medians and its reason.

    Source: the schema of Jenkins' JUnit plugin.
    """
    cases = [_of_row(row) for row in rows]
    cases += [_of_trials(one) for one in failures]
    cases += [_case(cell, "cell", "failure", "only A has it", "") for cell in lost]
    suite = Xml.Element("testsuite", name=_text(name), tests=str(len(cases)), errors="0")
    for kind in ("failure", "skipped"):
        count = sum(case.find(kind) is not None for case in cases)
        suite.set("failures" if kind == "failure" else kind, str(count))
    suite.extend(cases)
    document = Xml.Element("testsuites")
    document.append(suite)
    Xml.indent(document)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{Xml.tostring(document, "unicode")}\n'


def _of_row(row: Mapping[str, Any]) -> Xml.Element:
    medians = " and ".join(_median(row[f"median_{side}"]) for side in "ab")
    text = f"medians {medians}, n = {row['n_a']} and {row['n_b']}"
    verdict, reason = str(row["verdict"]), row["reason"]
    kind = {_WORSE: "failure", _INCONCLUSIVE: "skipped"}.get(verdict)
    why = f"{verdict}, {reason}" if isinstance(reason, str) else verdict
    if is_lost(row):
        kind, why = "failure", str(reason)
    return _case(str(row["cell"]), str(row["metric"]), kind, why, text)


def _median(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _of_trials(row: Mapping[str, Any]) -> Xml.Element:
    sides = (f"{row[f'failed_{side}']} of {row[f'trials_{side}']}" for side in "ab")
    verdict = str(row["verdict"])
    failed, why = verdict == _WORSE, verdict
    if not failed and fails_alone(row):
        failed, why = True, "at least half fail in B, and none in A"
    kind = "failure" if failed else None
    return _case(str(row["cell"]), "failed trials", kind, why, ", ".join(sides))


def _case(cell: str, name: str, kind: str | None, why: str, text: str) -> Xml.Element:
    case = Xml.Element("testcase", classname=_text(cell), name=_text(name), time="0")
    if kind is None:
        Xml.SubElement(case, "system-out").text = _text(f"{why}: {text}")
    else:
        Xml.SubElement(case, kind, message=_text(why)).text = _text(text)
    return case


def _text(text: str) -> str:
    return _NO_XML.sub("?", text)


METADATA, CITATION = "ro-crate-metadata.json", "CITATION.cff"
_PAPER = (
    "D. Venzano, P. Michiardi: A Measurement Study of Data-intensive Network Traffic Patterns in a"
    " Private Cloud, 2013"
)
_FORMATS = {
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
    ".yaml": "application/yaml",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".cff": "application/yaml",
}
_KNOWN = {
    "scenario": "what was asked for",
    "journal": "what was made and destroyed, when",
    "trials": "every trial, failed ones with their reason",
    "intervals": "the time series of every connection",
    "requests": "every request",
    "measures": "what the numbers mean",
    "summary": "the result: medians, intervals, endpoints and their facts",
}
_CHUNK = 1 << 20
Entity = dict[str, Any]


def write_crate(file: BinaryIO, run: RunDirectory, authors: Sequence[str]) -> int:
    """Write a zip archive of a run with its metadata, and return its number of files.

    ``authors`` are names of people or organisations. Raises InputError without any or for
    one without a name, StorageError.

    Source: RO-Crate 1.1 (Soiland-Reyes et al., Data Science 5, 2022); Citation File Format 1.2.0.
    """
    if not authors or not all(map(str.strip, authors)):
        raise InputError(
            "the author of the data is missing",
            where="--author",
            cure="add --author 'Ada Lovelace'",
        )
    summary = run.read_summary()
    paths = [path for path in files_below(run.path) if _is_named(path)]
    names = [path.relative_to(run.path).as_posix() for path in paths]
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(METADATA, json.dumps(_metadata(summary, names, authors), indent=2))
        archive.writestr(CITATION, _citation(summary, authors))
        for path, name in zip(paths, names, strict=True):
            with storage("read", path), open_file(path) as source, archive.open(name, "w") as to:
                while data := source.read(_CHUNK):
                    to.write(data)
    return len(paths)


def _is_named(path: Path) -> bool:
    return not path.is_symlink() and path.name not in {METADATA, CITATION, "lock"}


def _metadata(summary: Summary, names: Sequence[str], authors: Sequence[str]) -> Entity:
    run = summary.run
    people = [{"@id": f"#author-{n}", "@type": "Person", "name": name}
              for n, name in enumerate(authors, 1)]  # fmt: skip
    ended = run.ended_at or run.started_at
    about = {"@id": METADATA, "@type": "CreativeWork", "about": {"@id": "./"},
             "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"}}  # fmt: skip
    root: Entity = {
        "@id": "./",
        "@type": "Dataset",
        "name": run.id,
        "description": run.description or f"network measurements of the scenario {run.scenario}",
        "author": [{"@id": one["@id"]} for one in people],
        "hasPart": [{"@id": name} for name in (CITATION, *names)],
        "mentions": {"@id": "#measurement"},
        "citation": {"@id": "#paper"},
        **({"datePublished": ended.isoformat()} if ended else {}),
    }
    action: Entity = {
        "@id": "#measurement",
        "@type": "CreateAction",
        "name": f"measurement of {run.scenario} on {run.provider}",
        "instrument": {"@id": "#osmef"},
        "result": [{"@id": name} for name in names],
        **({"startTime": run.started_at.isoformat()} if run.started_at else {}),
        **({"endTime": run.ended_at.isoformat()} if run.ended_at else {}),
    }
    version = run.versions.get("osmef", "")
    program = {"@id": "#osmef", "@type": "SoftwareApplication", "name": "OSMeF",
               "softwareVersion": version, "version": version}  # fmt: skip
    paper = {"@id": "#paper", "@type": "ScholarlyArticle", "name": _PAPER}
    files = [_file(name) for name in (CITATION, *names)]
    graph = [about, root, action, program, paper, *people, *files]
    return {"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": graph}


def _file(name: str) -> Entity:
    path = Path(name)
    known = _KNOWN.get(path.stem) or ("facts of an endpoint" if name.startswith("facts/") else "")
    reported = "how to cite this" if name == CITATION else known
    kind = _FORMATS.get(path.suffix)
    return {
        "@id": name,
        "@type": "File",
        "name": name,
        **({"description": reported} if reported else {}),
        **({"encodingFormat": kind} if kind else {}),
    }


def _citation(summary: Summary, authors: Sequence[str]) -> str:
    """Return the citation as YAML, with strings in JSON's syntax."""
    run = summary.run
    ended = run.ended_at or run.started_at
    lines = [
        "cff-version: 1.2.0",
        'message: "If you use these data, please cite them as below."',
        "type: dataset",
        f"title: {json.dumps(run.id)}",
        f"abstract: {json.dumps(run.description or run.scenario)}",
        *([f"date-released: {ended.date().isoformat()}"] if ended else []),
        "authors:",
        *(f"  - name: {json.dumps(name)}" for name in authors),
        "references:",
        "  - type: article",
        f"    title: {json.dumps(_PAPER)}",
        "    authors:",
        "      - name: D. Venzano",
        "      - name: P. Michiardi",
    ]
    return "\n".join(lines) + "\n"


COLUMNS = (
    "Machine Tag",
    "Experiment Tag",
    "Document Path",
    "Failed requests",
    "Concurrency Level",
    "Total transferred",
    "Time per request",
    "Transfer rate",
    "Requests per second",
    "Retries",
    "Response Code",
)
"""What ppbench writes, in its order (Kratzke and Quint, CLOSER 2016; Kratzke 2015)."""


def write_ppbench(file: TextIO, summary: Summary, requests: pd.DataFrame) -> int:
    """Write a row for each cell and message size, and return the number of rows.

    ``requests`` is what ``osmef.results.frame.load_requests`` gives. All trials of a cell count as
    repetitions. The machine is the flavor of its first sender, or the endpoint's name without one;
    the experiment is the cell, with semicolons for its commas. Total transferred is, other than its
    name says, the median length of one message: ppbench draws all else against it. The time is the
    mean in milliseconds, the transfer rate sum(length) * 1000 / sum(time) in bytes per second,
    requests per second 1000 / time: all of the requests that went well. They are empty where there
    are none.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for cell in summary.cells:
        rows = requests[requests["cell"] == cell.key]
        for row in _rows(cell, summary, rows[rows["purpose"] == Purpose.MEASURED.value]):
            writer.writerow(row)
            count += 1
    return count


def _rows(cell: CellInfo, summary: Summary, requests: pd.DataFrame) -> Iterator[list[object]]:
    import pandas as pd  # noqa: PLC0415

    from osmef.analysis.pingpong import by_size  # noqa: PLC0415

    if requests.empty:
        return
    machine = cell.senders[0]
    flavors = {end.name: end.flavor for end in summary.endpoints}
    path = "mping" if requests["relay_s"].notna().any() else "pong"
    codes = _codes(requests)
    for size in by_size(requests).to_dict("records"):
        retries = size["retries"]
        yield [
            _tag(flavors.get(machine) or machine),
            _tag(cell.key),
            f"/{path}/{size['size']}",
            size["failed"],
            cell.connections,
            _number(size["length_median_bytes"]),
            _number(size["time_mean_us"] / 1000),
            _number(size["transfer_rate_bytes_per_s"]),
            _number(size["requests_per_s"]),
            0 if pd.isna(retries) else int(retries),
            _number(codes[size["size"]]),
        ]


def _tag(name: str) -> str:
    """Return a name without commas, which separate tags in ppbench's options."""
    return name.replace(",", ";")


def _number(value: float) -> str:
    """Format a number without binary rounding noise."""
    import pandas as pd  # noqa: PLC0415

    return "" if pd.isna(value) else f"{value:.12g}"


def _codes(requests: pd.DataFrame) -> pd.Series[float]:
    """Return by size the first status code other than 200, else 200; NaN without any."""
    any_code = requests.groupby("size")["code"].first()
    bad = requests[requests["code"] != 200].groupby("size")["code"].first()
    return bad.combine_first(any_code).astype("float64")
