"""OSMeF finds out what a cloud's network really gives you.

``osmef.load(path)`` returns the trials of a run as a pandas DataFrame.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from osmef.results.frame import load

__all__ = ["__version__", "load"]

try:
    __version__ = version("osmef")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> Any:
    """Load pandas only for those who need it: the command line starts without."""
    if name == "load":
        from osmef.results.frame import load  # noqa: PLC0415

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
