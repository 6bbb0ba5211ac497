"""From the documents of older versions to those of the present one, as plain JSON values.

Each step takes a document of one version and returns that of the next one. What is no document of
that version is handed on as it is: the model says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from osmef.results import older
from osmef.results.summary import Summary
from osmef.results.trial import SCHEMA_VERSION, Trial

Json = dict[str, Any]


def upgrade(model: type, document: Json) -> Json:
    """Return a document for a model in the present version."""
    for step in _STEPS.get(model, ())[document["schema_version"] - 1 :]:
        document = step(document)
    return {**document, "schema_version": SCHEMA_VERSION}


def _trial_of_1(old: Json) -> Json:
    """One pair and one transfer became lists."""
    new = _ends_in_lists(old)
    transfer = new.pop("transfer", None)
    new["transfers"] = [transfer] if transfer is not None else []
    return new


def _summary_of_1(old: Json) -> Json:
    """One pair of a cell became lists; the only workload was ``btc``."""
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
    """Leave trials as they were."""
    return old


def _summary_of_2(old: Json) -> Json:
    """Say what metrics are, of which there were only names."""
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
