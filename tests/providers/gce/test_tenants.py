"""Which projects are the tenants of a plan. Needs no cloud."""

from __future__ import annotations

import pytest

from osmef.errors import ProviderError
from osmef.providers.gce.tenants import tenants_of
from osmef.scenario.clouds.gce import GceSettings


@pytest.mark.parametrize(
    ("tenants", "said"),
    [
        ({"red": "alpha-1", "blue": "alpha-1"}, "one and the same project"),
        ({"red": "alpha-1"}, "has 2 tenants, and the provider names 1"),
    ],
)
def test_two_tenants_need_two_projects(tenants: dict[str, str], said: str) -> None:
    told = {"region": "r", "controller_cidr": "192.0.2.1/32", "tenants": tenants}
    settings = GceSettings.model_validate(told)
    with pytest.raises(ProviderError, match=said) as caught:
        tenants_of(settings, ["tenant-1", "tenant-2"])
    assert caught.value.where == "provider.tenants"
    assert "leave" in str(caught.value.cure)
