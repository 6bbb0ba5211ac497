"""Modules that are executed when something of them is used first."""

from __future__ import annotations

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec
from types import ModuleType


def later(name: str) -> ModuleType:
    """Return a module that is executed when somebody else imports it, or uses anything in it.

    What is set in it before stays so.
    """
    if name in sys.modules:
        return sys.modules[name]
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"no module named {name!r}", name=name)
    spec.loader = loader = LazyLoader(spec.loader)
    module = sys.modules[name] = module_from_spec(spec)
    loader.exec_module(module)
    return module
