"""The notes of a journal by their events, as far as somebody relies on what they say.

Versions have written more into a note, and will; that is passed over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from functools import cache
from typing import Annotated, Any, NotRequired

from pydantic import AfterValidator, Field, Strict, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from osmef.providers.base import Resource
from osmef.results.summary import EndpointInfo, HourlyPrice
from osmef.scenario.location import Location

_YEARS = range(1970, 2200)
_LATEST = 10**11
# As long as a path can be, and without what a terminal would act on.
_WORD = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{0,4096}")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,240}")
_KNOWN = {field.name for field in fields(Resource)}


def _moment(text: str) -> str:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None or found.year not in _YEARS:
        raise ValueError("it is no time that a journal has")
    return text


Moment = Annotated[str, AfterValidator(_moment)]
_Text = Annotated[str, Strict()]
_Whole = Annotated[int, Strict(), Field(ge=0, lt=2**63)]
_Seed = Annotated[int, Strict(), Field(gt=-(2**63), lt=2**63)]
_Time = Annotated[float, Field(ge=0, lt=_LATEST)]


class _Note(TypedDict):
    at: Moment
    event: _Text


class _Plan(_Note):
    seed: _Seed
    digest: Annotated[_Text, Field(pattern="^[0-9a-f]{64}$")]
    session: NotRequired[_Text | None]
    window: NotRequired[_Text | None]
    platform: NotRequired[_Text | None]
    left_out: NotRequired[list[_Text]]


class _Extend(_Note):
    repeat: Annotated[int, Strict(), Field(ge=1, le=100_000)]


class _Start(_Note):
    seed: NotRequired[_Seed]
    controller: NotRequired[dict[str, Any] | None]


class _Provision(_Note):
    prices: dict[str, HourlyPrice | None]
    most: NotRequired[dict[str, HourlyPrice | None]]
    deadline: NotRequired[_Time | None]


def _named(info: EndpointInfo) -> EndpointInfo:
    # Its facts are in files of this name.
    if _FILE.fullmatch(info.name) is None:
        raise ValueError("it is no name of an endpoint")
    return info


class _Endpoint(_Note):
    endpoint: Annotated[EndpointInfo, AfterValidator(_named)]
    most: NotRequired[HourlyPrice | None]


class _Looked(_Note):
    group: _Whole
    trials: list[_Whole]
    places: dict[str, Location]
    error: _Text | None


class _Replace(_Note):
    error: _Text | None


class _Anew(_Note):
    why: _Text


class _Held(_Note):
    since: Moment
    by: _Text


class _Worker(_Note):
    host: _Text


class _Lent(_Note):
    session: NotRequired[_Whole | None]


_SHAPES: Mapping[str, type] = {
    "plan": _Plan,
    "extend": _Extend,
    "start": _Start,
    "provision": _Provision,
    "endpoint": _Endpoint,
    "looked": _Looked,
    "replace": _Replace,
    "anew": _Anew,
    "held": _Held,
    "worker": _Worker,
    **dict.fromkeys(("wanted", "lent", "back", "paid"), _Lent),
}
OF_RESOURCES = ("intend", "created", "destroyed")


@cache
def _adapter(shape: type) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def problem_of(note: object) -> str | None:
    """Return what is wrong with a note; None where all can be relied on that is known of it."""
    if not isinstance(note, dict):
        return "it is no note"
    event = note.get("event")
    try:
        shape = _SHAPES.get(event, _Note) if isinstance(event, str) else _Note
        _adapter(shape).validate_python(note)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(str(step) for step in first['loc'])}: {first['msg']}"
    if event in OF_RESOURCES and resource_of(note) is None:
        return "resource: it is none that can be told"
    return None


def resource_of(note: Mapping[str, Any]) -> Resource | None:
    """Return the resource that a note is about; None where it is about none that can be told.

    What a newer version says of it beside what is known here is passed over.
    """
    told = note.get("resource")
    if not isinstance(told, dict):
        return None
    told = {name: value for name, value in told.items() if name in _KNOWN}
    if not all(_is_name(told.get(name)) for name in ("provider", "kind", "name", "run")):
        return None
    if not (told.get("id") is None or _is_name(told["id"])):
        return None
    if not all(_is_time(told.get(name)) for name in ("deadline", "made")):
        return None
    way = told.get("access", {})
    return Resource(**told) if isinstance(way, dict) and all(map(_is_word, way.values())) else None


def _is_word(value: object) -> bool:
    return isinstance(value, str) and _WORD.fullmatch(value) is not None


def _is_name(value: object) -> bool:
    return _is_word(value) and value != ""


def _is_time(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, int | float) and math.isfinite(value) and 0 <= value < _LATEST
