"""The settings of hypervisors that libvirt manages.

A URI is taken only where libvirt starts no program here by it, and writes no file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Interface
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema, model_validator

from osmef.scenario.base import Model, conflict
from osmef.scenario.clouds.base import CloudAccess, NicSettings, check_default_flavor, is_loopback
from osmef.scenario.clouds.static import CloudWithHosts
from osmef.scenario.fields import Duration, Name, Size

_EXAMPLE = "write it like qemu:///system, qemu:///session or qemu+ssh://me@host/system"
_MOST = 1000
_FORM = re.compile(
    r"qemu(?:\+(?P<transport>[a-z0-9]+))?://(?P<at>[^/?#]*)/(?:system|session)(?:\?(?P<query>.*))?"
)
# No name begins with a dash, which a program would take for an option.
_AT = re.compile(
    r"(?:[A-Za-z0-9_][A-Za-z0-9._+-]*@)?"
    r"(?P<host>[A-Za-z0-9_][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?"
)
_PATH = r"/[A-Za-z0-9._/+-]+"
_ALL = {"mode": "auto|direct|legacy", "socket": _PATH}
_SSH = {**_ALL, "keyfile": _PATH, "no_tty": "0|1"}
_PARAMETERS: dict[str, Mapping[str, str]] = {
    "unix": _ALL,
    "ssh": _SSH,
    "libssh": _ALL,
    "libssh2": _ALL,
    "tls": {},
    "tcp": {},
}
"""Parameters of each transport, and their values."""
_CURES = {
    "ext": "use qemu+ssh://me@host/system; what leads there belongs into ~/.ssh/config",
    "tcp": "use qemu+ssh:// or qemu+tls://",
    "command": "leave it out: ssh finds its settings in ~/.ssh/config (Host, ProxyJump, Port)",
    "known_hosts": "leave it out, and write UserKnownHostsFile into ~/.ssh/config",
    "no_verify": "leave it out; log in once with ssh, and let known_hosts have the host's key",
    "pkipath": "leave it out, and have the certificates in ~/.pki/libvirt",
}


def check_uri(value: str) -> str:
    """Validate a URI of libvirt. Raises ValueError, with the cure behind a semicolon.

    libvirt's client runs the programs in ``command`` and the transport ``ext``, makes the remote
    side run those in ``netcat``, ``proxy`` and ``name``, sends passwords of ``authfile``, writes
    the file of ``known_hosts``, and accepts every host key with ``no_verify``
    (libvirt.org/uri.html). It ignores the case of parameters' names, decodes ``%``, treats ``;`` as
    ``&``, and uses the last of two equal ones. So only harmless parameters are allowed, in one
    spelling, and all others are refused.
    """
    form = _FORM.fullmatch(value) if len(value) <= _MOST else None
    at = _AT.fullmatch(form["at"]) if form else None
    if form is None or (form["at"] and at is None):
        raise ValueError(f"{value[:60]!r} is no URI of libvirt for QEMU; {_EXAMPLE}")
    host = at["host"] if at else None
    transport = form["transport"] or ("unix" if host is None else "tls")
    if transport not in _PARAMETERS:
        why = "runs a program of its choice" if transport == "ext" else "is not known as harmless"
        cure = _CURES.get(transport, f"use one of: {', '.join(_PARAMETERS)}")
        raise ValueError(f"the transport {transport[:60]!r} of libvirt {why}; {cure}")
    if transport == "tcp" and not is_loopback((host or "localhost").lower()):
        raise ValueError(
            f"the transport 'tcp' of libvirt sends keys of guests in clear text; {_CURES['tcp']}"
        )
    _check_query(form["query"] or "", transport)
    return value


def _check_query(query: str, transport: str) -> None:
    known = _PARAMETERS[transport]
    seen: set[str] = set()
    for one in filter(None, query.split("&")):
        name, _, value = one.partition("=")
        if name not in known:
            usual = f"leave it out; known as harmless here: {', '.join(known) or 'none'}"
            cure = _CURES.get(name.lower(), usual)
            raise ValueError(f"{name[:60]!r} is not allowed in a URI of libvirt; {cure}")
        if name in seen:
            raise ValueError(f"{name!r} is listed twice in a URI of libvirt; write it once")
        if re.fullmatch(known[name], value) is None:
            path = "a whole path, of letters, digits and . _ / + -"
            like = path if known[name] == _PATH else known[name].replace("|", " or ")
            raise ValueError(
                f"{name}={value[:60]!r} is not allowed in a URI of libvirt; write {like}"
            )
        seen.add(name)


Uri = Annotated[
    str,
    AfterValidator(check_uri),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^qemu(\+(unix|ssh|libssh2?|tls|tcp))?://[^\s/?#]*/(system|session)(\?\S*)?$",
        }
    ),
]


DEFAULT_URI = "qemu:///system"
ONLY_HOST = "hypervisor"
"""The name of the host of a connection that has none."""

Text = Annotated[str, StringConstraints(min_length=1, max_length=255)]


_DIRECTORY = r"/\S.{0,1000}"


def _directory(value: str) -> str:
    if re.fullmatch(_DIRECTORY, value) is None:
        cure = "write it like /srv/osmef"
        raise ValueError(
            f"{value[:60]!r} is not the absolute path of a directory on a host; {cure}"
        )
    return value


Directory = Annotated[
    str,
    AfterValidator(_directory),
    WithJsonSchema({"type": "string", "pattern": f"^{_DIRECTORY}$"}),
]


class Accelerator(StrEnum):
    """The accelerator of guests: auto is KVM if a probe guest runs with it, else TCG."""

    AUTO = "auto"
    KVM = "kvm"
    TCG = "tcg"


class LibvirtFlavor(Model):
    """The size of a guest."""

    vcpus: int = Field(ge=1, le=1024, description="CPUs of the guest")
    ram: Size = Field(ge=128_000_000, le=2**50, description="memory of the guest")


def _default_flavors() -> dict[Name, LibvirtFlavor]:
    sizes = {"small": "512MiB", "medium": "1GiB", "large": "2GiB", "xlarge": "4GiB"}
    return {
        name: LibvirtFlavor.model_validate({"vcpus": 2**n, "ram": ram})
        for n, (name, ram) in enumerate(sizes.items())
    }


def _range(value: str) -> str:
    try:
        addresses_of(value)
    except ValueError as error:
        cure = "write the first, the last and the length of the prefix: 10.0.0.100-10.0.0.199/24"
        raise ValueError(f"{value[:60]!r} is no range of IPv4 addresses: {error}; {cure}") from None
    return value


def _address(value: str) -> str:
    try:
        return str(IPv4Address(value))
    except ValueError:
        cure = "write it like 10.0.0.1"
        raise ValueError(f"{value[:60]!r} is no IPv4 address; {cure}") from None


def addresses_of(value: str) -> list[IPv4Interface]:
    """Parse a range such as 10.0.0.100-10.0.0.199/24. Raises ValueError."""
    first, _, rest = value.partition("-")
    last = IPv4Interface(rest)
    start = IPv4Address(first)
    if "/" not in rest or start not in last.network or start > last.ip:
        raise ValueError("the first address is above the last, or in another network")
    ends = {last.network.network_address, last.network.broadcast_address}
    if last.network.prefixlen < 31 and ends & {start, last.ip}:
        raise ValueError("the first and the last address of a network can't be a guest's")
    if int(last.ip) - int(start) > 65535:
        raise ValueError("these are more than 65536 addresses")
    length = last.network.prefixlen
    return [IPv4Interface((n, length)) for n in range(int(start), int(last.ip) + 1)]


class ExistingNetwork(Model):
    """An existing network, of the same name on each host."""

    bridge: Text | None = Field(default=None, description="name of a Linux bridge on the hosts")
    network: Text | None = Field(default=None, description="name of a network of libvirt")
    addresses: Annotated[str, AfterValidator(_range)] | None = Field(
        default=None,
        description="addresses for guests that are not in use, such as 10.0.0.100-10.0.0.199/24;"
        " without them guests ask the DHCP server of a network of libvirt",
    )
    gateway: Annotated[str, AfterValidator(_address)] | None = Field(
        default=None, description="router of the guests; with addresses"
    )

    @model_validator(mode="after")
    def _can_be_used(self) -> ExistingNetwork:
        if (self.bridge is None) == (self.network is None):
            raise conflict(
                "a network is either a bridge or a network of libvirt",
                "write one of bridge and network",
                *("bridge", "network"),
            )
        if self.bridge is not None and self.addresses is None:
            raise conflict(
                "the address that a guest on a bridge gets is not known",
                "write addresses: FIRST-LAST/PREFIX that are not in use",
                "bridge",
            )
        if self.gateway is not None and self.addresses is None:
            raise conflict(
                "DHCP announces the gateway", "remove gateway, or write addresses", "gateway"
            )
        if self.gateway is not None and self.addresses is not None:
            free = addresses_of(self.addresses)
            gateway = IPv4Address(self.gateway)
            if gateway not in free[0].network or gateway in {one.ip for one in free}:
                raise conflict(
                    "the gateway has an address in the guests' network that is none of theirs",
                    "check gateway, and leave it out of addresses",
                    "gateway",
                )
        return self


class LibvirtSettings(NicSettings, CloudWithHosts):
    """Guests of QEMU on one or several hosts, by libvirt."""

    kind: Literal["libvirt"] = Field(default="libvirt", description="the kind of cloud")
    uri: Uri = Field(default=DEFAULT_URI, description="libvirt's URI of the only host")
    uris: dict[Name, Uri] = Field(
        default_factory=dict, description="libvirt's URIs of several hosts, by the host's name"
    )
    image: Text = Field(
        default="default",
        description="image of `osmef image build`, by name or directory, or the path of a disk"
        " image with cloud-init (qcow2 or raw)",
    )
    networks: list[ExistingNetwork] = Field(
        default_factory=list,
        max_length=2,
        description="networks that are there, one for each tenant; without them each tenant gets"
        " one made for the run, which is possible on one host only",
    )
    nic_bridges: list[Text] = Field(
        default_factory=list,
        max_length=8,
        description="Linux bridges on the hosts that these cards are joined to, by turns, where"
        " there are several hosts",
    )
    flavors: dict[Name, LibvirtFlavor] = Field(
        default_factory=_default_flavors, min_length=1, description="sizes of guests by name"
    )
    default_flavor: Name | None = Field(
        default=None, description="flavor of a guest that names none; by default the first one"
    )
    accelerator: Accelerator = Field(
        default=Accelerator.AUTO,
        description="auto: KVM where a probe guest runs with it, else TCG",
    )
    storage: Directory | None = Field(
        default=None,
        description="directory on the hosts below which a pool is made for the run; by default"
        " where libvirt keeps images",
    )
    boot_timeout: Duration = Field(
        default=120.0, ge=1, le=7200, description="how long a guest may take until SSH answers"
    )

    @model_validator(mode="after")
    def _one_way_to_name_hosts(self) -> LibvirtSettings:
        if self.uris and "uri" in self.model_fields_set:
            raise conflict(
                "uri and uris say the same thing twice",
                "remove uri, and name its host under uris",
                *("uri", "uris"),
            )
        uris = list(self.uris.values())
        if len(set(uris)) < len(uris):
            raise conflict("two hosts are one connection", "give each host its own URI", "uris")
        return self

    @model_validator(mode="after")
    def _a_network_a_tenant(self) -> LibvirtSettings:
        if len({(one.bridge, one.network) for one in self.networks}) < len(self.networks):
            raise conflict(
                "two tenants on one network are one", "name two networks, or one", "networks"
            )
        return self

    @model_validator(mode="after")
    def _default_flavor_exists(self) -> LibvirtSettings:
        check_default_flavor(self.default_flavor, self.flavors)
        return self

    @property
    def hypervisors(self) -> dict[str, str]:
        """The URI of each host, by its name."""
        return dict(self.uris) or {ONLY_HOST: self.uri}

    @property
    def nics_apart(self) -> bool:
        """Whether an endpoint's further network cards are on different networks for certain."""
        return super().nics_apart and not self.nic_bridges

    @property
    def usual_flavor(self) -> str | None:
        """The default flavor, or the first one."""
        return self.default_flavor or next(iter(self.flavors))

    def lanes(self, parallel: int, kinds: int) -> int:  # noqa: ARG002
        """Return one lane for each concurrent trial, of two hosts each."""
        return max(1, min(parallel, len(self.hypervisors) // 2))


class LibvirtAccess(CloudAccess):
    """A host."""

    uri: Uri
