"""RO-Crate of a run: its files with metadata, authors, and citation."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from osmef.errors import InputError
from osmef.named_file import open_file
from osmef.results.files import storage
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary

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

    ``authors`` are names of people or organisations. Raises InputError without any, StorageError.

    Source: RO-Crate 1.1 (Soiland-Reyes et al., Data Science 5, 2022); Citation File Format 1.2.0.
    """
    if not authors:
        raise InputError(
            "the author of the data is missing",
            where="--author",
            cure="add --author 'Ada Lovelace'",
        )
    summary = run.read_summary()
    paths = sorted(path for path in run.path.rglob("*") if path.is_file() and _is_told(path))
    names = [path.relative_to(run.path).as_posix() for path in paths]
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(METADATA, json.dumps(_metadata(summary, names, authors), indent=2))
        archive.writestr(CITATION, _citation(summary, authors))
        for path, name in zip(paths, names, strict=True):
            with storage("read", path), open_file(path) as source, archive.open(name, "w") as to:
                while data := source.read(_CHUNK):
                    to.write(data)
    return len(paths)


def _is_told(path: Path) -> bool:
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
    told = "how to cite this" if name == CITATION else known
    kind = _FORMATS.get(path.suffix)
    return {
        "@id": name,
        "@type": "File",
        "name": name,
        **({"description": told} if told else {}),
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
