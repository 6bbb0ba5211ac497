"""Instance types: by name, or the smallest that a need fits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from osmef.errors import NotFoundError
from osmef.providers.aws.access import Account
from osmef.scenario.fields import FlavorNeed

_MIB = 2**20
_ARCHITECTURES = ("x86_64", "arm64")
_PLAIN = re.compile(r"[cmr](?P<generation>[0-9]+)[a-z]*\.")
"""General, compute and memory types, and none whose CPUs are held back (flex)."""
Wanted = str | FlavorNeed


@dataclass(frozen=True)
class FlavorInfo:
    """An instance type: its name, CPUs, memory in MiB, and what its network can do.

    ``ena`` tells whether it has enhanced networking (the Elastic Network Adapter), ``groups`` which
    strategies of placement groups it takes, ``nics`` how many interfaces it has room for on the
    first network card of its hardware, None where EC2 does not tell. ``network`` is what
    EC2 says of its rate.
    """

    name: str
    vcpus: int
    ram_mib: int
    architecture: str
    ena: bool
    groups: tuple[str, ...]
    hosts: bool
    network: str | None = None
    nics: int | None = None

    @property
    def family(self) -> str:
        """What is before the size: a dedicated host is of one family."""
        return self.name.partition(".")[0]


def find_flavors(account: Account, wanted: Iterable[Wanted]) -> dict[Wanted, FlavorInfo]:
    """Look instance types up. Raises NotFoundError with close names."""
    return {one: _find(account, one) for one in dict.fromkeys(wanted)}


def _find(account: Account, wanted: Wanted) -> FlavorInfo:
    if isinstance(wanted, FlavorNeed):
        return _smallest(account, wanted)
    found = _list(account, {"instance-type": wanted})
    if found:
        return _info(found[0])
    family = wanted.partition(".")[0]
    known = [str(one["InstanceType"]) for one in _list(account, {"instance-type": f"{family}.*"})]
    close = get_close_matches(wanted, known, n=3, cutoff=0.5) or sorted(known)[:5]
    raise NotFoundError(
        f"there is no instance type {wanted!r} in {account.region}",
        where="flavor",
        cure=f"did you mean {' or '.join(close)}?" if close else "write one like c6i.large",
    )


def _smallest(account: Account, need: FlavorNeed) -> FlavorInfo:
    """Return the smallest plain type that a need fits, and of several the newest."""
    there = _list(
        account,
        {
            "current-generation": "true",
            "bare-metal": "false",
            "instance-storage-supported": "false",
            "processor-info.supported-architecture": "x86_64",
        },
    )
    plain = [_info(one) for one in there if _PLAIN.match(str(one["InstanceType"]))]
    ram_mib = -(-(need.ram or 0) // _MIB)
    fitting = [one for one in plain if one.vcpus >= need.vcpus and one.ram_mib >= ram_mib]
    if not fitting:
        raise NotFoundError(
            f"no instance type in {account.region} has {need}",
            where="flavor",
            cure="ask for less, or write the name of one",
        )
    return min(fitting, key=lambda one: (one.vcpus, one.ram_mib, -_generation(one), one.name))


def _generation(flavor: FlavorInfo) -> int:
    found = _PLAIN.match(flavor.name)
    return int(found["generation"]) if found else 0


def _list(account: Account, filters: Mapping[str, str]) -> list[Mapping[str, Any]]:
    answer = account.read(
        "describe_instance_types",
        "listing instance types",
        Filters=[{"Name": name, "Values": [value]} for name, value in filters.items()],
    )
    return list(answer["InstanceTypes"])


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
