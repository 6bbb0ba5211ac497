"""Settings of static hosts, and the inventory of existing hosts that are reached by SSH."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from osmef.scenario.base import Model, conflict
from osmef.scenario.clouds.base import CloudAccess, CloudSettings
from osmef.scenario.fields import EndpointKind, HomePath, Name, Size, Text

_BROADCAST = IPv4Address("255.255.255.255")
# No name begins with a dash: the program of a ProxyCommand would take it for an option.
_HOST = r"(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._*][A-Za-z0-9._*-]*)"
_DESTINATION = rf"(?:[A-Za-z0-9._+\\][A-Za-z0-9._+\\-]*@)?{_HOST}(?::[0-9]{{1,5}})?"


def _like(pattern: str, what: str, cure: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if re.fullmatch(pattern, value) is None:
            raise ValueError(f"{value[:60]!r} is no {what}; {cure}")
        return value

    return check


def _schema(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$"})


def _v4(value: str) -> str:
    example = "write it like 10.0.0.7"
    try:
        address = IPv4Address(value)
    except ValueError:
        raise ValueError(f"{value[:60]!r} is no IPv4 address; {example}") from None
    return _of_one(address, example)


def _v6(value: str) -> str:
    example = "write it like 2001:db8::7"
    try:
        address = IPv6Address(value)
    except ValueError:
        raise ValueError(f"{value[:60]!r} is no IPv6 address; {example}") from None
    return _of_one(address, example)


def _of_one(address: IPv4Address | IPv6Address, example: str) -> str:
    if address.is_unspecified or address.is_multicast or address == _BROADCAST:
        raise ValueError(f"{str(address)!r} is no address of one machine; {example}")
    return str(address)


_DESTINATIONS = f"{_DESTINATION}(?:,{_DESTINATION})*"
_SSH = ("[user@]host[:port]", "write it like my-alias, me@10.0.0.7:2222 or me@[2001:db8::7]")


def _with_ports(value: str) -> str:
    for port in re.findall(r":([0-9]+)(?=,|$)", value):
        if not 0 < int(port) < 65536:
            raise ValueError(f"there is no port {port}; write one of 1 to 65535")
    return value


Destination = Annotated[
    str,
    AfterValidator(_like(_DESTINATION, *_SSH)),
    AfterValidator(_with_ports),
    _schema(_DESTINATION),
]
Destinations = Annotated[
    str,
    AfterValidator(_like(_DESTINATIONS, *_SSH)),
    AfterValidator(_with_ports),
    _schema(_DESTINATIONS),
]


_INTERFACE = r"[^\s/=@,:-][^\s/=@,:]{0,14}"
Interface = Annotated[
    str,
    AfterValidator(_like(_INTERFACE, "name of an interface", "write it like eth1")),
    _schema(_INTERFACE),
]
"""The name of a network interface (IFNAMSIZ)."""


class DeclaredLocation(Model):
    """Location of a host of the inventory, as its owner declares it."""

    host: str | None = Field(
        default=None, min_length=1, description="the physical host that a VM runs on"
    )
    zone: str | None = Field(default=None, min_length=1, description="room, rack or zone")
    tenant: str | None = Field(
        default=None, min_length=1, description="tenant, project or network of a VM"
    )


class InventoryHost(Model):
    """An existing machine, and its ssh destination."""

    ssh: Destination = Field(
        description="alias of OpenSSH's configuration, or [user@]address[:port]; IPv6 in brackets"
    )
    identity: HomePath | None = Field(
        default=None,
        description="private key file to log in with; by default what ssh would use, and the agent",
    )
    jump: Destinations | None = Field(
        default=None, description="jump host, written like ssh; several with commas between them"
    )
    known_hosts: HomePath | None = Field(
        default=None, description="file with its host keys and those of the jump hosts"
    )
    data_address: Annotated[str, AfterValidator(_v4)] | None = Field(
        default=None,
        description="IPv4 address to measure at; by default the address that SSH arrives at",
    )
    data_address6: Annotated[str, AfterValidator(_v6)] | None = Field(
        default=None, description="IPv6 address to measure at, for `family: ipv6`"
    )
    public_address: Annotated[str, AfterValidator(_v4)] | None = Field(
        default=None,
        description="IPv4 address at which other sites see it, where NAT translates it to its own",
    )
    listen_address: Annotated[str, AfterValidator(_v4)] | None = Field(
        default=None,
        description="the machine's own IPv4 address, where NAT translates data_address to it",
    )
    interface: str | None = Field(
        default=None,
        min_length=1,
        max_length=15,
        description="network interface to measure at",
    )
    nics: list[Interface] = Field(
        default_factory=list,
        max_length=8,
        description="unused network interfaces, which `endpoints` may ask for by `nics`:"
        " no others are ever touched; those of one place in the lists of two hosts meet",
    )
    kind: EndpointKind = Field(default=EndpointKind.HOST, description="a physical host or a VM")
    flavor: str | None = Field(default=None, min_length=1, description="name of a VM's size")
    vcpus: int | None = Field(default=None, ge=1, description="CPUs of a VM")
    ram: Size | None = Field(default=None, ge=2**20, description="memory of a VM")
    location: DeclaredLocation = Field(
        default_factory=DeclaredLocation, description="where it is placed"
    )

    @model_validator(mode="after")
    def _one_way_to_name_the_address(self) -> InventoryHost:
        written = [key for key in ("data_address", "data_address6") if getattr(self, key)]
        if written and self.interface is not None:
            raise conflict(
                f"{written[0]} and interface say the same thing twice",
                "remove one of them",
                *("interface", *written),
            )
        return self

    @model_validator(mode="after")
    def _free_ones_are_free(self) -> InventoryHost:
        if self.interface is not None and self.interface in self.nics:
            raise conflict(
                f"{self.interface} is measured at, and no free network card",
                "remove it from nics",
                *("nics", "interface"),
            )
        if len(set(self.nics)) < len(self.nics):
            raise conflict("a network card is named twice", "name each once", "nics")
        return self

    @model_validator(mode="after")
    def _what_is_translated(self) -> InventoryHost:
        if self.listen_address is not None and self.data_address is None:
            raise conflict(
                "listen_address says where the data arrives, and nothing where it is sent to",
                "write data_address, too: the address that NAT translates to this one",
                "listen_address",
            )
        return self

    @model_validator(mode="after")
    def _what_only_vms_have(self) -> InventoryHost:
        if self.kind is EndpointKind.VM:
            return self
        sizes = {key: getattr(self, key) for key in ("flavor", "vcpus", "ram")}
        for key, value in (*sizes.items(), ("location.tenant", self.location.tenant)):
            if value is not None:
                what = key.rpartition(".")[2]
                raise conflict(
                    f"{what} is for VMs, and this is a physical host",
                    "remove it, or write kind: vm",
                    *(key, "kind"),
                )
        return self


class CloudWithHosts(CloudSettings):
    """Settings of a cloud some of whose endpoints are hosts of an inventory."""

    hosts: dict[Name, InventoryHost] = Field(
        default_factory=dict, description="machines that are there already, by name"
    )
    inventory: str | None = Field(
        default=None,
        min_length=1,
        description="file that holds the hosts, YAML or JSON, seen from the scenario file",
    )


class StaticSettings(CloudWithHosts):
    """Static hosts: machines of an inventory, reached by SSH. Nothing is made."""

    kind: Literal["static"] = Field(default="static", description="the kind of cloud")

    @model_validator(mode="after")
    def _some_hosts(self) -> StaticSettings:
        if not self.hosts and self.inventory is None:
            raise conflict(
                "static hosts need an inventory",
                "write hosts: {my-host: {ssh: user@address}}, or inventory: FILE",
                *("hosts", "inventory"),
            )
        return self

    def lanes(self, parallel: int, kinds: int) -> int:  # noqa: ARG002
        """Return one lane for each concurrent trial, of two physical hosts each."""
        hosts = {host.location.host or name for name, host in self.hosts.items()}
        return max(1, min(parallel, len(hosts) // 2))


class StaticAccess(CloudAccess):
    """A machine of an inventory; ``uri`` is its ssh destination for reap."""

    uri: Destination | None = None
    host: Text
    ssh: Destination
    identity: HomePath | None = None
    jump: Destinations | None = None
    known_hosts: HomePath | None = None
