"""Partial read of trials and summaries for frames, much faster than a full one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from osmef.files import exists
from osmef.results.document import read_document
from osmef.results.files import read_lines, read_whole
from osmef.results.measure import Measure
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary
from osmef.results.trial import SCHEMA_VERSION, Trial


class BriefFailure(TypedDict):
    """The part of ``Failure``."""

    kind: str
    message: str
    where: NotRequired[str | None]
    cure: NotRequired[str | None]


class BriefTrial(TypedDict):
    """The part of ``Trial``, as stored in the file."""

    __pydantic_config__ = ConfigDict(allow_inf_nan=False)  # type: ignore[misc]

    index: int
    cell: str
    repetition: int
    group: int
    pair: NotRequired[int | None]
    values: dict[str, Any]
    senders: list[str]
    receivers: list[str]
    placement: str | None
    tenancy: str | None
    achieved_placement: NotRequired[str | None]
    achieved_tenancy: NotRequired[str | None]
    distance: int | None
    connections: NotRequired[int | None]
    workload: str
    background: NotRequired[str | None]
    session: NotRequired[str | None]
    window: NotRequired[str | None]
    platform: NotRequired[str | None]
    started_at: str | None
    wall_s: float | None
    status: str
    failure: NotRequired[BriefFailure | None]
    metrics: NotRequired[dict[str, float | None]]
    start_spread_s: NotRequired[float | None]
    limited_by: NotRequired[str | None]


class _Indexed(TypedDict):
    index: int


class _Versioned(BriefTrial):
    # Version 1, and what is damaged, goes the long way. Version 3 is 2 for trials.
    schema_version: Literal[2, 3]


class _EndpointPart(TypedDict):
    name: str
    flavor: str | None


class _Cost(TypedDict):
    amount: float
    currency: str


class _CellPart(TypedDict):
    key: str
    n_ok: int
    n_failed: int
    connections: NotRequired[int | None]
    repeat_until: NotRequired[float | None]
    price_per_hour: NotRequired[_Cost | None]


class _RunPart(TypedDict):
    scenario: str
    provider: str | None


class _SummaryPart(TypedDict):
    __pydantic_config__ = ConfigDict(allow_inf_nan=False)  # type: ignore[misc]

    schema_version: Literal[3]
    run: _RunPart
    endpoints: list[_EndpointPart]
    measures: list[Measure]
    cells: list[_CellPart]


_TRIAL: TypeAdapter[_Versioned] = TypeAdapter(_Versioned)
_SUMMARY: TypeAdapter[_SummaryPart] = TypeAdapter(_SummaryPart)
_INDEXED: TypeAdapter[_Indexed] = TypeAdapter(_Indexed)
_INDEX = re.compile(rb'\{"schema_version":\d+,"index":(-?\d{1,18}),')
"""How a line begins that a run has written."""
_KEYS = set(BriefTrial.__annotations__)


@dataclass(frozen=True)
class BriefSummary:
    """The part of ``Summary``: scenario, kind of cloud, flavors by endpoint, number of trials.

    ``prices`` has what an hour of all VMs of a cell costs, and in which currency, where known, and
    ``connections`` the parallel ones of a cell, which trials of older versions did not have.
    ``measures`` are those of its metrics, and ``repeat_until`` is that of a cell.
    """

    scenario: str
    provider: str | None = None
    flavors: dict[str, str | None] = field(default_factory=dict)
    prices: dict[str, tuple[float, str]] = field(default_factory=dict)
    measures: list[Measure] = field(default_factory=list)
    trials: int = 0
    connections: dict[str, int | None] = field(default_factory=dict)
    repeat_until: dict[str, float | None] = field(default_factory=dict)


def trial_count_warning(run: RunDirectory) -> str | None:
    """Return a warning where the log has more or fewer trials than the summary counts, else None.

    Without one of the two files there is nothing to compare. Raises InputError where the summary is
    damaged or of a newer version, and StorageError.
    """
    if not exists(run.summary) or not exists(run.trials):
        return None
    counted, found = brief_summary(run).trials, _count(run.trials)
    if found == counted:
        return None
    counts = f"summary.json counts {counted} trials, and trials.jsonl has {found}"
    is_ours = any(run.path.glob("scenario.*"))
    resume = f"osmef resume {shlex.quote(str(run.path))}"
    if found > counted and is_ours:
        return f"{counts}: it goes on, or was stopped; {resume} writes the summary"
    again = f"measure what is missing with {resume}" if is_ours else "import it again"
    return f"{counts}: put {run.trials} back from a copy, or {again}"


def _count(path: Path) -> int:
    """Return how many trials a log has. Raises StorageError."""
    return sum(is_whole for _number, _text, is_whole in read_lines(path)) - len(_replaced(path))


def brief_trials(run: RunDirectory) -> Iterator[BriefTrial]:
    """Yield the trials of a run in the order of their ends, without an incomplete one.

    Of a trial that was measured again it is the newest record. Raises InputError for a line that is
    no trial or of a newer version, and StorageError.
    """
    replaced = _replaced(run.trials)
    for number, text, is_whole in read_lines(run.trials):
        if not is_whole:
            return  # left by a killed controller
        if number in replaced:
            continue
        try:
            yield _TRIAL.validate_json(text or b"")
        except ValidationError:
            yield _of_any_version(read_document(Trial, text, f"{run.trials}:{number}"))


def _replaced(path: Path) -> set[int]:
    """Return the line numbers of trials that were measured again later.

    Lines are looked at one by one, as a million trials would not fit. Raises StorageError.
    """
    newest: dict[int, int] = {}
    replaced = set()
    for number, text, is_whole in read_lines(path):
        found = _INDEX.match(text or b"")
        index = int(found[1]) if found else _index_of(text or b"")
        if index is not None and is_whole:
            if index in newest:
                replaced.add(newest[index])
            newest[index] = number
    return replaced


def _index_of(line: bytes) -> int | None:
    """Return the index in a line in unusual JSON; None without any."""
    try:
        return _INDEXED.validate_json(line)["index"]
    except ValidationError:  # reported when the line is read
        return None


def _of_any_version(whole: Trial) -> BriefTrial:
    brief: BriefTrial = whole.model_dump(mode="json", include=_KEYS)  # type: ignore[assignment]
    return brief


def brief_summary(run: RunDirectory) -> BriefSummary:
    """Return the brief summary of a run; without one, what it declared before its trials.

    Raises InputError when it is damaged or of a newer version, and StorageError.
    """
    if not exists(run.summary):
        known = run.read_declared()
        return BriefSummary(
            known.scenario or run.id.rsplit("-", 2)[0],  # SCENARIO-TIME-ID
            known.provider,
            known.flavors,
            {cell: (price.amount, price.currency) for cell, price in known.prices.items()},
            known.measures,
            repeat_until={**known.repeat_until},
        )
    try:
        reported = _SUMMARY.validate_json(read_whole(run.summary))
    except ValidationError:
        return _brief(run.read_summary())
    flavors = {end["name"]: end["flavor"] for end in reported["endpoints"]}
    prices = {
        cell["key"]: (price["amount"], price["currency"])
        for cell in reported["cells"]
        if (price := cell.get("price_per_hour"))
    }
    scenario, provider = reported["run"]["scenario"], reported["run"]["provider"]
    trials = sum(cell["n_ok"] + cell["n_failed"] for cell in reported["cells"])
    connections = {cell["key"]: cell.get("connections") for cell in reported["cells"]}
    until = {cell["key"]: cell.get("repeat_until") for cell in reported["cells"]}
    return BriefSummary(
        scenario, provider, flavors, prices, reported["measures"], trials, connections, until
    )


def _brief(whole: Summary) -> BriefSummary:
    flavors = {end.name: end.flavor for end in whole.endpoints}
    prices = {
        cell.key: (cell.price_per_hour.amount, cell.price_per_hour.currency)
        for cell in whole.cells
        if cell.price_per_hour
    }
    trials = sum(cell.n_ok + cell.n_failed for cell in whole.cells)
    connections = {cell.key: cell.connections for cell in whole.cells}
    until = {cell.key: cell.repeat_until for cell in whole.cells}
    run = whole.run
    return BriefSummary(
        run.scenario, run.provider, flavors, prices, whole.measures, trials, connections, until
    )


if SCHEMA_VERSION != 3:
    raise AssertionError("let the Literals here follow the version")
