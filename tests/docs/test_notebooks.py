"""Notebooks come with what they show, so that they can be read where nobody executes them."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs/notebooks").glob("*.ipynb"))


def outputs(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [one for cell in cells for one in cell.get("outputs", ())]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_a_picture_and_no_error(path: Path) -> None:
    found = outputs(path)
    assert any("image/png" in one.get("data", {}) for one in found)
    assert [one for one in found if one["output_type"] == "error"] == []
    assert [one for one in found if one.get("name") == "stderr"] == []
    assert tempfile.gettempdir() not in json.dumps(found), "nothing of the machine that made it"
    assert path.stat().st_size < 600_000


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 5
