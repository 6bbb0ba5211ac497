"""JSON documents of a run directory, upgraded from older versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from osmef.errors import InputError
from osmef.results import older
from osmef.results.files import CURE
from osmef.results.summary import Summary
from osmef.results.trial import SCHEMA_VERSION, Trial
from osmef.scenario.base import Model

M = TypeVar("M", bound=Model)


def read_document(model: type[M], text: bytes | None, where: str) -> M:
    """Load a document as a model; raises InputError with a cure.

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
    """Parse a JSON text; raises InputError."""
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


Json = dict[str, Any]


def upgrade(model: type, document: Json) -> Json:
    """Upgrade a document to the present version."""
    for step in _STEPS.get(model, ())[document["schema_version"] - 1 :]:
        document = step(document)
    return {**document, "schema_version": SCHEMA_VERSION}


def _trial_of_1(old: Json) -> Json:
    """Turn one pair and one transfer into lists."""
    new = _ends_in_lists(old)
    transfer = new.pop("transfer", None)
    new["transfers"] = [transfer] if transfer is not None else []
    return new


def _summary_of_1(old: Json) -> Json:
    """Turn one pair of a cell into lists; the only workload was ``btc``."""
    cells = old.get("cells")
    if not isinstance(cells, list):
        return old
    return {**old, "cells": [_cell_of_1(cell) for cell in cells]}


def _cell_of_1(old: Any) -> Any:
    return {"workload": "btc", **_ends_in_lists(old)} if isinstance(old, dict) else old


def _ends_in_lists(old: Json) -> Json:
    new = dict(old)
    for end in ("sender", "receiver"):
        if end in new:
            new[f"{end}s"] = [new.pop(end)]
    return new


def _trial_of_2(old: Json) -> Json:
    """Leave trials unchanged."""
    return old


def _summary_of_2(old: Json) -> Json:
    """Add the measures of metrics, of which there were only names."""
    listed = old.get("cells")
    cells = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    kinds = [(one.get("workload"), one.get("background")) for one in cells]
    metrics = [one.get("metrics") for one in cells]
    names = [name for of in metrics if isinstance(of, dict) for name in of]
    measures = older.measures_of([(str(one), str(beside)) for one, beside in kinds], names)
    return {**old, "measures": [one.model_dump(mode="json") for one in measures]}


_STEPS: dict[type, tuple[Callable[[Json], Json], ...]] = {
    Trial: (_trial_of_1, _trial_of_2),
    Summary: (_summary_of_1, _summary_of_2),
}
