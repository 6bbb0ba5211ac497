"""What the cloud uses of pyroute2, without the rest of it.

The package imports all of its parts at once, which takes three times as long as the one that is
wanted, for each emulated cloud.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_NAME = "pyroute2"


def _import() -> tuple[Any, Any]:
    """Import two classes below an empty package, which others don't see."""
    spec = None if _NAME in sys.modules else find_spec(_NAME)
    if spec is not None:
        sys.modules[_NAME] = package = ModuleType(_NAME)
        package.__path__ = list(spec.submodule_search_locations or ())
    try:
        route = import_module(f"{_NAME}.iproute").IPRoute
        return route, import_module(f"{_NAME}.netlink.exceptions").NetlinkError
    finally:
        if spec is not None:
            del sys.modules[_NAME]


IPRoute, NetlinkError = _import()
