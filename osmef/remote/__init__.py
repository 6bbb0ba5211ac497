"""SSH: sessions to endpoints, keys, and the user's configuration."""

import importlib
import sys
from types import ModuleType


class _Later(ModuleType):
    """A module that is imported at its first use."""

    def __getattr__(self, name: str) -> object:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


# paramiko loads it for `Match exec` alone, which is refused here; it takes longer than paramiko.
sys.modules.setdefault("invoke", _Later("invoke"))
