"""JUnit XML of a comparison's verdicts, for CI servers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as Xml

from osmef.report.compared import fails_alone, is_lost

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
