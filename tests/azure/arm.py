"""An Azure of the tests: what stands in it, and what its requests do.

Bodies are checked against the vendor's models, references against what stands here. Where a data
plane is given, a virtual network is a network with a router there, a public address one that the
router translates, and a VM a guest.
"""

from __future__ import annotations

import copy
import itertools
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import Any
from uuid import uuid4

from tests.azure.description import RefusedError, operation, refuse_malformed
from tests.azure.plumbing import PUBLIC, Body, Plumbing

SUBSCRIPTION = "11111111-1111-4111-8111-111111111111"
REGION = "westeurope"


@dataclass(frozen=True)
class Type:
    """A type of things: its operations' names, its model, and Azure's name of it."""

    package: str
    operations: str
    model: str
    type: str
    long: bool = True


TYPES = [
    Type("resources", "resource_groups", "ResourceGroup", "", long=False),
    Type("compute", "virtual_machines", "VirtualMachine", "Microsoft.Compute/virtualMachines"),
    Type("compute", "disks", "Disk", "Microsoft.Compute/disks"),
    Type(
        "compute",
        "dedicated_host_groups",
        "DedicatedHostGroup",
        "Microsoft.Compute/hostGroups",
        long=False,
    ),
    Type("compute", "dedicated_hosts", "DedicatedHost", "Microsoft.Compute/hostGroups/hosts"),
    Type(
        "compute",
        "availability_sets",
        "AvailabilitySet",
        "Microsoft.Compute/availabilitySets",
        long=False,
    ),
    Type(
        "compute",
        "proximity_placement_groups",
        "ProximityPlacementGroup",
        "Microsoft.Compute/proximityPlacementGroups",
        long=False,
    ),
    Type(
        "network", "network_interfaces", "NetworkInterface", "Microsoft.Network/networkInterfaces"
    ),
    Type(
        "network", "public_ip_addresses", "PublicIPAddress", "Microsoft.Network/publicIPAddresses"
    ),
    Type("network", "virtual_networks", "VirtualNetwork", "Microsoft.Network/virtualNetworks"),
    Type(
        "network",
        "network_security_groups",
        "NetworkSecurityGroup",
        "Microsoft.Network/networkSecurityGroups",
    ),
    Type(
        "network",
        "security_rules",
        "SecurityRule",
        "Microsoft.Network/networkSecurityGroups/securityRules",
    ),
]


@dataclass
class Fault:
    """What goes wrong with the next requests that look like this.

    With ``late`` the request is taken, and its long operation fails.
    """

    request: str
    status: int
    code: str
    message: str = "the test wants it"
    times: int = 1
    late: bool = False
    after_s: int | None = None


@dataclass
class Answer:
    """What to answer."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


class Arm(Plumbing):
    """All of it. Safe to use from several threads."""

    def __init__(self, tell: Callable[[Body], None] = lambda _request: None) -> None:
        super().__init__(tell)
        self.url = ""
        self.faults: list[Fault] = []
        self.calls: list[str] = []
        self.operations: dict[str, list[Any]] = {}
        self.console: Callable[[str], str] = lambda _key: ""
        self.lock = threading.RLock()
        self.addresses = (str(one) for one in itertools.islice(PUBLIC.hosts(), 49, None))
        self.routes = self._routes()

    def _routes(self) -> list[tuple[Any, Callable[..., Answer]]]:
        found: list[tuple[Any, Callable[..., Answer]]] = []
        for kind in TYPES:
            acts = {"create_or_update": self._put, "get": self._get, "delete": self._delete}
            for name, act in acts.items():
                one = operation(kind.package, f"{kind.operations}_{name}")
                found.append((one, lambda found, body, kind=kind, act=act: act(kind, found, body)))
        others = {
            ("compute", "virtual_machines_retrieve_boot_diagnostics_data"): self._diagnostics,
            ("compute", "resource_skus_list"): self._skus,
            ("compute", "usage_list"): self._usage,
            ("compute", "virtual_machine_images_list"): self._images,
            ("compute", "virtual_machine_images_get"): self._image,
            ("network", "usages_list"): self._usage,
            ("resources", "resource_groups_list"): self._groups,
            ("resources", "resources_list_by_resource_group"): self._list,
            ("subscriptions", "subscriptions_get"): self._subscription,
            ("subscriptions", "subscriptions_list_locations"): self._locations,
        }
        found += [(operation(*name), act) for name, act in others.items()]
        return found

    def handle(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer:
        """Answer a request, by path without query."""
        request = f"{method} {path}"
        with self.lock:
            self.calls.append(request)
            fault = self._fault(request)
            try:
                if fault is not None and not fault.late:
                    raise RefusedError(fault.status, fault.code, fault.message)
                if path.startswith("/operations/"):
                    return self._poll(path.rpartition("/")[2])
                return self._dispatch(method, path, query, body, fault)
            except RefusedError as error:
                told = {"error": {"code": error.code, "message": error.message}}
                after = (
                    {}
                    if fault is None or fault.after_s is None
                    else {"Retry-After": str(fault.after_s)}
                )
                return Answer(error.status, told, after)

    def _dispatch(
        self, method: str, path: str, query: dict[str, str], body: Any, fault: Fault | None
    ) -> Answer:
        for one, act in self.routes:
            found = one.path.fullmatch(path)
            if found is None or one.method != method:
                continue
            if query.get("api-version") != one.version:
                raise RefusedError(
                    400, "InvalidApiVersionParameter", f"not {query.get('api-version')}"
                )
            if found["subscriptionId"] != SUBSCRIPTION:
                raise RefusedError(404, "SubscriptionNotFound", "there is no such subscription")
            answer = act({"path": path, "query": query, **found.groupdict()}, body)
            if fault is not None and "Azure-AsyncOperation" in answer.headers:
                self.operations[answer.headers["Azure-AsyncOperation"].rpartition("/")[2]][1] = (
                    fault
                )
            return answer
        raise RefusedError(404, "InvalidResourceType", f"nothing answers {method} {path}")

    def _fault(self, request: str) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and re.search(fault.request, request, re.IGNORECASE):
                fault.times -= 1
                return fault
        return None

    def _begin(self, status: int, body: Any = None) -> Answer:
        """Begin a long operation: it takes two looks until it is done."""
        key = uuid4().hex
        self.operations[key] = [2, None]
        url = f"{self.url}/operations/{key}"
        return Answer(status, body, {"Azure-AsyncOperation": url, "Retry-After": "0"})

    def _poll(self, key: str) -> Answer:
        state = self.operations[key]
        state[0] -= 1
        if state[0] > 0:
            return Answer(200, {"status": "InProgress"}, {"Retry-After": "0"})
        fault = state[1]
        if fault is not None:
            told = {"code": fault.code, "message": fault.message}
            return Answer(200, {"status": "Failed", "error": told})
        return Answer(200, {"status": "Succeeded"})

    def _put(self, kind: Type, found: Body, body: Any) -> Answer:
        refuse_malformed(kind.package, kind.model, body)
        key = found["path"].lower()
        if kind.type:
            self.must(group_of(key), "ResourceGroupNotFound")
        made = copy.deepcopy(self.things.get(key, {})) | copy.deepcopy(body)
        made |= {"id": found["path"], "name": found["path"].rpartition("/")[2]}
        made["type"] = kind.type or "Microsoft.Resources/resourceGroups"
        made.setdefault("properties", {})["provisioningState"] = "Succeeded"
        make = getattr(self, f"_make_{kind.operations}", None)
        if make is not None:
            make(key, made)
        new = key not in self.things
        self.things[key] = made
        self.plug()
        if kind.operations == "virtual_machines" and new:
            self.boot(key, made)
        return self._begin(201, made) if kind.long else Answer(201 if new else 200, made)

    def must(self, key: str, code: str = "ResourceNotFound", status: int = 404) -> Body:
        """Return what stands there. Raises RefusedError."""
        there = self.things.get(key.lower())
        if there is None:
            raise RefusedError(status, code, f"'{key}' could not be found.")
        return there

    def _get(self, kind: Type, found: Body, _body: Any) -> Answer:
        code = "ResourceNotFound" if kind.type else "ResourceGroupNotFound"
        thing = copy.deepcopy(self.must(found["path"], code))
        if found["query"].get("$expand") == "instanceView":
            spread = thing["properties"].get("availabilitySet")
            domain = {"platformFaultDomain": thing["fault"]} if spread else {}
            thing["properties"]["instanceView"] = {"statuses": [], **domain}
        return Answer(200, {k: v for k, v in thing.items() if k != "fault"})

    def _delete(self, kind: Type, found: Body, _body: Any) -> Answer:
        key = found["path"].lower()
        self.must(key, "ResourceNotFound" if kind.type else "ResourceGroupNotFound")
        if not kind.type:
            for one in [one for one in self.things if one.startswith(f"{key}/")]:
                self.drop(one)
        else:
            self._refuse_use(key)
        self.drop(key)
        self.plug()
        return self._begin(202)

    def _refuse_use(self, key: str) -> None:
        users = [one for one in self.things.values() if _refers(one.get("properties"), key)]
        inside = [one for one in self.things if one.startswith(f"{key}/")]
        if users or inside:
            names = ", ".join([str(one["id"]) for one in users] + inside)
            raise RefusedError(409, "InUseResourceCannotBeDeleted", f"it is in use by {names}")

    def drop(self, key: str) -> None:
        """Take a thing away, and what goes with a VM."""
        thing = self.things.pop(key, None)
        if thing is None or thing["type"] != "Microsoft.Compute/virtualMachines":
            return
        self.tell({"do": "end", "id": thing["key"]})
        for nic in thing["properties"]["networkProfile"]["networkInterfaces"]:
            gone = self.things.pop(nic["id"].lower(), None)
            for one in (gone or {"properties": {"ipConfigurations": []}})["properties"][
                "ipConfigurations"
            ]:
                self.things.pop(one["properties"]["publicIPAddress"]["id"].lower(), None)

    def _make_public_ip_addresses(self, _key: str, made: Body) -> None:
        made["properties"].setdefault("ipAddress", next(self.addresses))

    def _make_virtual_networks(self, _key: str, made: Body) -> None:
        made.setdefault("key", uuid4().hex)
        for subnet in made["properties"]["subnets"]:
            subnet["id"] = f"{made['id']}/subnets/{subnet['name']}"
            self.must(
                subnet["properties"]["networkSecurityGroup"]["id"], "InvalidResourceReference", 400
            )

    def _make_security_rules(self, key: str, made: Body) -> None:
        guard = self.must(key.rpartition("/securityrules/")[0])
        rules = guard["properties"]["securityRules"]
        rules[:] = [one for one in rules if one["name"] != made["name"]]
        rules.append(copy.deepcopy(made))

    def _make_network_interfaces(self, _key: str, made: Body) -> None:
        made.setdefault("key", uuid4().hex)
        for one in made["properties"]["ipConfigurations"]:
            subnet = one["properties"]["subnet"]["id"]
            network = self.must(subnet.rpartition("/subnets/")[0], "InvalidResourceReference", 400)
            self.must(one["properties"]["publicIPAddress"]["id"], "InvalidResourceReference", 400)
            numbers = network.setdefault("numbers", itertools.count(4))
            block = IPv4Network(network["properties"]["addressSpace"]["addressPrefixes"][0])
            one["properties"].setdefault("privateIPAddress", str(block[next(numbers)]))

    def _make_virtual_machines(self, _key: str, made: Body) -> None:
        properties = made["properties"]
        for nic in properties["networkProfile"]["networkInterfaces"]:
            self.must(nic["id"], "InvalidResourceReference", 400)
        for name in ("availabilitySet", "proximityPlacementGroup", "host"):
            if name in properties:
                self.must(properties[name]["id"], "InvalidResourceReference", 400)
        made.setdefault("key", uuid4().hex)
        vms = sum(one["type"] == made["type"] for one in self.things.values())
        made.setdefault("fault", vms % 2)

    def _diagnostics(self, found: Body, _body: Any) -> Answer:
        vm = self.must(found["path"].rpartition("/")[0])
        return Answer(200, {"serialConsoleLogBlobUri": f"{self.url}/console/{vm['key']}?sig=x"})

    def _skus(self, _found: Body, _body: Any) -> Answer:
        values = {
            "vCPUs": "2",
            "MemoryGB": "8",
            "AcceleratedNetworkingEnabled": "True",
            "LowPriorityCapable": "True",
            "HyperVGenerations": "V1,V2",
            "CpuArchitectureType": "x64",
        }
        names = ("Standard_D2s_v5", "Standard_D4s_v5")
        skus = [
            {
                "resourceType": "virtualMachines",
                "name": name,
                "family": "standardDSv5Family",
                "locationInfo": [{"location": REGION, "zones": ["1", "2"]}],
                "capabilities": [
                    {"name": k, "value": v} for k, v in {**values, "vCPUs": str(2 * n)}.items()
                ],
                "restrictions": [],
            }
            for n, name in enumerate(names, 1)
        ]
        return self._paged(_found, skus)

    def _paged(self, found: Body, items: list[Any]) -> Answer:
        """Answer one item a page."""
        at = int(found["query"].get("$skiptoken", 0))
        page: Body = {"value": items[at : at + 1]}
        if at + 1 < len(items):
            version = found["query"]["api-version"]
            page["nextLink"] = (
                f"{self.url}{found['path']}?api-version={version}&$skiptoken={at + 1}"
            )
        return Answer(200, page)

    def _usage(self, _found: Body, _body: Any) -> Answer:
        names = ("cores", "standardDSv5Family", "virtualMachines", "PublicIPAddresses")
        usages = [
            {"unit": "Count", "currentValue": 0, "limit": 40, "name": {"value": name}}
            for name in names
        ]
        return Answer(200, {"value": usages})

    def _images(self, found: Body, _body: Any) -> Answer:
        if found["publisherName"] != "Debian":
            return Answer(200, [])
        return Answer(
            200, [{"name": one, "location": REGION} for one in ("0.20250101.9", "0.20250101.10")]
        )

    def _image(self, found: Body, _body: Any) -> Answer:
        properties = {"hyperVGeneration": "V2", "architecture": "x64"}
        return Answer(200, {"name": found["version"], "location": REGION, "properties": properties})

    def _groups(self, found: Body, _body: Any) -> Answer:
        groups = [one for one in self.things.values() if one["type"].endswith("resourceGroups")]
        return self._paged(found, groups) if groups else Answer(200, {"value": []})

    def _list(self, found: Body, _body: Any) -> Answer:
        group = group_of(found["path"].lower())
        self.must(group, "ResourceGroupNotFound")
        keys = [
            key
            for key in self.things
            if key.startswith(f"{group}/providers/") and "/securityrules/" not in key
        ]
        shown = [
            {k: self.things[key].get(k) for k in ("id", "name", "type", "tags", "location")}
            for key in keys
        ]
        return self._paged(found, shown) if shown else Answer(200, {"value": []})

    def _subscription(self, _found: Body, _body: Any) -> Answer:
        return Answer(
            200, {"subscriptionId": SUBSCRIPTION, "displayName": "lab", "state": "Enabled"}
        )

    def _locations(self, _found: Body, _body: Any) -> Answer:
        mappings = [
            {"logicalZone": str(n), "physicalZone": f"westeurope-az{4 - n}"} for n in (1, 2, 3)
        ]
        return Answer(200, {"value": [{"name": REGION, "availabilityZoneMappings": mappings}]})


def group_of(key: str) -> str:
    """Return the key of the resource group that a thing is in."""
    return "/".join(key.split("/")[:5])


def _refers(value: Any, key: str) -> bool:
    if isinstance(value, dict):
        mine = str(value.get("id", "")).lower()
        return (
            mine == key
            or mine.startswith(f"{key}/")
            or any(_refers(v, key) for v in value.values())
        )
    return isinstance(value, list) and any(_refers(one, key) for one in value)
