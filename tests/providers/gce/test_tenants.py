"""Which projects are the tenants of a plan. Needs no cloud."""

from __future__ import annotations

import pytest

from osmef.errors import ProviderError
from osmef.providers.base import never_cancelled
from osmef.providers.gce.provider import GceProvider
from osmef.scenario.clouds.gce import GceSettings


def test_two_tenants_need_two_projects() -> None:
    told = {"region": "r", "controller_cidr": "192.0.2.1/32", "tenants": {"red": "alpha-1"}}
    settings = GceSettings.model_validate(told)
    with pytest.raises(ProviderError, match="needs 2 tenants, and there are 1") as caught:
        GceProvider(settings).tenants_of(["tenant-1", "tenant-2"], never_cancelled)
    assert caught.value.where == "provider.tenants"
    assert "name more" in str(caught.value.cure)
