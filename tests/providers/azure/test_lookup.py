"""What a scenario names, looked up: sizes by name and need, images, zones, quotas."""

from __future__ import annotations

from typing import Any

import pytest

from osmef.errors import CapacityError, NotFoundError, ProviderError, QuotaError
from osmef.providers.azure.access import Subscription
from osmef.providers.azure.lookup import Image, Size, look_up
from osmef.providers.cloud.lookup import Offers
from osmef.scenario.fields import FlavorNeed
from tests.azure.arm import OTHER, REGION, SUBSCRIPTION
from tests.azure.catalog import Offered, Published
from tests.providers.azure.conftest import Api, vm

NOT_HERE = {"type": "Location", "reasonCode": "NotAvailableForSubscription"}
NOT_IN_2 = {
    "type": "Zone",
    "reasonCode": "NotAvailableForSubscription",
    "restrictionInfo": {"zones": ["2"]},
}


def names(api: Api, *requests: Any, **keys: Any) -> Offers[Size, Image]:
    subscription = Subscription({"uri": api.arm.url})
    return look_up(subscription, api.settings(**keys), requests or [vm("a")])


@pytest.mark.parametrize(
    ("vcpus", "ram", "expected"),
    [
        (1, None, "Standard_D2s_v5"),
        (2, "8GiB", "Standard_D2s_v5"),
        (2, "9GiB", "Standard_E2s_v5"),
        (3, None, "Standard_D4s_v5"),
        (4, "32GiB", "Standard_D8s_v5"),
        (8, "32GiB", "Standard_D8s_v5"),
    ],
)
def test_a_need_takes_the_smallest_size_that_fits(
    api: Api, vcpus: int, ram: str | None, expected: str
) -> None:
    api.arm.sizes += [
        Offered("Standard_E2s_v5", 2, 16),
        Offered("Standard_A1_v2", 1, 2, restrictions=(NOT_HERE,)),
        Offered("Standard_D2ps_v5", 2, 8, capabilities={"CpuArchitectureType": "Arm64"}),
        Offered("Standard_B2s", 2, 8, capabilities={"AcceleratedNetworkingEnabled": "False"}),
    ]
    need = FlavorNeed.model_validate({"vcpus": vcpus, "ram": ram})
    assert names(api, vm("a", flavor=need)).flavors[need].name == expected


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("Standard_B2as_v2", {}),  # burstable, and first by name
        ("Standard_B2als_v2", {}),
        ("Standard_A2gpu", {"GPUs": "1"}),
        ("Standard_A2confidential", {"ConfidentialComputingType": "SNP"}),
        ("Standard_A2m_v2", {"HyperVGenerations": "V1"}),  # the usual image can't boot there
    ],
)
def test_a_need_takes_a_plain_size_of_several(api: Api, name: str, lacks: dict[str, str]) -> None:
    gigabytes = 4 if "als" in name else 8
    api.arm.sizes.insert(0, Offered(name, 2, gigabytes, capabilities=lacks))
    need = FlavorNeed(vcpus=2)
    api.arm.sizes[1].capabilities["GPUs"] = "0"
    assert names(api, vm("a", flavor=need)).flavors[need].name == "Standard_D2s_v5"
    assert names(api, vm("a", flavor=name), image="/a/b").flavors[name].name == name


def test_a_flavor_need_that_no_size_fulfils_is_reported(api: Api) -> None:
    with pytest.raises(NotFoundError, match="no size has"):
        names(api, vm("a", flavor=FlavorNeed(vcpus=99)))


def test_a_size_has_as_many_cpus_as_can_be_used(api: Api) -> None:
    api.arm.sizes.append(Offered("Standard_M8-2ms", 8, 218, capabilities={"vCPUsAvailable": "2"}))
    found = names(api, vm("a", flavor="standard_m8-2MS")).flavors["standard_m8-2MS"]
    assert (found.name, found.vcpus, found.ram_mib) == ("Standard_M8-2ms", 2, 218 * 1024)


@pytest.mark.parametrize(
    ("keys", "kind", "text"),
    [
        ({"default_flavor": "Standard_D2s_v4"}, NotFoundError, "Standard_D2s_v5"),
        ({"region": "westeurop"}, NotFoundError, "did you mean westeurope"),
        ({"default_flavor": "closed"}, CapacityError, "NotAvailableForSubscription"),
        ({"zone": "7"}, NotFoundError, "no zone '7'"),
        ({"zone": "2", "default_flavor": "half"}, CapacityError, "has no half"),
        ({"zone": f"{REGION}-az2", "default_flavor": "half"}, CapacityError, "use one of: 1 ("),
        ({"accelerated": True, "default_flavor": "slow"}, ProviderError, "accelerated"),
        ({"spot": True, "default_flavor": "slow"}, CapacityError, "as a spot VM"),
        ({"image": "debian:debian-12"}, ProviderError, "names no image"),
        ({"image": "debian:debian-12:12-gen9"}, NotFoundError, "there is no image"),
        ({"image": "debian:debian-12:12-gen2:1.2.3"}, NotFoundError, "there is no image"),
        ({"image": "debian:debian-12:12-arm64"}, ProviderError, "is for Arm64"),
        ({"default_flavor": "old"}, ProviderError, "is of generation V2"),
    ],
)
def test_unavailable_settings_are_reported_before_anything_is_created(
    api: Api, keys: dict[str, Any], kind: type[ProviderError], text: str
) -> None:
    lacks = {"AcceleratedNetworkingEnabled": "False", "LowPriorityCapable": "False"}
    api.arm.sizes += [
        Offered("closed", restrictions=(NOT_HERE,)),
        Offered("half", zones=("1", "2"), restrictions=(NOT_IN_2,)),
        Offered("slow", capabilities=lacks),
        Offered("old", capabilities={"HyperVGenerations": "V1"}),
    ]
    with pytest.raises(kind) as caught:
        api.provider(**keys).check([vm("a")])
    assert text in str(caught.value)
    assert caught.value.cure
    assert api.arm.count("PUT ") == 0


@pytest.mark.parametrize(
    ("image", "flavor", "expected"),
    [
        (None, "Standard_D2s_v5", "Debian:debian-12:12-gen2:0.20250101.10"),
        (None, "Standard_D2ps_v5", "Debian:debian-12:12-arm64:0.20250101.10"),
        ("canonical:jammy:x:latest", "Standard_D2s_v5", "canonical:jammy:x:22.4.10"),
        ("canonical:jammy:x:22.4.9", "Standard_D2s_v5", "canonical:jammy:x:22.4.9"),
    ],
)
def test_the_newest_version_of_an_image_is_resolved(
    api: Api, image: str | None, flavor: str, expected: str
) -> None:
    arm64 = {"CpuArchitectureType": "Arm64"}
    api.arm.sizes.append(Offered("Standard_D2ps_v5", capabilities=arm64))
    plan = {"name": "x", "publisher": "canonical", "product": "jammy"}
    there = Published(("22.4.9", "22.4.10", "22.4.1"), plan=plan)
    api.arm.images["canonical", "jammy", "x"] = there
    _, (made,) = api.make(vm("a"), image=image, default_flavor=flavor)
    assert made.spec.image_name == expected
    (body,) = api.bodies("virtualMachines")
    reference = body["properties"]["storageProfile"]["imageReference"]
    assert ":".join(reference.values()) == expected
    assert body.get("plan") == (plan if image else None)


def test_an_image_of_the_users_is_named_by_its_id(api: Api) -> None:
    start = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/own/providers/Microsoft.Compute"
    for image, key in (
        (f"{start}/images/mine", "id"),
        (f"{start}/galleries/g/images/i/versions/1.0.0", "id"),
        ("/SharedGalleries/g/images/i/versions/1.0.0", "sharedGalleryImageId"),
        ("/CommunityGalleries/g/images/i/versions/1.0.0", "communityGalleryImageId"),
    ):
        found = names(api, image=image).images["x64"]
        assert (found.name, found.reference) == (image, {key: image})


def test_the_needs_of_a_plan_are_compared_with_all_quotas(api: Api) -> None:
    api.arm.quotas["compute"] |= {"standardDSv5Family": (37, 40), "virtualMachines": (39, 40)}
    api.arm.quotas["network"]["VirtualNetworks"] = (40, 40)
    with pytest.raises(QuotaError) as caught:
        api.provider().check([vm("a"), vm("b")])
    text = str(caught.value)
    assert "4 standardDSv5Family (quota 40, in use 37)" in text
    assert "2 virtualMachines (quota 40, in use 39)" in text
    assert "1 VirtualNetworks (quota 40, in use 40)" in text
    assert "cores" not in text
    assert api.arm.count("PUT ") == 0


def test_spare_capacity_has_a_quota_of_its_own(api: Api) -> None:
    api.arm.quotas["compute"] |= {"cores": (40, 40), "lowPriorityCores": (0, 3)}
    api.provider(spot=True).check([vm("a")])
    with pytest.raises(QuotaError, match="4 lowPriorityCores"):
        api.provider(spot=True).check([vm("a"), vm("b")])


def test_tenants_of_one_subscription_share_its_quotas(api: Api) -> None:
    api.arm.quotas["compute"]["cores"] = (37, 40)
    requests = [vm("a"), vm("b", tenant="tenant-2")]
    with pytest.raises(QuotaError, match="4 cores"):
        api.provider().check(requests)
    api.provider(tenants={"red": SUBSCRIPTION, "blue": OTHER}).check(requests)


def test_two_tenants_need_two_subscriptions(api: Api) -> None:
    with pytest.raises(ProviderError, match="needs 2 tenants, and there are 1"):
        api.provider(tenants={"red": SUBSCRIPTION}).check([vm("a"), vm("b", tenant="tenant-2")])
