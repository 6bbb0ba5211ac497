"""The ``provider`` part of a scenario: the settings of any kind of cloud."""

from __future__ import annotations

from typing import Annotated

from osmef.kinds import PROVIDERS
from osmef.scenario.by_kind import ByKind
from osmef.scenario.clouds.base import CloudSettings

AnyProvider = Annotated[CloudSettings, ByKind(PROVIDERS, "local")]
"""Any provider's settings, told apart by ``kind``; ``local`` where that is not written."""
