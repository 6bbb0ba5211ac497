"""What a plan needs of a subscription in a region, compared with what its quotas leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from osmef.errors import ProviderError, QuotaError
from osmef.providers.azure.access import Subscription
from osmef.providers.azure.names import Size
from osmef.providers.parallel import side_by_side, together
from osmef.scenario.clouds.azure import AzureSettings

_NAMESPACES = ("Microsoft.Compute", "Microsoft.Network", "Microsoft.DevTestLab")
"""Of the types of all that a run makes in its groups; the last one of schedules."""


def needs_of(
    settings: AzureSettings, sizes: Iterable[Size], networks: int, nics: int
) -> dict[str, int]:
    """Return what VMs of these sizes in these many networks need, by the name of the quota.

    ``nics`` are the further network cards of all of them.
    """
    need: Counter[str] = Counter()
    for size in sizes:
        if settings.spot:
            need["lowPriorityCores"] += size.vcpus
        else:
            need["cores"] += size.vcpus
            need[size.family] += size.vcpus
        need["virtualMachines"] += 1
        need["NetworkInterfaces"] += 1
        need["PublicIPAddresses"] += 1
        need["StandardSkuPublicIpAddresses"] += 1
    need["NetworkInterfaces"] += nics
    need["VirtualNetworks"] += networks
    need["NetworkSecurityGroups"] += networks
    return dict(need)


def check_quotas(subscription: Subscription, region: str, need: Mapping[str, int]) -> None:
    """Raise QuotaError with everything that the region has too little of."""
    lists: list[list[Any]] = together(
        lambda: subscription.do(
            "reading quotas of VMs", lambda: list(subscription.compute.usage.list(region))
        ),
        lambda: subscription.do(
            "reading quotas of networks", lambda: list(subscription.network.usages.list(region))
        ),
    )
    by_name = {name.lower(): count for name, count in need.items()}
    short = []
    for usage in (one for some in lists for one in some):
        count = by_name.get(str(usage.name.value).lower(), 0)
        if count and usage.current_value + count > usage.limit:
            short.append(
                f"{count} {usage.name.value} (quota {usage.limit}, in use {usage.current_value})"
            )
    if short:
        raise QuotaError(
            f"the plan needs {', '.join(short)}",
            where=f"{subscription.name} in {region}",
            cure="plan fewer or smaller endpoints, use another region, or ask for more (portal:"
            " Quotas)",
        )


def check_namespaces(subscription: Subscription) -> None:
    """Raise ProviderError where a subscription was never registered for a type of what is made."""

    def state_of(namespace: str) -> str:
        found = subscription.do(
            f"looking at the namespace {namespace}",
            lambda: subscription.resources.providers.get(namespace),
        )
        return str(found.registration_state)

    for namespace, state in zip(_NAMESPACES, side_by_side(state_of, _NAMESPACES), strict=True):
        if state not in {"Registered", "Registering"}:
            raise ProviderError(
                f"it is not registered to use the namespace {namespace} ({state})",
                where=subscription.name,
                cure=f"once: az provider register --namespace {namespace}"
                f" --subscription {subscription.id}",
            )
