"""Settings that all clouds have in common, those of public clouds, and addresses of APIs.

A scenario or a journal is untrusted, and names hosts to which requests with a token, a signature,
or keys of VMs are sent. So credentials are sent only to hosts of their own cloud, and to this
machine. The user has to allow other hosts by an environment variable.
"""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Callable, Collection
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from osmef.scenario.base import Model, conflict
from osmef.scenario.fields import Duration, Name, Size, Text

HOSTS = "OSMEF_API_HOSTS"
"""The variable that allows more hosts: each as HOST or HOST:PORT, with commas between them."""

_EXAMPLE = "write it like https://api.example.org:8443"
_PORT, _MOST = 443, 1000
# Nothing that two programs read in two ways: no user, no escape, no query, no dot at the end.
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
_URL = re.compile(
    rf"(?P<scheme>https?)://(?P<host>{_NAME}|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{{1,5}}))?"
    r"(?:/[A-Za-z0-9._~-]*)*"
)
_SCHEMA = WithJsonSchema({"type": "string", "pattern": r"^https?://[^\s/]+\S*$"})


def check_default_flavor(default: str | None, flavors: Collection[str]) -> None:
    """Raise the conflict of a default flavor that is none of those defined."""
    if default is not None and default not in flavors:
        raise conflict(
            f"there is no flavor {default!r} that could be the default",
            f"name one of: {', '.join(flavors)}",
            "default_flavor",
        )


def only_to(vendor: str, hosts: str) -> Callable[[str], str]:
    """Return a validator that allows only the vendor's hosts, a pattern.

    It raises ValueError, with the cure behind a semicolon.
    """

    def check(value: str) -> str:
        found = _URL.fullmatch(value) if len(value) <= _MOST else None
        host = found["host"].lower() if found else ""
        port = int(found["port"] or _PORT) if found else 0
        if found is None or not 0 < port < 65536 or not _is_host(host):
            raise ValueError(f"{value[:60]!r} is no address of an API; {_EXAMPLE}")
        if is_loopback(host):
            if found["scheme"] == "http" and _has_proxy(host):
                raise ValueError(
                    "credentials for this machine would go to the proxy that the environment names;"
                    f" export no_proxy={host}"
                )
            return value
        if found["scheme"] == "http":
            raise ValueError(
                f"credentials for {host} would be sent in clear text, by http;"
                " write https://, as all but this machine itself has to be reached"
            )
        if re.fullmatch(hosts, host) is None and not _is_allowed(host, port):
            raise ValueError(
                f"{host[:100]!r} is no host of {vendor}'s API, and credentials go to no other;"
                " leave it out, or, if you trust that host with them:"
                f" export {HOSTS}={_named(host, port)}"
            )
        return value

    return check


def is_loopback(host: str) -> bool:
    """Return whether a host, IPv6 in brackets, is this machine, by name or literal only."""
    try:
        if host.startswith("["):
            return IPv6Address(host[1:-1]) == IPv6Address("::1")
        return host == "localhost" or IPv4Address(host).is_loopback
    except ValueError:
        return False


def _is_host(host: str) -> bool:
    try:
        return not host.startswith("[") or bool(IPv6Address(host[1:-1]))
    except ValueError:
        return False


def _named(host: str, port: int) -> str:
    return host if port == _PORT else f"{host}:{port}"


def _has_proxy(host: str) -> bool:
    from urllib.request import (  # noqa: PLC0415 - it loads ssl, and few scenarios name an API
        getproxies_environment,
        proxy_bypass,
    )

    proxies = getproxies_environment().keys() & {"http", "all"}
    return bool(proxies) and not proxy_bypass(host)


def _is_allowed(host: str, port: int) -> bool:
    named = {one.strip().lower() for one in os.environ.get(HOSTS, "").split(",")}
    return bool(named & {_named(host, port), f"{host}:{port}"})


_AMAZON = r"(amazonaws\.com(\.cn)?|amazonaws\.eu|api\.aws|api\.amazonwebservices\.com\.cn)"


def is_amazons(url: str) -> bool:
    """Return whether a URL is of Amazon's own hosts, each of which serves one service only."""
    found = _URL.fullmatch(url)
    return found is not None and re.fullmatch(rf".+\.{_AMAZON}", found["host"].lower()) is not None


Url = Annotated[str, AfterValidator(only_to("the cloud", r"(?!)")), _SCHEMA]
"""The address of an API of a cloud without known hosts."""
AwsUrl = Annotated[
    str,
    # More of amazonaws.com than these is its customers': load balancers, buckets, gateways.
    AfterValidator(only_to("Amazon", rf"ec2(-fips)?(\.[a-z0-9-]+)?\.{_AMAZON}")),
    _SCHEMA,
]
AzureUrl = Annotated[
    str,
    AfterValidator(
        only_to(
            "Azure",
            r"([a-z0-9-]+\.)?management\.(azure\.com|usgovcloudapi\.net|chinacloudapi\.cn)",
        )
    ),
    _SCHEMA,
]
check_google = only_to("Google", r"([a-z0-9-]+\.)*googleapis\.com")
GoogleUrl = Annotated[str, AfterValidator(check_google), _SCHEMA]


def _cidr(value: str) -> str:
    example = "write it like 198.51.100.7/32 or 198.51.100.0/24"
    try:
        block = IPv4Network(value)
    except ValueError:
        raise ValueError(f"{value[:60]!r} is no block of IPv4 addresses; {example}") from None
    if block.prefixlen == 0:
        raise ValueError(f"{block} is every address; {example}")
    return str(block)


Cidr = Annotated[
    str,
    AfterValidator(_cidr),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+){3}(/[0-9]{1,2})?$"}),
]
"""A block of IPv4 addresses."""


class HostKeySource(StrEnum):
    """Source of a VM's SSH host key before the first connection."""

    GIVEN = "given"
    CONSOLE = "console"


class NicNetworks(StrEnum):
    """Networks of the further network cards of endpoints."""

    OWN = "own"
    ONE = "one"


class CloudAccess(BaseModel):
    """The ``access`` of a journal: a place in a cloud. Keys of newer versions are ignored.

    A run directory is untrusted. Its values are used only if a scenario could have them: each cloud
    has a subclass that validates them like its settings.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    cloud: Text | None = None
    region: Text | None = None


class CloudSettings(Model):
    """Settings of a cloud. Each kind of cloud has a subclass with its own keys."""

    kind: str = Field(description="the kind of cloud")

    @property
    def usual_flavor(self) -> str | None:
        """Name of the default flavor; None where it is unknown."""
        return None

    @property
    def nics_apart(self) -> bool:
        """Whether an endpoint's further network cards are on different networks for certain."""
        return False

    @property
    def usual_zone(self) -> str | None:
        """Name of the default zone; None where the cloud chooses, or has no zones."""
        return None

    def written_zone(self, zone: str) -> str | None:  # noqa: ARG002
        """Return the syntax of zones if this name is invalid; None otherwise."""
        return None

    def priced_region(self, zone: str | None) -> str | None:  # noqa: ARG002
        """Return the region whose prices apply in this zone, None for the default zone.

        None for a cloud that has but one price list.
        """
        return None

    @property
    def priced_by_flavor(self) -> bool:
        """Whether the price of its flavor is the whole cost of a VM."""
        return True

    priced_apart: ClassVar[str] = "hardware of its own"
    """What costs extra where the price of the flavor is not the whole cost."""

    @property
    def on_demand(self) -> bool:
        """Whether VMs cost their on-demand price, and not less."""
        return True

    @abstractmethod
    def lanes(self, parallel: int, kinds: int) -> int:
        """Return over how many sets of hosts, at least 1, the plan spreads the kinds of pairs.

        ``kinds`` is how many kinds of pairs the scenario has (placement, tenancy, flavors, layer),
        ``parallel`` how many trials it lets run at once. With 1 lane all kinds use the same two
        hosts, so that their numbers compare; trials of different lanes can run at once.
        """


class NicSettings(CloudSettings):
    """Settings of a cloud that creates networks for further network cards."""

    nic_networks: NicNetworks = Field(
        default=NicNetworks.OWN,
        description="the networks of further network cards (`endpoints.*.nics`), made for the run:"
        " each card's `own`, or `one` for all",
    )

    @property
    def nics_apart(self) -> bool:
        """Whether an endpoint's further network cards are on different networks for certain."""
        return self.nic_networks is NicNetworks.OWN

    def nic_network(self, card: int) -> int:
        """Return the number of a further card's network, both from 0."""
        return card if self.nics_apart else 0


ENDPOINT = (
    "address of the API, if it is not the cloud's usual one: another of its hosts, by https, this"
    f" machine, or a host that {HOSTS} names in the environment"
)


class PublicCloudSettings(CloudSettings):
    """A public cloud: VMs in networks that are made for the run."""

    region: Text = Field(description="region, by the cloud's name")
    zone: Text | None = Field(
        default=None,
        description="zone of endpoints that name none; by default the region's first with capacity",
    )
    tenants: dict[Name, Text] | None = Field(
        default=None,
        description="the tenants, by credentials of their own; by default each tenant is a network"
        " of its own in the one account",
    )
    image: Text | None = Field(
        default=None, description="image, by family or id; by default the newest Debian 12"
    )
    user: Text | None = Field(
        default=None, description="account of the image that SSH logs into; by default the image's"
    )
    default_flavor: Text = Field(description="instance type of an endpoint that names none")
    disk: Size = Field(
        default=10 * 2**30, ge=2**30, description="size of the boot disk, in whole GiB"
    )
    spot: bool = Field(
        default=False, description="spare capacity for less, which the cloud may take back"
    )
    controller_cidr: Cidr | None = Field(
        default=None,
        description="from where SSH is allowed; by default the address at which the cloud sees this"
        " machine",
    )
    host_keys: HostKeySource = Field(
        default=HostKeySource.GIVEN,
        description="given: with the VM's first data; console: read from what it writes there",
    )
    boot_timeout: Duration = Field(
        default=600.0, ge=5, le=7200, description="how long a VM may take until SSH answers"
    )
    endpoint_url: Url | None = Field(default=None, description=ENDPOINT)

    @model_validator(mode="after")
    def _a_zone(self) -> PublicCloudSettings:
        if self.zone is not None and (form := self.written_zone(self.zone)):
            raise conflict(f"there is no zone {self.zone!r} here", f"write it {form}", "zone")
        return self

    @model_validator(mode="after")
    def _different_tenants(self) -> PublicCloudSettings:
        named = list((self.tenants or {}).values())
        if len(set(named)) < len(named):
            raise conflict(
                "two tenants are one and the same",
                "name different ones, or leave tenants out: then each tenant is a network",
                "tenants",
            )
        return self

    @property
    def usual_flavor(self) -> str | None:
        """The default flavor."""
        return self.default_flavor

    @property
    def usual_zone(self) -> str | None:
        """The zone."""
        return self.zone

    def priced_region(self, zone: str | None) -> str | None:  # noqa: ARG002
        """Return the region: all its zones have one price list."""
        return self.region

    @property
    def on_demand(self) -> bool:
        """Whether capacity is on demand, not spot."""
        return not self.spot

    def lanes(self, parallel: int, kinds: int) -> int:  # noqa: ARG002
        """Return one lane for each kind of pairs: a placement group is for VMs of one kind."""
        return kinds
