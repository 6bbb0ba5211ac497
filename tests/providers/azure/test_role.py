"""The role of the manual allows what the provider does, and nothing else."""

from __future__ import annotations

from typing import Any

from osmef.providers.azure.provider import AzureProvider
from tests.azure.arm import SUBSCRIPTION, Fault
from tests.azure.permissions import granted
from tests.providers.azure.conftest import Api, vm

IMAGES = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/own/providers/Microsoft.Compute"
WAYS: list[dict[str, Any]] = [
    {"proximity": True, "image": f"{IMAGES}/images/own"},
    {"dedicated_host": "DSv5-Type1", "image": f"{IMAGES}/galleries/g/images/i/versions/1.0.0"},
    {"accelerated": False},
]


def use(api: Api) -> None:
    """Do all that the provider ever does, at least once."""
    requests = [
        vm("a", host="host-1"),
        vm("b", host="host-2"),
        vm("c", host="host-3", tenant="tenant-2"),
    ]
    for number, keys in enumerate(WAYS):
        provider = api.provider(**keys)
        provider.check(requests)
        made = provider.begin(api.context(*requests, run=f"lab-{number}")).create_all()
        made[0].console()
        endpoints = [provider.endpoint(one, None) for one in made]  # type: ignore[arg-type]
        provider.describe(endpoints)
        provider.admit(endpoints, ["203.0.113.7"])
    # No group goes as a whole, so all parts go one by one.
    groups = len(api.bodies("resourceGroups"))
    whole = Fault("DELETE .*/resourcegroups/[^/]+$", 409, "ResourceGroupDeletionBlocked")
    whole.times = groups
    api.arm.faults.append(whole)
    AzureProvider.destroy(api.owned(), lambda _one: None)


def test_the_role_is_exactly_what_is_used(api: Api) -> None:
    use(api)
    assert api.arm.things == {}
    assert (api.arm.used - granted(), granted() - api.arm.used) == (set(), set())
