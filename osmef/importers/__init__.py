"""Import of other programs' results as run directories.

To add a kind, write a function ``parse(text) -> Parsed`` in a module, and name it in ``KINDS``, and
what its metrics are in ``MEASURES``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from osmef.errors import InputError
from osmef.importers import (
    apachebench,
    flent,
    iperf3,
    netperf,
    netpipe,
    nuttcp,
    osmef2013,
    pingpong,
    pkb,
    sessions,
    shaker,
)
from osmef.importers.record import Oddity, Parsed, Record, Text, read_texts, refuse
from osmef.importers.write import Origin, in_cells, most_ends, removed_on_failure, write_run
from osmef.results.measure import Measure, merge_measures
from osmef.results.rundir import RunDirectory
from osmef.workloads import siege as sieges
from osmef.workloads.kinds import size_sweep

KINDS: dict[str, Callable[[Text], Parsed]] = {
    "osmef2013": osmef2013.parse,
    "ppbench": pingpong.parse_ppbench,
    "apachebench": apachebench.parse,
    "iperf3": iperf3.parse,
    "nuttcp": nuttcp.parse,
    "netperf": netperf.parse,
    "netpipe": netpipe.parse,
    "sessions": sessions.parse_sessions,
    "cwb2018": sessions.parse_cwb2018,
    "pkb": pkb.parse,
    "shaker": shaker.parse,
    "flent": flent.parse,
    "siege": pingpong.parse_siege,
}
"""What reads a file of each kind."""

MEASURES: dict[str, Sequence[Measure]] = {
    "osmef2013": osmef2013.MEASURES,
    "ppbench": sieges.MEASURES,
    "apachebench": apachebench.MEASURES,
    "iperf3": iperf3.MEASURES,
    "nuttcp": nuttcp.MEASURES,
    "netperf": netperf.MEASURES,
    "netpipe": size_sweep.MEASURES,
    "cwb2018": sessions.CWB2018_MEASURES,
    "pkb": pkb.MEASURES,
    "shaker": shaker.MEASURES,
    "flent": flent.MEASURES,
    "siege": sieges.MEASURES,
}
"""What the metrics of each kind are, where they have fixed names."""


_PRINTED = {"nuttcp", "netperf", "netpipe"}
"""Outputs of lines: one that is cut off may end with a number, or lack some."""
_ONCE = {"osmef2013"}
"""Files of these formats contain their time, so equal ones of a run are duplicates."""


@dataclass(frozen=True)
class Imported:
    """The created run directories, the numbers of files and trials, oddities, and notes."""

    runs: list[RunDirectory]
    files: int
    trials: int
    oddities: list[Oddity]
    notes: list[str]


def import_files(  # noqa: PLR0913 - three have defaults
    kind: str,
    files: Sequence[Path],
    out: Path,
    name: str | None = None,
    provider: str | None = None,
    *,
    pool_ends: bool = False,
) -> Imported:
    """Create run directories under ``out`` from files, one or several by the kind of file.

    ``name`` is the scenario's, by default that in the file, or the kind; ``provider`` the kind of
    cloud if the file does not have it; ``pool_ends`` merges outputs of the same settings from all
    machines into one cell. The files are kept in ``source/`` of the run directory. Unreadable parts
    are oddities: those of a file are in the summary of each of its runs, and those of a file
    without a trial in all. Raises InputError when nothing can be read, StorageError; no run stays
    then.
    """
    found = _Records(kind, name, provider)
    for text in read_texts(files):
        found.add(text)
    if not found.by_run:
        what = "there is no trial in it" if found.files else "there is no file in it"
        first = (*found.oddities, Oddity(str(files[0]), what, kept=False))[0]
        cure = f"is this a result of the kind {kind}?"
        raise InputError(first.what, where=first.where, cure=cure)
    known = list(merge_measures(found.measures).values())
    runs: list[RunDirectory] = []
    notes = []
    with removed_on_failure(runs):
        for (scenario, cloud), origins in found.by_run.items():
            odd = [*found.odd_of_run[scenario, cloud], *found.odd_of_no_run]
            placed = in_cells(origins, pool_ends=pool_ends)
            runs.append(write_run(out, scenario, kind, cloud, placed, odd, known))
            pairs = most_ends(origin.record for origin in origins)
            if pairs > 1 and not pool_ends:
                notes.append(
                    f"{scenario} has up to {pairs} pairs of machines of the same settings, each a"
                    " cell of its own: --pool-ends takes them as one"
                )
    trials = sum(map(len, found.by_run.values()))
    return Imported(runs, found.files, trials, found.oddities, notes)


_RunKey = tuple[str, str | None]
"""The names of a run's scenario and of its provider."""


class _Records:
    """Records by run, and the oddities of the files.

    ``kind``, ``name`` and ``provider`` are those of ``import_files``.
    """

    def __init__(self, kind: str, name: str | None, provider: str | None) -> None:
        self.by_run: dict[_RunKey, list[Origin]] = defaultdict(list)
        self.odd_of_run: dict[_RunKey, list[Oddity]] = defaultdict(list)
        self.odd_of_no_run: list[Oddity] = []
        self.oddities: list[Oddity] = []
        self.measures: list[tuple[str, Sequence[Measure]]] = [(kind, MEASURES.get(kind, ()))]
        self.files = 0
        self._kind, self._name, self._provider = kind, name, provider
        self._names: dict[tuple[_RunKey, str], str] = {}

    def add(self, text: Text | InputError) -> None:
        """Parse a file, or note its error."""
        self.files += 1
        parsed = _parsed(self._kind, text)
        self.oddities += parsed.oddities
        source = self._kind if isinstance(text, InputError) else text.name
        self.measures.append((source, parsed.measures))
        if isinstance(text, InputError) or not parsed.records:
            self.odd_of_no_run += parsed.oddities
            return
        for key in {key for record in parsed.records if (key := self._take(record, text))}:
            self.odd_of_run[key] += parsed.oddities

    def _take(self, record: Record, text: Text) -> _RunKey | None:
        """Add a record to its run; None for a duplicate from another file."""
        key = (self._name or record.run or self._kind, record.provider or self._provider)
        first = self._names.setdefault((key, text.text), text.name)
        if self._kind in _ONCE and first != text.name:
            odd = Oddity(text.name, f"this is {first} under another name", kept=False)
            self.oddities.append(odd)
            self.odd_of_no_run.append(odd)
            return None
        self.by_run[key].append(Origin(record, text))
        return key


def _parsed(kind: str, text: Text | InputError) -> Parsed:
    try:
        if isinstance(text, InputError):
            raise text
        if not text.text.strip():
            raise refuse(text.name, "the file is empty")
        parsed = KINDS[kind](text)
    except InputError as error:
        return Parsed(oddities=[Oddity(error.where or kind, error.message, kept=False)])
    if kind in _PRINTED and not text.text.endswith("\n"):
        last = text.line(text.text.count("\n") + 1)
        cut = Oddity(last, "this line has no end: a number on it may be cut off", kept=True)
        parsed = replace(parsed, oddities=[*parsed.oddities, cut])
    return parsed
