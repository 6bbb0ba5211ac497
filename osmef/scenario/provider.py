"""The ``provider`` part of a scenario: the settings of any kind of cloud.

To add a provider, write its settings in ``osmef.scenario.clouds``, add them to
``ProviderSettings``, and its class to ``osmef.providers``.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from osmef.scenario.clouds.aws import AwsSettings
from osmef.scenario.clouds.azure import AzureSettings
from osmef.scenario.clouds.gce import GceSettings
from osmef.scenario.clouds.libvirt import LibvirtSettings
from osmef.scenario.clouds.local import LocalSettings
from osmef.scenario.clouds.openstack import OpenStackSettings
from osmef.scenario.clouds.static import StaticSettings

ProviderSettings = Annotated[
    LocalSettings
    | AwsSettings
    | AzureSettings
    | GceSettings
    | LibvirtSettings
    | OpenStackSettings
    | StaticSettings,
    Field(discriminator="kind"),
]
"""Any provider's settings, which ``kind`` tells apart."""
