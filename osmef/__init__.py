"""OSMeF finds out what a cloud's network really gives you.

``osmef.load(path, ...)`` returns the trials of runs as a pandas DataFrame. ``load_requests`` and
``load_intervals`` do so with single requests and intervals, ``scan_requests`` and
``scan_intervals`` return them as a dataset of pyarrow, of which nothing is read yet.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from osmef.results.frame import (
        load,
        load_intervals,
        load_requests,
        scan_intervals,
        scan_requests,
    )

    __version__: str

__all__ = [
    "__version__",
    "load",
    "load_intervals",
    "load_requests",
    "scan_intervals",
    "scan_requests",
]


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - as below

    try:
        return version("osmef")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "0+unknown"


def __getattr__(name: str) -> Any:
    """Load pandas, and what reads the version, only for those who need it: both are slow."""
    if name == "__version__":
        return globals().setdefault(name, _version())
    if name == "load":
        return import_module("osmef.results.frame").load
    if name in __all__:
        return getattr(import_module("osmef.results.frame"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
