"""What the Azure of the tests tells of itself: subscriptions, regions, sizes, quotas, images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.azure.description import RefusedError
from tests.azure.kinds import Answer, Body

SUBSCRIPTION = "11111111-1111-4111-8111-111111111111"
OTHER = "44444444-4444-4444-8444-444444444444"
REGION, FAR = "westeurope", "northeurope"


@dataclass(frozen=True)
class Offered:
    """A size of VMs, its capabilities as Azure words them, and where it can't be had."""

    name: str
    vcpus: int = 2
    gigabytes: float = 8
    zones: tuple[str, ...] = ("1", "2", "3")
    capabilities: dict[str, str] = field(default_factory=dict)
    restrictions: tuple[Body, ...] = ()

    def shown(self, region: str) -> Body:
        """Return the size as the API shows it for a region."""
        values = {
            "vCPUs": str(self.vcpus),
            "MemoryGB": f"{self.gigabytes:g}",
            "AcceleratedNetworkingEnabled": "True",
            "LowPriorityCapable": "True",
            "HyperVGenerations": "V1,V2",
            "CpuArchitectureType": "x64",
            "MaxNetworkInterfaces": str(self.vcpus),
            **self.capabilities,
        }
        return {
            "resourceType": "virtualMachines",
            "name": self.name,
            "family": "standardDSv5Family",
            "locationInfo": [{"location": region, "zones": list(self.zones)}],
            "capabilities": [{"name": name, "value": value} for name, value in values.items()],
            "restrictions": list(self.restrictions),
        }


@dataclass(frozen=True)
class Published:
    """An image of the marketplace: its versions, oldest first, and what all of them are."""

    versions: tuple[str, ...] = ("0.20250101.9", "0.20250101.10")
    architecture: str = "x64"
    generation: str = "V2"
    plan: Body | None = None


class Catalog:
    """What there is to choose from; a test may change all of it."""

    def __init__(self) -> None:
        self.url = ""
        self.zones = {
            SUBSCRIPTION: {str(n): f"{REGION}-az{4 - n}" for n in (1, 2, 3)},
            OTHER: {str(n): f"{REGION}-az{n}" for n in (1, 2, 3)},
        }
        """The physical zones of ``REGION`` of each subscription, by its own names of them."""
        self.sizes = [
            Offered("Standard_D2s_v5"),
            Offered("Standard_D4s_v5", 4, 16),
            Offered("Standard_D8s_v5", 8, 32),
        ]
        self.images = {
            ("debian", "debian-12", "12-gen2"): Published(),
            ("debian", "debian-12", "12-arm64"): Published(architecture="Arm64"),
        }
        names = ("cores", "standardDSv5Family", "lowPriorityCores", "virtualMachines")
        self.quotas = {
            "compute": dict.fromkeys(names, (0, 40)),
            "network": {"PublicIPAddresses": (0, 40), "VirtualNetworks": (0, 40)},
        }
        """What is in use of each quota, and how much there is."""

        self.unregistered: dict[str, set[str]] = {SUBSCRIPTION: set(), OTHER: set()}
        """The namespaces that each subscription was never registered for."""

    @property
    def lists(self) -> dict[tuple[str, str], Callable[..., Answer]]:
        """The operations of each package that show it."""
        return {
            ("compute", "resource_skus_list"): self._skus,
            ("compute", "usage_list"): lambda *_: self._usage("compute"),
            ("compute", "virtual_machine_images_list"): self._versions,
            ("compute", "virtual_machine_images_get"): self._image,
            ("network", "usages_list"): lambda *_: self._usage("network"),
            ("resources", "providers_get"): self._provider,
            ("subscriptions", "subscriptions_get"): self._subscription,
            ("subscriptions", "subscriptions_list_locations"): self._locations,
        }

    def paged(self, found: Body, items: list[Any]) -> Answer:
        """Answer one item a page."""
        at = int(found["query"].get("$skiptoken", 0))
        page: Body = {"value": items[at : at + 1]}
        if at + 1 < len(items):
            query = urlencode({**found["query"], "$skiptoken": at + 1})
            page["nextLink"] = f"{self.url}{found['path']}?{query}"
        return Answer(200, page)

    def _skus(self, found: Body, _body: Any) -> Answer:
        region = found["query"]["$filter"].removeprefix("location eq ").strip("'")
        return self.paged(found, [size.shown(region) for size in self.sizes])

    def _usage(self, package: str) -> Answer:
        usages = [
            {"unit": "Count", "currentValue": used, "limit": limit, "name": {"value": name}}
            for name, (used, limit) in self.quotas[package].items()
        ]
        return Answer(200, {"value": usages})

    def _published(self, found: Body) -> Published | None:
        keys = ("publisherName", "offer", "skus")
        publisher, offer, sku = (found[key].lower() for key in keys)
        return self.images.get((publisher, offer, sku))

    def _versions(self, found: Body, _body: Any) -> Answer:
        there = self._published(found)
        versions = there.versions if there else ()
        return Answer(200, [{"name": one, "location": found["location"]} for one in versions])

    def _image(self, found: Body, _body: Any) -> Answer:
        there = self._published(found)
        if there is None or found["version"] not in there.versions:
            raise RefusedError(404, "ImageNotFound", f"no version {found['version']}")
        properties: Body = {
            "hyperVGeneration": there.generation,
            "architecture": there.architecture,
            **({} if there.plan is None else {"plan": there.plan}),
        }
        where = {"name": found["version"], "location": found["location"]}
        return Answer(200, {**where, "properties": properties})

    def _provider(self, found: Body, _body: Any) -> Answer:
        name = found["resourceProviderNamespace"]
        lacks = name in self.unregistered[found["subscriptionId"]]
        state = "NotRegistered" if lacks else "Registered"
        return Answer(200, {"namespace": name, "registrationState": state})

    def _subscription(self, found: Body, _body: Any) -> Answer:
        told = {"subscriptionId": found["subscriptionId"], "displayName": "lab", "state": "Enabled"}
        return Answer(200, told)

    def _locations(self, found: Body, _body: Any) -> Answer:
        zones = self.zones[found["subscriptionId"]]
        regions = [
            {
                "name": region,
                "availabilityZoneMappings": [
                    {"logicalZone": logical, "physicalZone": physical.replace(REGION, region)}
                    for logical, physical in zones.items()
                ],
            }
            for region in (REGION, FAR)
        ]
        return Answer(200, {"value": regions})
