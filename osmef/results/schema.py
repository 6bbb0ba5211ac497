"""The JSON Schema of ``summary.json``, for programs that read it."""

from __future__ import annotations

from typing import Any

from osmef.results.summary import Summary


def summary_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a summary as OSMeF writes it."""
    schema = Summary.model_json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "Summary of an OSMeF run",
    }
