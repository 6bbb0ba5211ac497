"""Execute the notebooks as tests; those of published data only where these are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
DATA = Path(os.environ.get("OSMEF_PUBLISHED_DATA") or HERE.parents[2] / "shared" / "data")
NEEDS = {
    "paper-2013": "osmef-2013/runs.tar.gz",
    "containers-2014": "sdvn-2014/logdata.csv",
    "variability-2017": "deval-2017/sessions.csv",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what can't be read here."""
    for item in items:
        name = NEEDS.get(item.path.stem)
        if name and not (DATA / name).exists():
            reason = f"needs the published data {name} in ../shared/data, which are not here"
            item.add_marker(pytest.mark.skip(reason=reason))
