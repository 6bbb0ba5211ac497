"""A run on its page: read from its directory, its findings, and the tables of its endpoints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from osmef.analysis.differences import (
    MOVING,
    differences,
    differing_keys,
    differing_keys_with_groups,
    with_groups,
)
from osmef.files import exists, open_file
from osmef.report.html.layout import NOTHING, Column, Emphasis, Field, Table, names, text
from osmef.report.summary import LIMITS, expectations, money, parts_of, short_cells
from osmef.report.table import fewest_trials
from osmef.results.brief import brief_summary, brief_trials, trial_count_warning
from osmef.results.files import storage
from osmef.results.measure import Better, Measure
from osmef.results.rundir import RunDirectory
from osmef.results.summary import CellInfo, EndpointInfo, MetricSummary, Summary
from osmef.results.trial import Bottleneck
from osmef.scenario.location import Location
from osmef.units import counted

_MOST_SCENARIO = 64 * 1024


@dataclass(frozen=True)
class FailureGroup:
    """Failed trials with the same reason."""

    kind: str
    message: str
    where: str | None
    cure: str | None
    cells: list[str]
    count: int


@dataclass(frozen=True)
class ShownRun:
    """A run: its number in the page, from 1, and the content of its directory.

    ``summary`` is None before the end of a run, and after a kill; ``missing`` warns where it counts
    more trials than there are. ``scenario`` is the text of the scenario file, None of an imported
    run.
    """

    number: int
    directory: RunDirectory
    name: str
    summary: Summary | None
    missing: str | None
    trials: int
    failed: list[FailureGroup]
    scenario_name: str | None
    scenario: str | None

    @property
    def path(self) -> Path:
        """The path of the run."""
        return self.directory.path


def read_run(number: int, directory: RunDirectory) -> ShownRun:
    """Read a run. Raises InputError where it is damaged or of a newer version, StorageError."""
    summary = directory.read_summary() if exists(directory.summary) else None
    trials, failed = _trials(directory)
    found = min(directory.path.glob("scenario.*"), default=None)
    return ShownRun(
        number=number,
        directory=directory,
        name=brief_summary(directory).scenario,
        summary=summary,
        missing=trial_count_warning(directory),
        trials=trials,
        failed=failed,
        scenario_name=found.name if found else None,
        scenario=_text(found) if found else None,
    )


def _trials(directory: RunDirectory) -> tuple[int, list[FailureGroup]]:
    """Count the trials, and group the reasons of failed ones."""
    cells: dict[tuple[str, str, str | None, str | None], list[str]] = defaultdict(list)
    count = 0
    for trial in brief_trials(directory):
        count += 1
        if failure := trial.get("failure"):
            reason = (failure["kind"], failure["message"])
            cells[*reason, failure.get("where"), failure.get("cure")].append(trial["cell"])
    failed = [
        FailureGroup(kind, message, where, cure, list(dict.fromkeys(of)), len(of))
        for (kind, message, where, cure), of in cells.items()
    ]
    return count, sorted(failed, key=lambda one: -one.count)


def _text(path: Path) -> str:
    with storage("read", path), open_file(path) as file:
        text = file.read(4 * _MOST_SCENARIO + 4).decode(errors="replace")
    if len(text) <= _MOST_SCENARIO:
        return text
    return f"{text[:_MOST_SCENARIO]}\n… (the rest is in {path})"


_MOST_NAMES = 3
_MOST_FINDINGS = 12
_PLACE = ("placement", "tenancy")


def findings(summary: Summary) -> list[str]:
    """Return the findings of a run, expected medians first.

    A distance costs something where the 95 % intervals of two medians do not overlap. Of two equal
    cells of 6 trials each that is so in 0.2 % of cases, of 12 such pairs in 2 %.
    """
    names, _shared = short_cells(cell.key for cell in summary.cells)
    return [
        *(f"Expected of {text}." for _verdict, text in expectations(summary)),
        *_range(summary, names),
        *_limits(summary, names),
        *_distances(summary),
        *_failed(summary, names),
    ][:_MOST_FINDINGS]


def _leading(summary: Summary) -> Iterator[tuple[Measure, list[CellInfo]]]:
    """Yield the leading measures, each with the cells that have a median of it."""
    for measure in summary.measures:
        cells = [cell for cell in summary.cells if cell.median_of(measure.name) is not None]
        if measure.leading and cells:
            yield measure, cells


def _range(summary: Summary, names: Mapping[str, str]) -> Iterator[str]:
    for measure, cells in _leading(summary):
        ordered = sorted(cells, key=lambda cell: cell.median_of(measure.name) or 0.0)
        low, high = ordered[0], ordered[-1]
        what = f"{measure.words[0].upper()}{measure.words[1:]}"
        if low is high:
            yield f"{what}: {_with_interval(low, measure)}."
        else:
            yield (
                f"{what}: medians from {_with_interval(low, measure)} ({names[low.key]}) to"
                f" {_with_interval(high, measure)} ({names[high.key]})."
            )


def _limits(summary: Summary, names: Mapping[str, str]) -> Iterator[str]:
    """Describe the bottleneck of most connections of each cell, if it has one."""
    found: dict[Bottleneck, list[CellInfo]] = defaultdict(list)
    for cell in summary.cells:
        if cell.limited_by:
            limit = max(cell.limited_by, key=lambda one: cell.limited_by[one])
            most = 2 * cell.limited_by[limit] > sum(cell.limited_by.values())
            if most and limit is not Bottleneck.INCONCLUSIVE:
                found[limit].append(cell)
    for limit, of in found.items():
        where = f" in {_where(of, summary, names)}" if len(summary.cells) > 1 else ""
        yield f"The limit was the {LIMITS[limit]}{where}."


def _distances(summary: Summary) -> Iterator[str]:
    """Describe the cost of each distance relative to the nearest, all else equal."""
    for measure, cells in _leading(summary):
        if measure.better is Better.NEITHER:
            continue
        costs: dict[tuple[int, int], _Costs] = defaultdict(_Costs)
        groups: dict[tuple[object, ...], list[CellInfo]] = defaultdict(list)
        for cell in cells:
            if cell.distance is not None:
                groups[_settings(cell)].append(cell)
        for of in groups.values():
            near = min(of, key=lambda cell: cell.distance or 0)
            for far in of:
                if (near.distance or 0) < (far.distance or 0):
                    pair = near.distance or 0, far.distance or 0
                    costs[pair].add(measure.name, near, far)
        for (near_at, far_at), cost in costs.items():
            yield f"At distance {far_at} {measure.words} {cost.words(near_at)}."


@dataclass
class _Costs:
    """What a distance costs in one or several settings: ratios of medians that differ.

    ``alike`` counts settings with overlapping intervals, ``from_zero`` those that differ from a
    median of 0, which gives no ratio, and ``untested`` those without an interval, of which one
    needs so many trials as ``needed``.
    """

    ratios: list[float] = field(default_factory=list)
    alike: int = 0
    from_zero: int = 0
    untested: int = 0
    needed: int = 0

    def add(self, name: str, near_cell: CellInfo, far_cell: CellInfo) -> None:
        """Add the medians of a metric in a setting."""
        near, far = near_cell.metrics[name], far_cell.metrics[name]
        apart = _apart(near, far)
        if apart is None:
            self.untested += 1
            self.needed = max(self.needed, fewest_trials(near_cell), fewest_trials(far_cell))
        elif not apart:
            self.alike += 1
        elif near.median:
            self.ratios.append((far.median or 0.0) / near.median)
        else:
            self.from_zero += 1

    def words(self, near_at: int) -> str:
        """Return the rest of a sentence that begins with the distance and the measure."""
        if not self.ratios and not self.alike and not self.from_zero:
            few = f"too few trials or pairs (n < {self.needed})"
            return f"can't be compared with that at distance {near_at}: {few}"
        untested = f"; in {_settings_of(self.untested)} there are too few trials or pairs to tell"
        rest = untested if self.untested else ""
        alike = f"; in {_settings_of(self.alike)} they are not clearly different"
        if self.alike and (self.ratios or self.from_zero):
            rest = f"{alike}{rest}"
        if self.from_zero and not self.ratios:
            return f"differs from that at distance {near_at}, which is 0{rest}"
        if not self.ratios:
            return f"is not clearly different from that at distance {near_at}{rest}"
        ends = [f"{100 * end:.3g}" for end in (min(self.ratios), max(self.ratios))]
        share = f"{ends[0]} %" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]} %"
        zero = f"; in {_settings_of(self.from_zero)} they differ, and the nearer one is 0"
        return f"is {share} of that at distance {near_at}{zero if self.from_zero else ''}{rest}"


def _settings_of(others: int) -> str:
    return "1 other setting" if others == 1 else f"{others} other settings"


def _failed(summary: Summary, names: Mapping[str, str]) -> Iterator[str]:
    failed = [cell for cell in summary.cells if cell.n_failed]
    if failed:
        trials = counted(sum(cell.n_failed for cell in failed), "trial")
        yield f"{trials} failed, in {_where(failed, summary, names)}."


def _settings(cell: CellInfo) -> tuple[object, ...]:
    """Return the settings of a cell without its placement."""
    own = {key: value for key, value in cell.values.items() if key not in _PLACE}
    return (cell.workload, cell.background, *sorted(map(str, own.items())))


def _apart(a: MetricSummary, b: MetricSummary) -> bool | None:
    """Return whether the intervals of two medians are disjoint; None where one has none."""
    ends = (a.ci95_low, a.ci95_high, b.ci95_low, b.ci95_high)
    if None in ends:
        return None
    a_low, a_high, b_low, b_high = (float(end or 0.0) for end in ends)
    return a_high < b_low or b_high < a_low


def _with_interval(cell: CellInfo, measure: Measure) -> str:
    metric = cell.metrics[measure.name]
    shown = measure.with_unit(metric.median or 0.0)
    if metric.ci95_low is None or metric.ci95_high is None:
        return f"{shown} (n = {metric.n}, too few for an interval)"
    return f"{shown} [{measure.between(metric.ci95_low, metric.ci95_high)}]"


def _where(of: list[CellInfo], summary: Summary, names: Mapping[str, str]) -> str:
    """Name a set of cells: all, those with one common value, or each by its name."""
    if len(of) == len(summary.cells) > 1:
        return f"{_all(of)} cells"
    keys = [cell.key for cell in of]
    for part in parts_of(of[0].key):
        if len(of) > 1 and keys == [one.key for one in summary.cells if part in parts_of(one.key)]:
            word = short_cells([part])[0][part]
            return f"{_all(of)} cells with {word}" if "=" in word else f"{_all(of)} {word} cells"
    return _listed([names[key] for key in keys])


def _all(of: list[CellInfo]) -> str:
    return "both" if len(of) == 2 else f"all {len(of)}"


def _listed(names: list[str]) -> str:
    left = len(names) - _MOST_NAMES
    more = f" and {counted(left, 'more cell')}" if left > 0 else ""
    return "; ".join(names[:_MOST_NAMES]) + more


_OWN = ("hostname", "agent_sha256", "error", "change")
_MOST_ROWS = 300
_LONGEST = 200
_AGENT = 12  # of its hash


def endpoints_table(summary: Summary) -> Table:
    """Return one row an endpoint: as requested, as achieved, and its main facts."""
    heads = ("endpoint", "kind", "flavor", "vCPUs", "host", "tenant", "zone", "address")
    facts = ("CPU", "kernel", "system", "congestion control", "agent")
    columns = [Column(head, number=head == "vCPUs") for head in (*heads, *facts)]
    rows = [_endpoint(info) for info in summary.endpoints[:_MOST_ROWS]]
    if summary.run.sites:
        columns.insert(1, Column("site"))
        for row, info in zip(rows, summary.endpoints, strict=False):
            row.insert(1, _site(info, summary.run.sites))
    note = "Host and tenant as the cloud reports them; small: the slot of the plan."
    if len(summary.endpoints) > _MOST_ROWS:
        note += f" The first {_MOST_ROWS} of {len(summary.endpoints)} endpoints."
    return Table("Endpoints", columns, rows, note)


def _endpoint(info: EndpointInfo) -> list[Field]:
    before = _facts(info)
    addresses = [one for one in (info.data_address, info.data_address6) if one]
    return [
        Field(
            info.name,
            tuple(info.warnings),
            emphasis=Emphasis.WARN if info.warnings else Emphasis.PLAIN,
        ),
        text(info.kind),
        _flavor(info),
        text(info.vcpus),
        _placement(info.achieved.host, info.requested.host, info.earlier),
        _placement(info.achieved.tenant, info.requested.tenant, []),
        text(info.achieved.zone or info.achieved.region),
        Field(addresses[0], tuple(addresses[1:])) if addresses else text(None),
        text(_at(before, "cpu", "model")),
        text(_at(before, "kernel", "release")),
        text(_at(before, "distribution", "pretty_name")),
        text(_at(before, "tcp", "congestion_control")),
        text(info.agent_sha256[:_AGENT] if info.agent_sha256 else None),
    ]


def _site(info: EndpointInfo, kinds: Mapping[str, str]) -> Field:
    name = info.achieved.site or ""
    return Field(name, (kinds[name],) if name in kinds else ())


def _flavor(info: EndpointInfo) -> Field:
    if info.price is None:
        return text(info.flavor)
    price = f"{money(info.price)} an hour, {info.price.date}, {info.price.source}"
    return Field(info.flavor or NOTHING, (price,))


def _placement(achieved: str | None, asked: str | None, earlier: Sequence[Location]) -> Field:
    lines = [f"asked for: {asked}"] if asked not in (None, achieved) else []
    lines += [f"before that on {one.host}" for one in earlier if one.host]
    return Field(achieved or "unknown", tuple(lines), key=achieved or "")


def _facts(info: EndpointInfo) -> Mapping[str, Any]:
    return info.facts.get("before") or {}


def _at(facts: Mapping[str, Any], group: str, key: str) -> object:
    within = facts.get(group)
    return within.get(key) if isinstance(within, Mapping) else None


def differences_table(readings: Sequence[ShownRun]) -> Table | None:
    """Return the facts that differ among endpoints of all runs; None without facts."""
    records = {
        _name(info.name, reading, readings): _facts(info)
        for reading in readings
        if reading.summary
        for info in reading.summary.endpoints
        if _facts(info)
    }
    if not records:
        return None
    found = [
        [Field(one.key), Field(_short(value)), Field(names(who), key=str(len(who)))]
        for one in differing_keys_with_groups(differing_keys(records, (*MOVING, *_OWN)))
        for value, who in one.values.items()
    ]
    columns = [Column("fact"), Column("value"), Column("of these endpoints")]
    note = f"Of {len(records)} endpoints, before the first trial."
    if len(found) > _MOST_ROWS:
        note += f" The first {_MOST_ROWS} of {len(found)} values; facts/ of each run has all."
    return Table("Facts that are not the same everywhere", columns, found[:_MOST_ROWS], note)


def changes_table(summary: Summary) -> Table | None:
    """Return the facts that changed during a run; None without any."""
    changes = (
        [Field(info.name), Field(one.key), Field(_short(one.a)), Field(_short(one.b))]
        for info in summary.endpoints
        for one in with_groups(
            differences(_facts(info), info.facts.get("after") or _facts(info), (*MOVING, *_OWN))
        )
    )
    rows = list(islice(changes, _MOST_ROWS))
    columns = [Column(head) for head in ("endpoint", "fact", "before", "after")]
    return Table("Facts that changed during the run", columns, rows) if rows else None


def _name(endpoint: str, reading: ShownRun, readings: Sequence[ShownRun]) -> str:
    return endpoint if len(readings) == 1 else f"{reading.number}: {endpoint}"


def _short(value: object) -> str:
    reported = "unknown" if value in (None, "null") else str(value)
    return reported if len(reported) <= _LONGEST else f"{reported[:_LONGEST]}…"
