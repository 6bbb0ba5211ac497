"""Results of other programs as run directories, which all of OSMeF reads.

To add a kind, write a module with ``parse(text) -> Parsed`` and name it in ``KINDS``, and what its
metrics are in ``MEASURES``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from osmef.errors import InputError
from osmef.importers import (
    apachebench,
    cwb2018,
    flent,
    iperf3,
    netperf,
    netpipe,
    nuttcp,
    osmef2013,
    pkb,
    ppbench,
    sessions,
    shaker,
    siege,
)
from osmef.importers.cells import Origin, in_cells, most_ends
from osmef.importers.files import read_texts
from osmef.importers.record import Oddity, Parsed, Text
from osmef.importers.write import write_run
from osmef.results.measure import Measure, together
from osmef.results.rundir import RunDirectory
from osmef.workloads import siege as sieges
from osmef.workloads.kinds import size_sweep

KINDS: dict[str, Callable[[Text], Parsed]] = {
    "osmef2013": osmef2013.parse,
    "ppbench": ppbench.parse,
    "apachebench": apachebench.parse,
    "iperf3": iperf3.parse,
    "nuttcp": nuttcp.parse,
    "netperf": netperf.parse,
    "netpipe": netpipe.parse,
    "sessions": sessions.parse,
    "cwb2018": cwb2018.parse,
    "pkb": pkb.parse,
    "shaker": shaker.parse,
    "flent": flent.parse,
    "siege": siege.parse,
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
    "cwb2018": cwb2018.MEASURES,
    "pkb": pkb.MEASURES,
    "shaker": shaker.MEASURES,
    "flent": flent.MEASURES,
    "siege": sieges.MEASURES,
}
"""What the metrics of each kind are, where they have fixed names."""


_ONCE = {"osmef2013"}
"""Files of these tell their own time, so that two of a run that are equal are one."""


@dataclass(frozen=True)
class Imported:
    """The run directories that were made, of how many files and trials, what was odd, and notes."""

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
    """Make run directories under ``out`` of the files, one or, where the kind says so, several.

    ``name`` is the scenario's, by default what the file tells or the kind; ``provider`` the kind of
    cloud where the file does not tell; ``pool_ends`` takes outputs of the same settings as one
    cell, whichever machines they are of. The files are kept in ``source/`` of the run directory.
    What can't be read is an oddity: those of a file stand in the summary of each run that it is
    in, and those of a file without a trial in all. Raises InputError when nothing can be read,
    StorageError.
    """
    by_run: dict[tuple[str, str | None], list[Origin]] = defaultdict(list)
    measures: list[tuple[str, Sequence[Measure]]] = [(kind, MEASURES.get(kind, ()))]
    odd_of_run: dict[tuple[str, str | None], list[Oddity]] = defaultdict(list)
    odd_of_nobody: list[Oddity] = []
    oddities: list[Oddity] = []
    seen: dict[tuple[tuple[str, str | None], str], str] = {}
    count = 0
    for text in read_texts(files):
        count += 1
        parsed = _parsed(kind, text)
        oddities += parsed.oddities
        measures.append((kind if isinstance(text, InputError) else text.name, parsed.measures))
        if isinstance(text, InputError) or not parsed.records:
            odd_of_nobody += parsed.oddities
            continue
        of: set[tuple[str, str | None]] = set()
        for record in parsed.records:
            key = (name or record.run or kind, record.provider or provider)
            if (
                kind in _ONCE
                and (before := seen.setdefault((key, text.text), text.name)) != text.name
            ):
                what = f"this is {before} under another name"
                oddities.append(Oddity(text.name, what, kept=False))
                odd_of_nobody.append(oddities[-1])
                continue
            by_run[key].append(Origin(record, text))
            of.add(key)
        for key in of:
            odd_of_run[key] += parsed.oddities
    if not by_run:
        first = oddities[0] if oddities else Oddity(str(files[0]), "there is no file in it", False)
        raise InputError(
            first.what, where=first.where, cure=f"is this a result of the kind {kind}?"
        )
    known = list(together(measures).values())
    runs, notes = [], []
    for (scenario, cloud), origins in by_run.items():
        odd = [*odd_of_run[scenario, cloud], *odd_of_nobody]
        placed = in_cells(origins, pool_ends=pool_ends)
        runs.append(write_run(out, scenario, kind, cloud, placed, odd, known))
        pairs = most_ends(origin.record for origin in origins)
        if pairs > 1 and not pool_ends:
            notes.append(
                f"{scenario} has up to {pairs} pairs of machines of the same settings, each a cell"
                " of its own: --pool-ends takes them as one"
            )
    trials = sum(len(origins) for origins in by_run.values())
    return Imported(runs, count, trials, oddities, notes)


def _parsed(kind: str, text: Text | InputError) -> Parsed:
    try:
        if isinstance(text, InputError):
            raise text
        return KINDS[kind](text)
    except InputError as error:
        return Parsed(oddities=[Oddity(error.where or kind, error.message, kept=False)])
