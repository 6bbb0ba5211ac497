"""Lookup of an account's instance types, images, zones and quotas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from osmef.errors import CapacityError, NotFoundError, ProviderError
from osmef.providers.aws.access import ERRORS, Account, where
from osmef.providers.base import EndpointRequest
from osmef.providers.cloud.account import Tenant
from osmef.providers.cloud.errors import Meaning
from osmef.providers.cloud.lookup import (
    Flavor,
    Offers,
    Quota,
    WantedFlavor,
    Zones,
    common_zones,
    compare_quotas,
    known_names,
    smallest,
)
from osmef.providers.cloud.public_cloud import Share, account_shares
from osmef.providers.parallel import map_concurrently
from osmef.scenario.clouds.aws import AwsPlacedBy, AwsSettings
from osmef.scenario.fields import FlavorNeed

_GROUPS = {AwsPlacedBy.PARTITION, AwsPlacedBy.SPREAD, AwsPlacedBy.CLUSTER}


def look_up(
    account: Account, settings: AwsSettings, requests: Sequence[EndpointRequest]
) -> Offers[FlavorInfo, Image]:
    """Look up instance types, images and zones. Raises ProviderError."""
    flavors = find_flavors(account, [r.flavor or settings.default_flavor for r in requests])
    images = {
        architecture: find_image(account, settings, architecture)
        for architecture in {flavor.architecture for flavor in flavors.values()}
    }
    found = Offers(settings.default_flavor, flavors, images, zones_of(account))
    for request in requests:
        if settings.is_ambiguous(request.zone):
            raise ProviderError(
                f"the zone {request.zone} is another physical zone in each account",
                where=request.name,
                cure=f"write its id: {found.zones.id_of(str(request.zone))}",
            )
        flavor = found.check(request, request.zone or settings.zone)
        _check_placing(flavor, request, settings)
        image = found.image_of(flavor)
        if flavor.ena and not image.ena:
            raise ProviderError(
                f"the image {image.id} has no driver for the enhanced networking of {flavor.name}",
                where="provider.image",
                cure="use an image with ENA support, as all of the last years have",
            )
    return found


def free_zones(
    offers: Mapping[str, Offers[FlavorInfo, Image]], requests: Sequence[EndpointRequest]
) -> list[str]:
    """Return the ids of the zones that have all that requests without a zone ask for.

    Offers are by the tenants' slots. Raises CapacityError where there is none.
    """
    free = [request for request in requests if request.zone is None]
    found = common_zones(offers, free)
    if not found:
        names = sorted({offers[str(one.tenant)].flavor_of(one).name for one in free})
        message = f"no zone has all of {', '.join(names)}"
        cure = "use other instance types, or another region"
        raise CapacityError(message, where="provider.zone", cure=cure)
    return found


def _check_placing(flavor: FlavorInfo, request: EndpointRequest, settings: AwsSettings) -> None:
    by, cure = settings.placement_by, "use another instance type"
    if request.host is None and by is not AwsPlacedBy.CLUSTER:
        return
    if by in _GROUPS and by.value not in flavor.groups:
        message = f"{flavor.name} can't be in a placement group of strategy {by}"
        cure += ", or another provider.placement_by"
        raise ProviderError(message, where=request.name, cure=cure)
    if by is AwsPlacedBy.DEDICATED_HOST and not flavor.hosts:
        message = f"there are no dedicated hosts for {flavor.name}"
        raise ProviderError(message, where=request.name, cure=cure)


def zones_of(account: Account) -> Zones:
    """Return the ids of the zones that the account may use, by its own names of them."""
    wanted = where(zone_type="availability-zone", state="available")
    answer = account.read("describe_availability_zones", "listing zones", Filters=wanted)
    return Zones({str(one["ZoneName"]): str(one["ZoneId"]) for one in answer["AvailabilityZones"]})


def offering(account: Account, flavors: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the ids of the zones that have each instance type."""
    wanted = sorted(set(flavors))
    if not wanted:
        return {}
    answer = account.read(
        "describe_instance_type_offerings",
        "listing which zone has which instance type",
        LocationType="availability-zone-id",
        Filters=where(instance_type=wanted),
    )
    there = [(str(one["InstanceType"]), one["Location"]) for one in answer["InstanceTypeOfferings"]]
    return {flavor: frozenset(zone for of, zone in there if of == flavor) for flavor in wanted}


_ARCHITECTURES = ("x86_64", "arm64")
_PLAIN = re.compile(r"[cmr](?P<generation>[0-9]+)[a-z]*\.")
"""General, compute and memory types, and none whose CPUs are held back (flex)."""


@dataclass(frozen=True)
class FlavorInfo(Flavor):
    """An instance type, and what its network can do.

    ``ena`` is whether it has enhanced networking (the Elastic Network Adapter), ``groups`` which
    strategies of placement groups it takes, ``network`` what EC2 says of its rate. Its network
    cards are the interfaces that the first network card of its hardware has room for.
    """

    ena: bool
    groups: tuple[str, ...]
    hosts: bool
    network: str | None = None

    @property
    def family(self) -> str:
        """The part before the size: a dedicated host is of one family."""
        return self.name.partition(".")[0]


def find_flavors(
    account: Account, wanted: Iterable[WantedFlavor]
) -> dict[WantedFlavor, FlavorInfo]:
    """Look instance types up, and their zones. Raises NotFoundError with close names."""
    found = {one: _find(account, one) for one in dict.fromkeys(wanted)}
    zones = offering(account, [one.name for one in found.values()])
    return {one: replace(flavor, zones=zones[flavor.name]) for one, flavor in found.items()}


def _find(account: Account, wanted: WantedFlavor) -> FlavorInfo:
    if isinstance(wanted, FlavorNeed):
        return _smallest(account, wanted)
    found = _list(account, instance_type=wanted)
    if found:
        return _info(found[0])
    family = wanted.partition(".")[0]
    known = [str(one["InstanceType"]) for one in _list(account, instance_type=f"{family}.*")]
    raise NotFoundError(
        f"there is no instance type {wanted!r} in {account.region}",
        where="flavor",
        cure=known_names(known, wanted) if known else "write one like c6i.large",
    )


def _smallest(account: Account, need: FlavorNeed) -> FlavorInfo:
    """Return the smallest plain type that fits a need, of several the newest."""
    there = _list(
        account,
        current_generation="true",
        bare_metal="false",
        instance_storage_supported="false",
        **{"processor_info.supported_architecture": "x86_64"},
    )
    plain = [one for one in map(_info, there) if _generation(one.name)]
    lacks = f"no instance type in {account.region} has {need}"
    return smallest(plain, need, lacks, lambda one: (-_generation(one.name),))


def _generation(name: str) -> int:
    """Return the generation of a plain instance type, 0 of another one."""
    found = _PLAIN.match(name)
    return int(found["generation"]) if found else 0


def _list(account: Account, **filters: str) -> list[Mapping[str, Any]]:
    doing = "listing instance types"
    return list(
        account.read("describe_instance_types", doing, Filters=where(**filters))["InstanceTypes"]
    )


def _info(facts: Mapping[str, Any]) -> FlavorInfo:
    known = facts["ProcessorInfo"]["SupportedArchitectures"]
    network = facts.get("NetworkInfo", {})
    cards = [one for one in network.get("NetworkCards", ()) if one.get("NetworkCardIndex") == 0]
    return FlavorInfo(
        name=str(facts["InstanceType"]),
        vcpus=int(facts["VCpuInfo"]["DefaultVCpus"]),
        ram_mib=int(facts["MemoryInfo"]["SizeInMiB"]),
        architecture=next((one for one in _ARCHITECTURES if one in known), str(known[0])),
        ena=network.get("EnaSupport") in {"supported", "required"},
        groups=tuple(facts.get("PlacementGroupInfo", {}).get("SupportedStrategies", ())),
        hosts=bool(facts.get("DedicatedHostsSupported")),
        network=network.get("NetworkPerformance"),
        nics=(cards[0] if cards else network).get("MaximumNetworkInterfaces"),
    )


DEFAULT = "debian-12"
_KEY = "provider.image"
_DEBIAN, _CANONICAL = "136693071363", "099720109477"
_USUAL_NAMES = {"x86_64": "amd64", "arm64": "arm64"}
"""What Debian and Ubuntu call the architectures that Amazon names so."""
# Anybody may publish an image of such a name: only the owner's is taken.
_FAMILIES = {
    "debian-12": (_DEBIAN, "debian-12-{usual}-*"),
    "debian-13": (_DEBIAN, "debian-13-{usual}-*"),
    "ubuntu-22.04": (
        _CANONICAL,
        "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-{usual}-server-*",
    ),
    "ubuntu-24.04": (
        _CANONICAL,
        "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-{usual}-server-*",
    ),
    "amazon-linux-2023": ("amazon", "al2023-ami-2023.*-{ec2}"),
}
_USERS = {"debian-": "admin", "ubuntu": "ubuntu", "al20": "ec2-user", "amzn": "ec2-user"}
_OWNED = re.compile(r"(self|amazon|aws-marketplace|\d{12})/(.+)")


@dataclass(frozen=True)
class Image:
    """An image: its id, the device of its root disk, and its SSH user.

    ``ena`` is whether it has a driver for enhanced networking, ``disk_gib`` its smallest disk.
    """

    id: str
    name: str
    root: str
    user: str
    ena: bool
    disk_gib: int


def find_image(account: Account, settings: AwsSettings, architecture: str) -> Image:
    """Look up the image of the settings for a CPU architecture. Raises NotFoundError."""
    wanted = settings.image or DEFAULT
    facts = _facts(account, wanted, architecture)
    name = str(facts.get("Name", ""))
    if facts["Architecture"] != architecture:
        raise NotFoundError(
            f"the image {wanted} is for {facts['Architecture']}, and the instance type is not",
            where=_KEY,
            cure=f"use an image for {architecture}, or another instance type",
        )
    sizes = [disk["Ebs"].get("VolumeSize", 0) for disk in _disks(facts)]
    return Image(
        id=str(facts["ImageId"]),
        name=name,
        root=str(facts.get("RootDeviceName") or "/dev/xvda"),
        user=settings.user or _user(wanted, name),
        ena=bool(facts.get("EnaSupport")),
        disk_gib=max(sizes, default=0),
    )


def _disks(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [disk for disk in facts.get("BlockDeviceMappings", ()) if "Ebs" in disk]


def _user(wanted: str, name: str) -> str:
    for text in (wanted, name.rpartition("/")[2]):
        for start, user in _USERS.items():
            if text.startswith(start):
                return user
    raise ProviderError(
        f"the user name that the image {wanted} expects is not known",
        where="provider.user",
        cure="write provider.user",
    )


def _facts(account: Account, wanted: str, architecture: str) -> Mapping[str, Any]:
    if wanted.startswith(("ami-", "/")):
        image = wanted if wanted.startswith("ami-") else _parameter(account, wanted)
        lacks = f"the account sees no image {image} in {account.region}"
        cure = "ids of images differ between regions: is it one of this region?"
        # EC2 starts deprecated images, as all public ones are after two years, but lists them only
        # if they are asked for.
        wanted_id = where(image_id=image)
        return _newest(account, image, lacks, cure, Filters=wanted_id, IncludeDeprecated=True)
    if wanted in _FAMILIES:
        owner, names = _FAMILIES[wanted]
        pattern = names.format(usual=_USUAL_NAMES.get(architecture), ec2=architecture)
    else:
        owner, pattern = _owned(wanted)
    return _newest(
        account,
        wanted,
        f"{owner} has no image {pattern} for {architecture} in {account.region}",
        "write another family, or ami-ID",
        Owners=[owner],
        Filters=where(name=pattern, architecture=architecture, state="available"),
    )


def _owned(wanted: str) -> Sequence[str | Any]:
    """Return the owner and the pattern of OWNER/PATTERN. Raises NotFoundError."""
    found = _OWNED.fullmatch(wanted)
    if found is None:
        cure = (
            f"use one of {', '.join(_FAMILIES)}, ami-ID, /PATH of an SSM parameter, or OWNER/NAME-*"
        )
        raise NotFoundError(f"there is no family of images {wanted!r}", where=_KEY, cure=cure)
    return found.groups()


def _parameter(account: Account, path: str) -> str:
    try:
        answer = account.read(
            "get_parameter", f"reading the parameter {path}", service="ssm", Name=path
        )
    except NotFoundError as error:
        cure = "does it exist in this region?"
        raise NotFoundError(f"there is no parameter {path}", where=_KEY, cure=cure) from error
    return str(answer["Parameter"]["Value"])


def _newest(
    account: Account, wanted: str, lacks: str, cure: str, **which: Any
) -> Mapping[str, Any]:
    found = account.read("describe_images", f"looking for the image {wanted}", **which)["Images"]
    if not found:
        raise NotFoundError(lacks, where=_KEY, cure=cure)
    return dict(max(found, key=lambda image: str(image["CreationDate"])))


_STANDARD = {"a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"}
"""What the names of standard instance types begin with. Others have quotas of their own."""


@dataclass(frozen=True)
class QuotaKind:
    """A quota: what it counts, and its service and code."""

    what: str
    service: str
    code: str


_VPCS = QuotaKind("VPCs", "vpc", "L-F678F1CE")
_NICS = QuotaKind("network interfaces", "vpc", "L-DF5E4CA3")
_ON_DEMAND = QuotaKind("vCPUs of standard on-demand instances", "ec2", "L-1216C47A")
_SPOT = QuotaKind("vCPUs of standard spot instances", "ec2", "L-34B43A08")


def check_quotas(
    settings: AwsSettings,
    tenants: Sequence[Tenant[Account]],
    offers: Mapping[str, Offers[FlavorInfo, Image]],
    requests: Sequence[EndpointRequest],
) -> list[str]:
    """Compare what the requests need with the quotas of the tenants' accounts.

    Offers are by the tenants' slots. Returns a line for the user for each quota that can't be
    read. Raises QuotaError with everything that an account has too little of.
    """

    def check(share: Share[Account]) -> list[str]:
        account, some, ours = share
        nics = sum(1 + request.nics for request in ours if request.nics)
        need = {_VPCS: len(some)} | ({_NICS: nics} if nics else {})
        return _check(account, _needs(settings, offers, ours) | need)

    found = map_concurrently(check, account_shares(tenants, requests))
    return [line for lines in found for line in lines]


def _needs(
    settings: AwsSettings,
    offers: Mapping[str, Offers[FlavorInfo, Image]],
    requests: Sequence[EndpointRequest],
) -> dict[QuotaKind, int]:
    """Return the vCPUs that count against the quota; those on dedicated hosts do not."""
    hosts = settings.placement_by is AwsPlacedBy.DEDICATED_HOST
    counted = [request for request in requests if not (hosts and request.host is not None)]
    flavors = [offers[str(request.tenant)].flavor_of(request) for request in counted]
    vcpus = sum(flavor.vcpus for flavor in flavors if _is_standard(flavor.name))
    return {_SPOT if settings.spot else _ON_DEMAND: vcpus} if vcpus else {}


def _is_standard(flavor: str) -> bool:
    return re.split("[^a-z]", flavor, maxsplit=1)[0] in _STANDARD


def _check(account: Account, need: Mapping[QuotaKind, int]) -> list[str]:
    quotas, unknown = {}, []
    for one in need:
        try:
            quotas[one.what] = Quota(_limit(account, one), _used(account, one))
        except ProviderError as error:
            unknown.append(f"not compared with the quota of {one.what}: {error.message}")
    cure = ERRORS.cure_of(Meaning.QUOTA)
    compare_quotas(account.name, {one.what: n for one, n in need.items()}, quotas, cure)
    return unknown


def _limit(account: Account, one: QuotaKind) -> float:
    answer = account.read(
        "get_service_quota",
        f"reading the quota of {one.what}",
        service="service-quotas",
        again=lambda error: ERRORS.meaning_of(error) is Meaning.THROTTLED,
        ServiceCode=one.service,
        QuotaCode=one.code,
    )
    return float(answer["Quota"]["Value"])


def _used(account: Account, one: QuotaKind) -> int:
    if one is _VPCS:
        return len(account.read("describe_vpcs", "listing VPCs")["Vpcs"])
    if one is _NICS:
        there = account.read("describe_network_interfaces", "listing network interfaces")
        return len(there["NetworkInterfaces"])
    states = where(instance_state_name=["pending", "running"])
    running = account.list_instances("listing instances that run", Filters=states)
    return sum(
        facts["CpuOptions"]["CoreCount"] * facts["CpuOptions"]["ThreadsPerCore"]
        for facts in running
        if (facts.get("InstanceLifecycle") == "spot") is (one is _SPOT)
        and facts.get("Placement", {}).get("Tenancy") != "host"
        and _is_standard(str(facts["InstanceType"]))
    )
