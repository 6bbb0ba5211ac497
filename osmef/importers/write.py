"""Writing of records as a run directory, with the files of a run of OSMeF."""

from __future__ import annotations

import platform
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import osmef
from osmef.analysis.describe import describe, describe_sessions
from osmef.importers.record import RECEIVER, SENDER, Oddity, Record, Text
from osmef.results.files import write_atomically
from osmef.results.measure import Measure
from osmef.results.rundir import RunDirectory
from osmef.results.summary import CellInfo, EndpointInfo, MetricSummary, RunInfo, Summary
from osmef.results.tables import as_table
from osmef.results.trial import Source, Status, Trial
from osmef.scenario.fields import EndpointKind
from osmef.scenario.location import Location
from osmef.units import counted

MOST_NOTES = 20
"""Largest number of oddities in a summary; a run with more has a file of all."""
NOTES = "notes.txt"


def write_run(  # noqa: PLR0913, PLR0917 - all that a run directory is made of
    out: Path,
    name: str,
    kind: str,
    provider: str | None,
    origins: Sequence[Origin],
    oddities: Sequence[Oddity],
    measures: Sequence[Measure],
) -> RunDirectory:
    """Write a run directory of records, ``in_cells``, under ``out``.

    It gets those of ``measures`` for which it has values. Raises StorageError; nothing of it stays
    then.
    """
    run = RunDirectory.create(out, slug(name), None, "")
    with removed_on_failure([run]), run:
        kept = _keep(run, origins)
        repetitions: dict[str, int] = defaultdict(int)
        trials = []
        for index, origin in enumerate(origins, start=1):
            key = cell_key(origin.record)
            repetitions[key] += 1
            source = Source(kind=kind, file=kept[origin.text], place=origin.record.place)
            trials.append(_trial(origin.record, index, repetitions[key], source))
            _write_rows(run, index, origin.record)
        lines = "".join(f"{trial.model_dump_json()}\n" for trial in trials)
        write_atomically(run.trials, lines.encode())
        run.finish()
        run.write_summary(_summary(run, name, provider, trials, origins, oddities, measures))
    return run


@contextmanager
def removed_on_failure(runs: Sequence[RunDirectory]) -> Iterator[None]:
    """Remove the directories of these runs, also of those added meanwhile, after any failure."""
    try:
        yield
    except BaseException:
        for run in runs:
            shutil.rmtree(run.path, ignore_errors=True)  # they are ours, and just made
        raise


def slug(name: str) -> str:
    """Return a name as a part of a directory's name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:48] or "imported"


def _keep(run: RunDirectory, origins: Sequence[Origin]) -> dict[Text, str]:
    """Copy the original files; return their paths in the run directory."""
    kept: dict[Text, str] = {}
    taken: set[str] = set()
    for text in dict.fromkeys(origin.text for origin in origins):
        name = Path(text.name).name
        numbered = (f"{number}-{name}" for number in count(len(kept)))
        here = next(one for one in chain([name], numbered) if one not in taken)
        taken.add(here)
        kept[text] = f"source/{here}"
        write_atomically(run.path / kept[text], text.encoded())
    return kept


def shortened(oddities: Sequence[Oddity]) -> list[str]:
    """Return the first oddities of all files, and where the others are."""
    lines = [str(oddity) for oddity in oddities[:MOST_NOTES]]
    if (more := len(oddities) - MOST_NOTES) > 0:
        lines.append(f"and {more} more: all are in the summaries of the runs, or in their {NOTES}")
    return lines


def _warnings(run: RunDirectory, oddities: Sequence[Oddity]) -> list[str]:
    """Return the oddities as warnings of a summary; a file has all if they are many."""
    lines = [str(oddity) for oddity in oddities]
    if len(lines) <= MOST_NOTES:
        return lines
    write_atomically(run.path / NOTES, "".join(f"{one}\n" for one in lines).encode())
    more = f"and {len(lines) - MOST_NOTES} more: all are in {NOTES} of the run"
    return [*lines[:MOST_NOTES], more]


def _write_rows(run: RunDirectory, index: int, record: Record) -> None:
    number = {"trial": index}
    if record.intervals:
        run.write_intervals(index, [row.model_copy(update=number) for row in record.intervals])
    if record.requests:
        rows = [row.model_copy(update=number) for row in record.requests]
        run.write_requests(index, [as_table("requests", rows)])


def _trial(record: Record, index: int, repetition: int, source: Source) -> Trial:
    return Trial(
        index=index,
        cell=cell_key(record),
        repetition=repetition,
        group=1,
        values=record.values,
        senders=list(record.senders),
        receivers=list(record.receivers),
        placement=record.placement,
        tenancy=record.tenancy,
        achieved_placement=record.placement,
        achieved_tenancy=record.tenancy,
        distance=record.distance,
        connections=record.connections,
        workload=record.workload,
        started_at=record.started_at,
        wall_s=record.wall_s,
        session=record.session,
        window=record.window,
        platform=record.platform,
        source=source,
        status=Status.FAILED if record.failure else Status.OK,
        failure=record.failure,
        metrics={} if record.failure else record.metrics,
        sizes=record.sizes,
    )


def _summary(  # noqa: PLR0913, PLR0917
    run: RunDirectory,
    name: str,
    provider: str | None,
    trials: Sequence[Trial],
    origins: Sequence[Origin],
    oddities: Sequence[Oddity],
    measures: Sequence[Measure],
) -> Summary:
    starts = [trial.started_at for trial in trials if trial.started_at]
    cells: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        cells[trial.cell].append(trial)
    kinds = {name: kind for origin in origins for name, kind in origin.record.kinds.items()}
    flavors = {name: one for origin in origins for name, one in origin.record.flavors.items()}
    facts: dict[str, dict[str, Any]] = {}
    for origin in origins:
        facts = {**origin.record.facts, **facts}  # the first one that has it
    files = len({origin.text for origin in origins})
    found = {name for trial in trials for name in trial.metrics}
    by_session = len({trial.session for trial in trials}) > 1
    names = dict.fromkeys(name for trial in trials for name in (*trial.senders, *trial.receivers))
    return Summary(
        run=RunInfo(
            id=run.id,
            scenario=name,
            description=f"imported from {counted(files, 'file')}",
            scenario_digest=None,
            provider=provider,
            tags={},
            seed=None,
            started_at=min(starts, default=None),
            ended_at=None,
            complete=True,
            session=_same(trial.session for trial in trials),
            window=_same(trial.window for trial in trials),
            platform=_same(trial.platform for trial in trials),
            versions={"osmef": osmef.__version__, "python": platform.python_version()},
            warnings=_warnings(run, oddities),
        ),
        endpoints=[
            _endpoint(name, kinds.get(name), flavors.get(name), facts.get(name, {}))
            for name in names
        ],
        measures=[measure for measure in measures if measure.name in found],
        cells=[
            _cell(key, cells[key], by_session=by_session)
            for key in sorted(cells, key=lambda key: _order(cells[key]))
        ],
    )


def _same(texts: Iterable[str | None]) -> str | None:
    """Return the common value of all, None where they differ."""
    found = set(texts)
    return found.pop() if len(found) == 1 else None


def _order(trials: Sequence[Trial]) -> list[tuple[bool, float, str]]:
    """Return the sort key of cells: their values, numbers before texts."""
    values = trials[0].values.values()
    return [
        (False, float(v), "") if isinstance(v, int | float) else (True, 0.0, str(v)) for v in values
    ]


def _endpoint(
    name: str, kind: EndpointKind | None, flavor: str | None, facts: dict[str, Any]
) -> EndpointInfo:
    return EndpointInfo.model_validate(
        {
            "name": name,
            "kind": kind,
            "flavor": flavor,
            "vcpus": None,
            "requested": Location(),
            "achieved": Location(),
            "data_address": None,
            "warnings": [],
            "agent_sha256": None,
            "facts": facts,
        }
    )


def _cell(key: str, trials: Sequence[Trial], *, by_session: bool) -> CellInfo:
    first = trials[0]
    good = [trial for trial in trials if trial.status is Status.OK]
    placements = {(t.achieved_placement, t.achieved_tenancy, t.distance) for t in trials}
    placement, tenancy, distance = placements.pop() if len(placements) == 1 else (None, None, None)
    metrics = dict.fromkeys(name for trial in good for name in trial.metrics)
    return CellInfo(
        key=key,
        values=first.values,
        workload=first.workload,
        senders=first.senders,
        receivers=first.receivers,
        placement=placement,
        tenancy=tenancy,
        achieved_placement=placement,
        achieved_tenancy=tenancy,
        distance=distance,
        requested_distance=distance,
        connections=first.connections,
        n_ok=len(good),
        n_failed=len(trials) - len(good),
        metrics={name: _metric(name, good, by_session=by_session) for name in metrics},
    )


def _metric(name: str, trials: Sequence[Trial], *, by_session: bool) -> MetricSummary:
    """Return the statistics of a metric over the trials, or over sessions if a run has several."""
    if not by_session:
        return describe(trial.metrics.get(name) for trial in trials)
    sessions: dict[str, list[float]] = {}
    for trial in trials:
        if (value := trial.metrics.get(name)) is not None:
            sessions.setdefault(str(trial.session), []).append(value)
    return describe_sessions(sessions)


@dataclass(frozen=True)
class Origin:
    """A record and its file."""

    record: Record
    text: Text


def cell_key(record: Record) -> str:
    """Return the key of a record's cell, as that of a sweep."""
    return ",".join(f"{name}={value}" for name, value in record.values.items()) or "all"


def in_cells(origins: Sequence[Origin], *, pool_ends: bool) -> list[Origin]:
    """Return the records with the values that distinguish their cells.

    Where records of the same values have different ends, the ends are values, too: ``sender`` and
    ``receiver``. Else, or with ``pool_ends``, they are not, so that other machines can be compared
    by cells. A failed record may have few values: it belongs to the cell of the successful ones
    with all of these, if there is only one.
    """
    found = [origin.record for origin in origins]
    if not pool_ends and most_ends(found) > 1:
        found = [_with_ends(record) for record in found]
    cells = {cell_key(record): record for record in found if record.failure is None}
    return [
        Origin(_matching_success(record, cells) if record.failure else record, origin.text)
        for record, origin in zip(found, origins, strict=True)
    ]


def most_ends(records: Iterable[Record]) -> int:
    """Return the largest number of pairs among good records with the same values."""
    ends: dict[str, set[tuple[tuple[str, ...], tuple[str, ...]]]] = defaultdict(set)
    for record in records:
        if record.failure is None:  # which may have no ends
            ends[cell_key(record)].add((record.senders, record.receivers))
    return max(map(len, ends.values()), default=0)


def _with_ends(record: Record) -> Record:
    ends = {"sender": ",".join(record.senders), "receiver": ",".join(record.receivers)}
    if record.failure:
        ends = {side: name for side, name in ends.items() if name not in {SENDER, RECEIVER}}
    return replace(record, values={**record.values, **ends})


def _matching_success(record: Record, cells: Mapping[str, Record]) -> Record:
    values = {(name, value) for name, value in record.values.items() if value is not None}
    like = [one for one in cells.values() if values <= one.values.items()]
    if cell_key(record) in cells or len(like) != 1:
        return record
    (one,) = like
    return replace(record, values=one.values, workload=one.workload, connections=one.connections)
