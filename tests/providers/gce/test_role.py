"""The role of the documentation has the permissions of the calls that are made, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from google.cloud import compute_v1

from osmef.providers.base import Resource
from osmef.providers.gce.provider import GceProvider
from osmef.providers.gce.resource_types import TYPES, id_of
from osmef.scenario.fields import FlavorNeed
from tests.providers.gce.lab import RUN, Lab, asked, context, refusal, vm

ROLE = Path(__file__).parents[3] / "docs/policies/gce-role.yaml"
INSERT_VM = {
    "compute.disks.create",
    "compute.disks.setLabels",
    "compute.images.useReadOnly",
    "compute.instances.create",
    "compute.instances.setLabels",
    "compute.instances.setMetadata",
    "compute.networks.use",
    "compute.resourcePolicies.use",
    "compute.subnetworks.use",
    "compute.subnetworks.useExternalIp",
}
IN_NETWORK = {"compute.networks.updatePolicy"}
NEEDS = {
    "instances.insert": INSERT_VM,
    "networks.insert": {"compute.networks.create"},
    "subnetworks.insert": {"compute.subnetworks.create", *IN_NETWORK},
    "firewalls.insert": {"compute.firewalls.create", *IN_NETWORK},
    "firewalls.delete": {"compute.firewalls.delete", *IN_NETWORK},
    "subnetworks.delete": {"compute.subnetworks.delete", *IN_NETWORK},
    "resourcePolicies.insert": {"compute.resourcePolicies.create"},
    "nodeGroups.listNodes": {"compute.nodeGroups.get"},
}
"""Permissions of methods, as Google's reference has them, where they are not named like them."""


def permissions_of(method: str) -> set[str]:
    """Return what a method needs: compute.things.list for an aggregated list, else its own name."""
    short = method.removeprefix("compute.")
    return NEEDS.get(short, {method.replace("aggregatedList", "list")})


def test_role_has_the_permissions_of_all_calls_that_are_made(lab: Lab) -> None:
    access = lab.access
    with lab.cloud.recorded() as calls:
        make_all(lab)
        orphan(lab)
        left = GceProvider.owned(access)
        # What lists do not show is looked for by its name.
        left += [
            Resource(
                "gce", kind, "osmef-x", RUN, id_of(api.scope and "x", "osmef-x"), access=access
            )
            for kind, api in TYPES.items()
        ]
        GceProvider.destroy(left, lambda _resource: None)
        found = {call["id"] for call in calls() if "id" in call}
    assert lab.owned() == []
    assert asked(calls(), "disks.delete")
    role = yaml.safe_load(ROLE.read_text())
    needed = set().union(*(permissions_of(method) for method in found - {"compute.disks.insert"}))
    assert set(role["includedPermissions"]) == needed


def make_all(lab: Lab) -> None:
    """Make a pair as the plan of a run has it, see where it stands, and leave it there."""
    requests = [vm("a"), vm("b", "host-2")]
    provider, wanted = lab.provider(), context(*requests)
    provider.check(requests)
    unread = refusal(404, "notFound")
    with lab.cloud.fault("call", "GET .*/getGuestAttributes", times=1, **unread):
        provider.describe(lab.create(provider, wanted))
    nodes = lab.provider(node_group="nodes", zone="here-1-a", image="debian-cloud/debian-0")
    with pytest.raises(Exception, match="debian-0"):
        nodes.check(requests)
    lab.provider(node_group="nodes", zone="here-1-a").check(requests)
    lab.provider().check([vm("c", flavor=FlavorNeed(vcpus=1))])


def orphan(lab: Lab) -> None:
    """Make a disk of the run that has no VM any more."""
    project = lab.project()
    text = f"osmef run={RUN} made=1 deadline=2"
    body = compute_v1.Disk(name="osmef-lab-disk", description=text, size_gb=10)
    project.change(
        "making a disk", compute_v1.DisksClient, "insert_unary", zone="here-1-a", disk_resource=body
    )
