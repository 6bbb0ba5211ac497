"""Descriptions of a scenario's keys, for the manual and the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from osmef.scenario.by_kind import ByKind
from osmef.scenario.explain import write_scalar
from osmef.scenario.fields import quantity_of
from osmef.units import format_duration, format_rate, format_share, format_size


@dataclass(frozen=True)
class Style:
    """Markup of literals, and of links to models."""

    code: Callable[[str], str]
    model: Callable[[type[BaseModel]], str]


PLAIN = Style(code=str, model=lambda model: f"the keys of {model.__name__}")

_WORDS = {
    str: "text",
    int: "whole number",
    float: "number",
    datetime: "time, ISO 8601 in UTC",
    date: "day, such as 2026-03-01",
    Any: "value",
}
_QUANTITIES: dict[Any, str] = {
    format_duration: "duration",
    format_rate: "rate",
    format_size: "size",
    format_share: "share",
}
_LIMITS = (("ge", "at least"), ("le", "at most"), ("lt", "below"), ("max_length", "at most"))


def default_of(field: FieldInfo, style: Style) -> str:
    """Return the default of a key in the syntax of a scenario."""
    if field.is_required():
        return "must be written"
    value = field.get_default(call_default_factory=True)
    if value in (None, "", {}):
        return "none"
    quantity = quantity_of(field)
    return style.code(quantity.show(value) if quantity else _written(value))


def _written(value: Any) -> str:
    """Return a default in the syntax of a scenario: settings by their kind."""
    if hasattr(value, "kind"):
        return str(value.kind)
    plain = TypeAdapter(Any).dump_python(value, mode="json", exclude_unset=True)
    return plain if isinstance(plain, str) else write_scalar(plain)


def type_of(field: FieldInfo, style: Style) -> str:
    """Describe the type of a key, with its limits."""
    quantity = quantity_of(field)
    show: Callable[[float], str] = quantity.show if quantity else str
    told = _of_field(field, style)
    if quantity is not None:
        told = _QUANTITIES[quantity.show] + " or null" * ("null" in told)
    limits = [
        f"{words} {show(getattr(mark, name)) if name != 'lt' else '2^63'}"
        + (_counted(field) if name == "max_length" else "")
        for mark in field.metadata
        for name, words in _LIMITS
        if hasattr(mark, name)
    ]
    return ", ".join([told, *limits])


def _of_field(field: FieldInfo, style: Style) -> str:
    if marks := [one for one in field.metadata if isinstance(one, ByKind)]:
        return _of_kinds(marks[0], style)
    return words(field.annotation, style)


def _of_kinds(mark: ByKind, style: Style) -> str:
    several = ["a list of these"] if mark.stacks else []
    kinds = (words(model, style) for model in mark.models())
    return " or ".join([*map(style.code, mark.also), *kinds, *several])


def _counted(field: FieldInfo) -> str:
    """Return the unit of a value's length."""
    return " of them" if get_origin(field.annotation) in {list, dict} else " characters"


def words(annotation: Any, style: Style) -> str:
    """Describe a type."""
    if get_args(annotation):
        return _compound(annotation, style)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(style.code(str(choice.value)) for choice in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        kind = annotation.model_fields.get("kind")
        alone = (
            f"{style.code(kind.default)}, or "
            if kind and get_origin(kind.annotation) is Literal
            else ""
        )
        return f"{alone}{style.model(annotation)}"
    return (
        " or ".join(map(style.code, ("true", "false")))
        if annotation is bool
        else _WORDS[annotation]
    )


def _compound(annotation: Any, style: Style) -> str:
    """Describe a compound type."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(style.code(str(value)) for value in inner)
    if origin in (list, tuple):
        return f"list of: {words(inner[0], style)}"
    if origin is dict:
        return f"mapping of names to: {words(inner[1], style)}"
    if hasattr(annotation, "__metadata__"):
        if marks := [one for one in annotation.__metadata__ if isinstance(one, ByKind)]:
            return _of_kinds(marks[0], style)
        return words(inner[0], style)
    parts = [words(one, style) for one in inner if one is not NoneType]
    return " or ".join([*dict.fromkeys(parts), *(["null"] if NoneType in inner else [])])
