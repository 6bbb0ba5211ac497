"""The types of things that the Azure of the tests keeps, and what it answers about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True)
class Type:
    """A type of things: its operations' names, its model, and Azure's name of it.

    ``in_use`` is the error code of a deletion while something refers to it; making and deleting one
    of a ``long`` type takes several looks.
    """

    package: str
    operations: str
    model: str
    type: str
    in_use: str = "OperationNotAllowed"
    long: bool = True


GROUPS = Type("resources", "resource_groups", "ResourceGroup", "Microsoft.Resources/resourceGroups")
_COMPUTE, _NETWORK = "Microsoft.Compute", "Microsoft.Network"
TYPES = [
    GROUPS,
    Type(
        "devtestlab",
        "schedules",
        "Schedule",
        "Microsoft.DevTestLab/schedules",
        long=False,
    ),
    Type("compute", "virtual_machines", "VirtualMachine", f"{_COMPUTE}/virtualMachines"),
    Type("compute", "disks", "Disk", f"{_COMPUTE}/disks"),
    Type(
        "compute",
        "dedicated_host_groups",
        "DedicatedHostGroup",
        f"{_COMPUTE}/hostGroups",
        long=False,
    ),
    Type("compute", "dedicated_hosts", "DedicatedHost", f"{_COMPUTE}/hostGroups/hosts"),
    Type(
        "compute",
        "availability_sets",
        "AvailabilitySet",
        f"{_COMPUTE}/availabilitySets",
        long=False,
    ),
    Type(
        "compute",
        "proximity_placement_groups",
        "ProximityPlacementGroup",
        f"{_COMPUTE}/proximityPlacementGroups",
        "CannotDeleteProximityPlacementGroup",
        long=False,
    ),
    Type(
        "network",
        "network_interfaces",
        "NetworkInterface",
        f"{_NETWORK}/networkInterfaces",
        "NicInUse",
    ),
    Type(
        "network",
        "public_ip_addresses",
        "PublicIPAddress",
        f"{_NETWORK}/publicIPAddresses",
        "PublicIPAddressCannotBeDeleted",
    ),
    Type(
        "network",
        "virtual_networks",
        "VirtualNetwork",
        f"{_NETWORK}/virtualNetworks",
        "InUseSubnetCannotBeDeleted",
    ),
    Type(
        "network",
        "network_security_groups",
        "NetworkSecurityGroup",
        f"{_NETWORK}/networkSecurityGroups",
        "InUseNetworkSecurityGroupCannotBeDeleted",
    ),
    Type(
        "network",
        "security_rules",
        "SecurityRule",
        f"{_NETWORK}/networkSecurityGroups/securityRules",
    ),
]


@dataclass
class Fault:
    """What goes wrong with the next requests that look like this.

    With ``late`` the request is taken, and its long operation fails; with ``lost`` it is carried
    out, and this is all that is answered. ``then`` is called before the answer is given.
    """

    request: str
    status: int
    code: str
    message: str = "the test wants it"
    times: int = 1
    late: bool = False
    lost: bool = False
    after_s: int | None = None
    then: Callable[[], None] = lambda: None


@dataclass
class Answer:
    """What to answer."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
