"""What stands in the Azure of the tests: making, showing and deleting it, and what that needs."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Any
from uuid import uuid4

from tests.azure.catalog import Catalog
from tests.azure.description import RefusedError, refuse_malformed
from tests.azure.kinds import GROUPS, Answer, Body, Type
from tests.azure.plumbing import PUBLIC, Plumbing, block_of

_FIXED = ("zones",)
_PLACES = ("availabilitySet", "proximityPlacementGroup", "host")
_BAD_REFERENCE = ("InvalidResourceReference", 400)


class Store(Catalog, Plumbing):
    """Keeps things by their ids in lower case. Not safe to use from several threads."""

    def __init__(self, tell: Callable[[Body], None]) -> None:
        Catalog.__init__(self)
        Plumbing.__init__(self, tell)
        self.addresses = (str(one) for one in itertools.islice(PUBLIC.hosts(), 49, None))
        self.full: set[str] = set()
        """Physical zones without room for VMs; "" is for VMs that ask for none."""
        self.domains: list[int] = []
        """Fault domains of the next VMs in availability sets."""
        self.misplaced: list[str] = []
        """Parts of names of VMs: of each, the next VM is not on the dedicated host asked for."""
        self.locks: set[str] = set()
        """Ids of what carries a lock against deletion, in lower case."""

    def put(self, kind: Type, found: Body, body: Any) -> tuple[Body, bool, str | None]:
        """Make a thing, or make it so; return it, whether it is new, and why it will fail."""
        refuse_malformed(kind.package, kind.model, body)
        key = found["path"].lower()
        if kind is not GROUPS:
            self.must(group_of(key), "ResourceGroupNotFound")
        old = self.things.get(key)
        made = copy.deepcopy(old or {}) | copy.deepcopy(body)
        made |= {"id": found["path"], "name": found["path"].rpartition("/")[2], "type": kind.type}
        made.setdefault("properties", {})["provisioningState"] = "Succeeded"
        failure = None
        make = getattr(self, f"_make_{kind.operations}", None)
        if make is not None:
            failure = make(key, made)
        self.things[key] = made
        self.plug()
        return made, old is None, failure

    def must(self, key: str, code: str = "ResourceNotFound", status: int = 404) -> Body:
        """Return what stands there. Raises RefusedError."""
        there = self.things.get(key.lower())
        if there is None:
            raise RefusedError(status, code, f"'{key}' could not be found.")
        return there

    def _near(self, made: Body, key: str) -> Body:
        """Return what a thing refers to, which has to be in its region. Raises RefusedError."""
        there = self.must(key, *_BAD_REFERENCE)
        if there["location"] != made["location"]:
            message = f"'{key}' is not in the region {made['location']}."
            raise RefusedError(400, _BAD_REFERENCE[0], message)
        return there

    def get(self, kind: Type, found: Body, _body: Any) -> Answer:
        """Show a thing."""
        code = "ResourceGroupNotFound" if kind is GROUPS else "ResourceNotFound"
        thing = copy.deepcopy(self.must(found["path"], code))
        if found["query"].get("$expand") == "instanceView":
            spread = thing["properties"].get("availabilitySet")
            domain = {"platformFaultDomain": self.inner(thing)["domain"]} if spread else {}
            thing["properties"]["instanceView"] = {"statuses": [], **domain}
        if "host" in self.inner(thing):
            thing["properties"]["host"] = {"id": self.inner(thing)["host"]}
        return Answer(200, thing)

    def delete(self, kind: Type, found: Body, _body: Any) -> None:
        """Delete a thing, a group with all that is in it. Raises RefusedError."""
        key = found["path"].lower()
        self.must(key, "ResourceGroupNotFound" if kind is GROUPS else "ResourceNotFound")
        for lock in self.locks:
            if lock == key or lock.startswith(f"{key}/") or key.startswith(f"{lock}/"):
                message = (
                    f"The scope '{key}' cannot perform delete operation because following scope(s)"
                    f" are locked: '{lock}'. Please remove the lock and try again."
                )
                raise RefusedError(409, "ScopeLocked", message)
        if kind is GROUPS:
            for one in [one for one in self.things if one.startswith(f"{key}/")]:
                self._drop(one)
        else:
            self._refuse_use(kind, key)
        self._drop(key)
        self.plug()

    def _refuse_use(self, kind: Type, key: str) -> None:
        users = [
            str(one["id"])
            for other, one in self.things.items()
            if other != key and _refers(one.get("properties"), key)
        ]
        inside = [one for one in self.things if one.startswith(f"{key}/") and "rules" not in one]
        if users + inside:
            message = f"{key} cannot be deleted: it is in use by {', '.join(users + inside)}"
            raise RefusedError(409 if kind.package == "compute" else 400, kind.in_use, message)

    def _drop(self, key: str) -> None:
        """Take a thing away, and what goes with a VM or a group of rules."""
        thing = self.things.pop(key, None)
        if thing is None:
            return
        for one in [one for one in self.things if one.startswith(f"{key}/securityrules/")]:
            self.things.pop(one)
        if thing["type"] == "Microsoft.Compute/virtualMachines":
            self.tell({"do": "end", "id": self.inner(thing)["key"]})
            if thing["properties"]["provisioningState"] != "Failed":  # else its disk stays
                name = thing["properties"]["storageProfile"]["osDisk"]["name"].lower()
                self.things.pop(f"{group_of(key)}/providers/microsoft.compute/disks/{name}", None)
        self._inner.pop(key, None)

    def _make_public_ip_addresses(self, _key: str, made: Body) -> None:
        made["properties"].setdefault("ipAddress", next(self.addresses))

    def _make_schedules(self, key: str, made: Body) -> None:
        vm = self.must(made["properties"]["targetResourceId"])
        if made["name"] != f"shutdown-computevm-{vm['name']}":
            message = f"The name of the schedule of {vm['name']} is shutdown-computevm-{vm['name']}"
            raise RefusedError(400, "InvalidScheduleName", message)
        if group_of(key) != group_of(str(vm["id"]).lower()):
            raise RefusedError(400, "InvalidScheduleId", f"{vm['id']} is in another group")

    def _make_virtual_networks(self, _key: str, made: Body) -> None:
        self.inner(made).setdefault("key", uuid4().hex)
        for subnet in made["properties"]["subnets"]:
            subnet["id"] = f"{made['id']}/subnets/{subnet['name']}"
            self._near(made, subnet["properties"]["networkSecurityGroup"]["id"])

    def _make_network_security_groups(self, _key: str, made: Body) -> None:
        for rule in made["properties"]["securityRules"]:
            _refuse_prefixes(rule["properties"])

    def _make_security_rules(self, key: str, made: Body) -> None:
        _refuse_prefixes(made["properties"])
        guard = self.must(key.rpartition("/securityrules/")[0])
        rules = guard["properties"]["securityRules"]
        rules[:] = [one for one in rules if one["name"] != made["name"]]
        rules.append(copy.deepcopy(made))

    def _make_network_interfaces(self, _key: str, made: Body) -> None:
        self.inner(made).setdefault("key", uuid4().hex)
        for one in made["properties"]["ipConfigurations"]:
            subnet = one["properties"]["subnet"]["id"]
            network = self._near(made, subnet.rpartition("/subnets/")[0])
            if "publicIPAddress" in one["properties"]:
                self._near(made, one["properties"]["publicIPAddress"]["id"])
            own = self.inner(made)
            if "address" not in own:
                name = subnet.rpartition("/")[2]
                numbers = self.inner(network).setdefault(f"numbers {name}", itertools.count(4))
                block = block_of(network, name)
                own["address"] = str(block[next(numbers)])
            one["properties"]["privateIPAddress"] = own["address"]

    def _make_virtual_machines(self, key: str, made: Body) -> str | None:
        """Make a VM, and boot it; return the code of the failure if there is no room for it."""
        properties, old = made["properties"], self.things.get(key)
        changed = [name for name in _FIXED if old and old.get(name) != made.get(name)]
        changed += [n for n in _PLACES if old and old["properties"].get(n) != properties.get(n)]
        if changed:
            message = f"Changing property '{changed[0]}' is not allowed."
            raise RefusedError(409, "PropertyChangeNotAllowed", message)
        for name in _PLACES:
            if name in properties:
                self.must(properties[name]["id"], *_BAD_REFERENCE)
        if properties.get("priority") == "Spot" and "availabilitySet" in properties:
            code = "AzureSpotVMNotSupportedInAvailabilitySet"
            message = "You need to choose to either use an Azure Spot VM or use a VM in an"
            raise RefusedError(400, code, f"{message} availability set, you can't choose both.")
        nics = properties["networkProfile"]["networkInterfaces"]
        size = next(o for o in self.sizes if o.name == properties["hardwareProfile"]["vmSize"])
        if len(nics) > int(size.capabilities.get("MaxNetworkInterfaces", size.vcpus)):
            message = f"The number of network interfaces exceeds what {size.name} has."
            raise RefusedError(400, "NetworkInterfaceCountExceeded", message)
        if [nic["properties"]["primary"] for nic in nics].count(True) != 1:
            message = "One of the network interfaces has to be primary."
            raise RefusedError(400, "VirtualMachineMustHaveOneNetworkInterfaceAsPrimary", message)
        for number, nic in enumerate(nics):
            interface = self._near(made, nic["id"])
            mac = f"00-0D-3A-{number:02X}-{hash(nic['id']) & 255:02X}-01"
            interface["properties"].setdefault("macAddress", mac)
        stands = old is not None and old["properties"]["provisioningState"] == "Succeeded"
        return None if stands else self._stand_up(key, made)

    def _stand_up(self, key: str, made: Body) -> str | None:
        properties, inner = made["properties"], self.inner(made)
        inner["key"] = uuid4().hex
        name = properties["storageProfile"]["osDisk"]["name"]
        disk = f"{group_of(made['id'])}/providers/Microsoft.Compute/disks/{name}"
        if disk.lower() in self.things:
            raise RefusedError(409, "ConflictingUserInput", f"Disk {name} already exists.")
        self.things[disk.lower()] = {
            "id": disk,
            "name": name,
            "type": "Microsoft.Compute/disks",
            "location": made["location"],
        }
        zone = next(iter(made.get("zones", ())), "")
        if (self.zones[key.split("/")[2]][zone] if zone else "") in self.full:
            properties["provisioningState"] = "Failed"
            return "ZonalAllocationFailed" if zone else "AllocationFailed"
        spread = properties.get("availabilitySet", {}).get("id", "").lower()
        fellows = [one for one in self.things.values() if _refers(one.get("properties"), spread)]
        inner["domain"] = self.domains.pop(0) if self.domains else len(fellows) % 2
        for part in [one for one in self.misplaced if one in made["name"]]:
            self.misplaced.remove(part)
            inner["host"] = f"{properties['host']['id']}-beside"
        self.boot(made)
        return None


def group_of(key: str) -> str:
    """Return the key of the resource group that a thing is in."""
    return "/".join(key.split("/")[:5])


def _refuse_prefixes(rule: Body) -> None:
    for one in rule.get("sourceAddressPrefixes", [rule.get("sourceAddressPrefix")]):
        try:
            IPv4Network("0.0.0.0/0" if one == "*" else one)
        except ValueError as error:
            code = "SecurityRuleInvalidAddressPrefix"
            raise RefusedError(400, code, f"Value provided: {one}") from error


def _refers(value: Any, key: str) -> bool:
    if isinstance(value, dict):
        mine = str(value.get("id", "")).lower()
        return bool(key) and (
            mine == key
            or mine.startswith(f"{key}/")
            or any(_refers(v, key) for v in value.values())
        )
    return isinstance(value, list) and any(_refers(one, key) for one in value)
