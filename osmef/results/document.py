"""Read the JSON documents of a run directory, of this version and of older ones."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from osmef.errors import InputError
from osmef.results.lines import CURE
from osmef.results.trial import SCHEMA_VERSION
from osmef.results.upgrade import upgrade
from osmef.scenario.base import Model

M = TypeVar("M", bound=Model)


def read_document(model: type[M], text: bytes | None, where: str) -> M:
    """Return the document as a model; raises InputError with what is wrong and a cure.

    None is one that was too long to be read. Every version up to the present one can be read.
    """
    if text is None:
        raise InputError("this is damaged: it is too long", where=where, cure=CURE)
    document = read_json(text, where)
    _check_version(document, where)
    try:
        return model.model_validate(upgrade(model, document))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(step) for step in first["loc"])
        what = f"{key}: {first['msg']}" if key else first["msg"]
        raise InputError(f"this is damaged: {what}", where=where, cure=CURE) from error


def read_json(text: bytes, where: str) -> Any:
    """Return what a JSON text says; raises InputError."""
    try:
        return from_json(text)
    except ValueError as error:
        raise InputError(f"this is not JSON: {error}", where=where, cure=CURE) from error


def _check_version(document: object, where: str) -> None:
    version = document.get("schema_version") if isinstance(document, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InputError("this has no schema_version of OSMeF", where=where, cure=CURE)
    if version > SCHEMA_VERSION:
        raise InputError(
            f"a newer OSMeF wrote this: its schema_version is {version},"
            f" and this OSMeF reads up to {SCHEMA_VERSION}",
            where=where,
            cure="install a newer OSMeF (pip install --upgrade osmef)",
        )
