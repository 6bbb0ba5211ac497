"""Machine types and images that can't do what the settings ask for."""

from __future__ import annotations

from typing import Any

import pytest

from osmef.errors import ProviderError
from osmef.providers.cloud.lookup import Flavor
from osmef.providers.gce.lookup import Image, check_fits
from osmef.scenario.clouds.gce import GceSettings

USUAL = {"region": "here-1", "controller_cidr": "203.0.113.7/32"}
GOOD, PLAIN = (Image("p/i", 10, gvnic) for gvnic in (True, False))


@pytest.mark.parametrize(
    ("keys", "type_", "image", "where"),
    [
        ({"tier_1": True}, "n2-standard-4", GOOD, "provider.tier_1"),
        ({"tier_1": True}, "n2-standard-32", GOOD, None),
        ({"tier_1": True}, "e2-standard-32", GOOD, "provider.tier_1"),
        ({"tier_1": True}, "t2d-standard-32", GOOD, "provider.tier_1"),
        ({"tier_1": True}, "c3-standard-44", GOOD, None),
        ({"nic": "virtio"}, "c3-standard-4", GOOD, "provider.nic"),
        ({"nic": "virtio"}, "t2a-standard-4", GOOD, "provider.nic"),
        ({}, "c3-standard-4", GOOD, None),
        ({"compact": True}, "e2-standard-2", GOOD, "provider.compact"),
        ({"compact": True}, "n2-standard-4", GOOD, None),
        ({}, "n2-standard-4", PLAIN, "provider.image"),
        ({"nic": "virtio"}, "n2-standard-4", PLAIN, None),
        ({}, "e2-micro", GOOD, None),
    ],
)
def test_incompatible_settings_are_reported_before_anything_is_created(
    keys: dict[str, Any], type_: str, image: Image, where: str | None
) -> None:
    settings = GceSettings.model_validate({**USUAL, **keys})
    vcpus = int(type_.rpartition("-")[2]) if type_[-1].isdigit() else 2
    types = [Flavor(type_, vcpus, 4096, architecture="X86_64")]
    if where is None:
        check_fits(settings, types, [image])
        return
    with pytest.raises(ProviderError) as caught:
        check_fits(settings, types, [image])
    assert caught.value.where == where
    assert caught.value.cure
