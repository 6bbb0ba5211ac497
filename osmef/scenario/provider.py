"""The ``provider`` part of a scenario: the settings of any kind of cloud.

To add a provider, write its settings in ``osmef.scenario.clouds``, add them to
``ProviderSettings``, and its class to ``osmef.providers``.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from osmef.scenario.clouds.local import LocalSettings

ProviderSettings = Annotated[LocalSettings, Field()]
"""Any provider's settings; becomes a union discriminated by ``kind`` with the second provider."""
