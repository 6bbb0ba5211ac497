"""Events of a journal, a frozen dataclass each, and their JSON.

An event is written without the values that are its defaults. Newer versions may have more events
and more values, which are passed over; what older ones did not write is filled in.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

from pydantic import AfterValidator, BeforeValidator, Field, Strict, TypeAdapter, ValidationError

from osmef.providers.base import Resource
from osmef.results.summary import EndpointInfo, HourlyPrice
from osmef.scenario.location import Location

if TYPE_CHECKING:
    from osmef.engine.plan import PlannedTrial
    from osmef.results.measure import Measure
    from osmef.results.trial import Trial
    from osmef.workloads.base import Span


_LATEST = 10**11
"""UNIX times are below this one, of the year 5138, as those of marks: a clock may be wrong."""
_YEARS = range(1970, 5138)
# As long as a path can be, and without what a terminal would act on.
_WORD = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{0,4096}")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,240}")
_KNOWN = {field.name for field in fields(Resource)}


def _moment(text: str) -> str:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None or found.year not in _YEARS:
        years = f"{_YEARS[0]} to {_YEARS[-1]}"
        raise ValueError(f"it is not a time of the years {years}, with its zone")
    return text


def _named(info: EndpointInfo) -> EndpointInfo:
    # Its facts are in files of this name.
    if _FILE.fullmatch(info.name) is None:
        raise ValueError("it is not a valid name of an endpoint")
    return info


Moment = Annotated[str, AfterValidator(_moment)]
"""A time in ISO 8601, with its zone."""
_Text = Annotated[str, Strict()]
_Whole = Annotated[int, Strict(), Field(ge=0, lt=2**63)]
_Seed = Annotated[int, Strict(), Field(gt=-(2**63), lt=2**63)]
_Time = Annotated[float, Field(ge=0, lt=_LATEST)]


@dataclass(frozen=True)
class Event:
    """An event of a run."""


@dataclass(frozen=True)
class Planned(Event):
    """The plan was made: its seed, the scenario's digest, the session, and skipped cells."""

    seed: _Seed
    digest: Annotated[_Text, Field(pattern="^[0-9a-f]{64}$")]
    session: _Text | None = None
    window: _Text | None = None
    platform: _Text | None = None
    left_out: tuple[_Text, ...] = ()


@dataclass(frozen=True)
class Extended(Event):
    """Trials were added to the plan: the new number for each cell."""

    repeat: Annotated[int, Strict(), Field(ge=1, le=100_000)]


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _whole_or_none(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


_MaybeText = Annotated[str | None, BeforeValidator(_text_or_none)]
_MaybeWhole = Annotated[int | None, BeforeValidator(_whole_or_none)]


@dataclass(frozen=True)
class ControllerIdentity:
    """The process that works on a run, and the lock that it holds; None is unknown.

    ``machine`` is an id of the machine, ``boot`` of its boot, ``processes`` of the PID namespace;
    ``began`` is the start of the process in clock ticks since boot (proc(5)).
    """

    host: _MaybeText = None
    machine: _MaybeText = None
    boot: _MaybeText = None
    processes: _MaybeText = None
    pid: _MaybeWhole = None
    began: _MaybeWhole = None
    lock: _MaybeText = None


@dataclass(frozen=True)
class Started(Event):
    """A controller started or resumed: the number of missing trials, and its identity."""

    seed: _Seed | None = None
    missing: _Whole | None = None
    controller: ControllerIdentity | None = None


@dataclass(frozen=True)
class Provisioning(Event):
    """VMs begin to cost: by name the price and its upper bound, until a UNIX time at most."""

    prices: dict[str, HourlyPrice | None]
    most: dict[str, HourlyPrice | None]
    deadline: _Time | None = None


@dataclass(frozen=True)
class Deployed(Event):
    """An endpoint is ready, with its agent; ``most`` is the upper bound of its price."""

    endpoint: Annotated[EndpointInfo, AfterValidator(_named)]
    most: HourlyPrice | None


@dataclass(frozen=True)
class Replaced(Event):
    """Endpoints were recreated because of their placement; ``error`` if one could not be."""

    endpoints: tuple[_Text, ...]
    attempt: _Whole
    error: _Text | None


@dataclass(frozen=True)
class Located(Event):
    """Locations were read back after trials of a group, with the changed ones."""

    group: _Whole
    trials: tuple[_Whole, ...]
    places: dict[str, Location]
    error: _Text | None


@dataclass(frozen=True)
class Disturbed(Event):
    """Endpoints were lost during an attempt at a trial."""

    trial: _Whole
    cell: _Text
    lost: tuple[_Text, ...]
    error: _Text | None


@dataclass(frozen=True)
class Recovered(Event):
    """A lost endpoint is reachable again."""

    endpoint: _Text
    since: Moment
    after_s: float


@dataclass(frozen=True)
class PoolAcquired(Event):
    """The run uses endpoints of a pool, in the run directory ``by``, that exist since a time."""

    since: Moment
    by: _Text


@dataclass(frozen=True)
class Recreated(Event):
    """Endpoints of a pool were recreated for the run."""

    why: _Text


@dataclass(frozen=True)
class WorkerAssigned(Event):
    """A worker of a cluster, on a machine, has the session."""

    host: _Text
    worker: _Text = ""


@dataclass(frozen=True)
class WorkerLost(Event):
    """The session's worker was lost."""

    worker: _Text = ""


@dataclass(frozen=True)
class PoolEvent(Event):
    """An event of pooled endpoints, with the campaign's session."""

    session: _Whole | None = None


@dataclass(frozen=True)
class Requested(PoolEvent):
    """Endpoints are created for a session."""


@dataclass(frozen=True)
class EndpointsLent(PoolEvent):
    """A session uses the endpoints."""


@dataclass(frozen=True)
class Returned(PoolEvent):
    """The session no longer uses them."""


@dataclass(frozen=True)
class Charged(PoolEvent):
    """Their cost up to now was charged to the session."""


@dataclass(frozen=True)
class Released(Event):
    """All endpoints are destroyed, or returned."""


@dataclass(frozen=True)
class Ended(Event):
    """The run has ended."""


@dataclass(frozen=True)
class ResourceEvent(Event):
    """An event of a resource in the ledger."""

    resource: Resource


@dataclass(frozen=True)
class Intended(ResourceEvent):
    """The resource is about to be created."""


@dataclass(frozen=True)
class Created(ResourceEvent):
    """The resource exists, with its id."""


@dataclass(frozen=True)
class Destroyed(ResourceEvent):
    """The resource is destroyed."""


@dataclass(frozen=True)
class Other(Event):
    """An event of a newer version."""


_NAMES: Mapping[type[Event], str] = {
    Planned: "plan",
    Extended: "extend",
    Started: "start",
    Provisioning: "provision",
    Deployed: "endpoint",
    Replaced: "replace",
    Located: "looked",
    Disturbed: "disturbed",
    Recovered: "back",
    PoolAcquired: "held",
    Recreated: "anew",
    WorkerAssigned: "worker",
    WorkerLost: "lost",
    Requested: "wanted",
    EndpointsLent: "lent",
    Returned: "back",
    Charged: "paid",
    Released: "gone",
    Ended: "end",
    Intended: "intend",
    Created: "created",
    Destroyed: "destroyed",
}
"""How each is called in a journal; an endpoint and a session both come ``back``."""
_TYPES = {name: kind for kind, name in _NAMES.items()}


@dataclass(frozen=True)
class _Head:
    at: Moment
    event: _Text


_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def _adapter(kind: type) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:  # to make one takes a while
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def written(event: Event) -> dict[str, Any]:
    """Serialise an event to the JSON of a line, without its time."""
    if isinstance(event, ResourceEvent):
        return {"event": _NAMES[type(event)], "resource": asdict(event.resource)}
    values = _adapter(type(event)).dump_python(event, mode="json")
    usual = {one.name: one.default for one in fields(event) if one.default is not MISSING}
    reported = {
        name: value
        for name, value in values.items()
        if name not in usual or getattr(event, name) != usual[name]
    }
    return {"event": _NAMES[type(event)], **reported}


@dataclass(frozen=True)
class JournalLine:
    """A line of a journal: its time, its event, and its damage, if any.

    ``name`` is the line's name of its event. A damaged line has no time, and no event unless its
    resource can still be read.
    """

    number: int
    name: str | None
    at: datetime | None
    event: Event | None
    damage: str | None

    def may_be(self, *kinds: type[Event]) -> bool:
        """Return whether a damaged line may be an event of these types."""
        names = {name for kind, name in _NAMES.items() if issubclass(kind, kinds)}
        return self.name is None or self.name in names


def parse(number: int, reported: object) -> JournalLine:
    """Parse a line of JSON."""
    if not isinstance(reported, dict):
        return JournalLine(number, None, None, None, "it is not a JSON object")
    name = reported["event"] if isinstance(reported.get("event"), str) else None
    try:
        head = _adapter(_Head).validate_python(reported)
        event = _event(head.event, reported)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        why = f"{'.'.join(str(step) for step in first['loc'])}: {first['msg']}"
        return JournalLine(number, name, None, _salvaged(name, reported), why)
    if event is None:
        return JournalLine(number, name, None, None, _fault(reported.get("resource")))
    return JournalLine(number, name, datetime.fromisoformat(head.at), event, None)


def _event(name: str, reported: dict[str, Any]) -> Event | None:
    kind = _TYPES.get(name, Other)
    if issubclass(kind, ResourceEvent):
        return _salvaged(name, reported)
    if name == "back":
        kind = Recovered if "endpoint" in reported else Returned
    values = _completed(kind, reported)
    event: Event = _adapter(kind).validate_python(values, extra="ignore")
    return event


def _completed(kind: type[Event], reported: dict[str, Any]) -> dict[str, Any]:
    """Complete a line of an older version: upper bounds of prices."""
    if kind is Provisioning:
        return {"most": reported.get("prices"), **reported}
    if kind is Deployed:
        info = reported.get("endpoint")
        return {"most": info.get("price") if isinstance(info, dict) else None, **reported}
    return reported


def _salvaged(name: str | None, reported: Mapping[str, Any]) -> ResourceEvent | None:
    """Return the resource event of a line that is damaged elsewhere."""
    kind = _TYPES.get(name) if name else None
    resource = _resource(reported.get("resource"))
    if kind is None or not issubclass(kind, ResourceEvent) or resource is None:
        return None
    return kind(resource)


def _resource(reported: object) -> Resource | None:
    """Return a resource; None for an invalid one."""
    if not isinstance(reported, dict) or _fault(reported) is not None:
        return None
    return Resource(**{name: value for name, value in reported.items() if name in _KNOWN})


def _fault(reported: object) -> str | None:
    """Return what is wrong with the JSON of a resource, None for nothing."""
    if not isinstance(reported, dict):
        return "resource: it is not a JSON object"
    for name in ("provider", "kind", "name", "run"):
        if not _is_name(reported.get(name)):
            return f"resource.{name}: it is not a valid name"
    if not (reported.get("id") is None or _is_name(reported["id"])):
        return "resource.id: it is not a valid id"
    for name in ("deadline", "made"):
        if not _is_time(reported.get(name)):
            return f"resource.{name}: it is not a valid time"
    access = reported.get("access", {})
    if not (isinstance(access, dict) and all(map(_is_word, access.values()))):
        return "resource.access: it is not an object of texts"
    return None


def _is_word(value: object) -> bool:
    return isinstance(value, str) and _WORD.fullmatch(value) is not None


def _is_name(value: object) -> bool:
    return _is_word(value) and value != ""


def _is_time(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, int | float) and math.isfinite(value) and 0 <= value < _LATEST


_LOG = logging.getLogger(__name__)

P = ParamSpec("P")


def contain_failures(notify: Callable[P, None]) -> Callable[P, None]:
    """Wrap a callback so that it raises no Exception: a failure is logged."""

    @wraps(notify)
    def contained(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            notify(*args, **kwargs)
        except Exception:  # whatever it is, the work goes on
            _LOG.warning("progress could not be reported", exc_info=True)

    return contained


class Observer:
    """Observer of a run, called from any thread; this one ignores all events. Never raises."""

    def __init_subclass__(cls) -> None:
        """Contain the failures of a subclass's methods."""
        super().__init_subclass__()
        for name in _TOLD & vars(cls).keys():
            setattr(cls, name, contain_failures(getattr(cls, name)))

    def activity(self, text: str) -> None:
        """Note what the run does now."""

    def warning(self, text: str) -> None:
        """Note a warning for the summary."""

    def measuring(self, trials: int, planned: Span, measures: Sequence[Measure]) -> None:
        """Note that the trials begin: their number, planned length, and measures.

        The leading one of ``measures`` that a trial has is its result in short.
        """

    def trial_started(self, planned: PlannedTrial) -> None:
        """Note that a trial begins."""

    def trial_skipped(self, planned: PlannedTrial) -> None:
        """Note that a trial is skipped, as the stopping rule has ended its cell."""

    def rate(self, planned: PlannedTrial, bits_per_second: float) -> None:
        """Note the latest rate of a running trial."""

    def round_trip(self, planned: PlannedTrial, us: float) -> None:
        """Note the latest median round trip of a running trial, in microseconds."""

    def request_rate(self, planned: PlannedTrial, per_second: float) -> None:
        """Note the requests a second of a running trial so far."""

    def trial_ended(self, trial: Trial) -> None:
        """Note that a trial has ended, successfully or not."""


_TOLD = {name for name in vars(Observer) if not name.startswith("_")}
