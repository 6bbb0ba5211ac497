"""What moto's EC2 lacks and the provider needs: placement, topology, consoles, tokens."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import amis
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.models.instances import Instance
from moto.ec2.responses import EC2Response
from moto.servicequotas.responses import ServiceQuotasResponse

_RACKS = 8
run_instances = EC2Response.run_instances
describe_images = EC2Response.describe_images
quotas: dict[str, float] = {}
"""By the codes of Service Quotas; there is a lot of what is not here."""
_A_LOT = 1000.0


def fill() -> None:
    """Add the actions and facts that are missing."""
    lacking = (
        create_placement_group,
        describe_placement_groups,
        delete_placement_group,
        describe_instance_topology,
    )
    changes: list[tuple[Any, str, Any]] = [
        *((EC2Response, action.__name__, action) for action in lacking),
        (EC2Response, "run_instances", place_and_run),
        (EC2Response, "describe_images", list_images),
        (ServiceQuotasResponse, "get_service_quota", get_service_quota),
        (Instance, "cpu_options", property(_cpus)),
        (amis.Ami, "ena_support", True),
        # Its own list of images takes it seconds at each reset.
        (amis, "AMIS", []),
        (amis, "environ", {"MOTO_AMIS_PATH": "none"}),
    ]
    for where, name, what in changes:
        setattr(where, name, what)


def fill_console(consoles: Callable[[str], Path]) -> None:
    """Have instances tell their consoles, each in the file that ``consoles`` names."""

    def get_console_output(self: Any) -> ActionResult:
        instance = self.ec2_backend.get_instance(self._get_param("InstanceId"))
        path = consoles(instance.id)
        text = path.read_bytes() if path.exists() else b""
        return ActionResult({"InstanceId": instance.id, "Output": base64.b64encode(text).decode()})

    setattr(EC2Response, get_console_output.__name__, get_console_output)


def _cpus(instance: Any) -> dict[str, int]:
    cpus = INSTANCE_TYPES[instance.instance_type]["VCpuInfo"]
    return {
        "CoreCount": cpus["DefaultCores"],
        "ThreadsPerCore": cpus.get("DefaultThreadsPerCore", 1),
    }


def get_service_quota(self: Any) -> str:
    """Tell a quota of EC2 or VPC."""
    code = json.loads(self.body)["QuotaCode"]
    return json.dumps({"Quota": {"QuotaCode": code, "Value": quotas.get(code, _A_LOT)}})


def list_images(self: Any) -> ActionResult:
    """List images, those that a test calls deprecated only where a request asks for them.

    That is how EC2 lists to all but their owners; a filter by the id is no request for them.
    """
    result = describe_images(self)
    if not self._get_param("IncludeDeprecated"):
        there: Any = result.result
        there["Images"] = [one for one in there["Images"] if not getattr(one, "deprecated", False)]
    return result


def groups_of(response: Any) -> dict[str, dict[str, Any]]:
    """Return the placement groups of an account in a region, by their names."""
    groups: dict[str, dict[str, Any]] = response.ec2_backend.__dict__.setdefault("lab_groups", {})
    return groups


def create_placement_group(self: Any) -> ActionResult:
    """Make one; names are unique."""
    name, groups = self._get_param("GroupName"), groups_of(self)
    if name in groups:
        raise EC2ClientError("InvalidPlacementGroup.Duplicate", f"{name} exists already")
    tags = self._parse_tag_specification().get("placement-group", {})
    groups[name] = {
        "GroupName": name,
        "GroupId": f"pg-{uuid.uuid4().hex[:17]}",
        "State": "available",
        "Strategy": self._get_param("Strategy"),
        "PartitionCount": self._get_param("PartitionCount"),
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }
    return ActionResult({"PlacementGroup": groups[name]})


def describe_placement_groups(self: Any) -> ActionResult:
    """List all: who asks looks at their tags."""
    return ActionResult({"PlacementGroups": list(groups_of(self).values())})


def delete_placement_group(self: Any) -> ActionResult:
    """Delete one that no instance is in."""
    name, groups = self._get_param("GroupName"), groups_of(self)
    if name not in groups:
        raise EC2ClientError("InvalidPlacementGroup.Unknown", f"there is no {name}")
    if any(one.placement.group_name == name for one in _running(self)):
        raise EC2ClientError("InvalidPlacementGroup.InUse", f"{name} is in use")
    del groups[name]
    return ActionResult({})


def _running(response: Any) -> list[Any]:
    return [one for one in response.ec2_backend.all_instances() if one.state != "terminated"]


def describe_instance_topology(self: Any) -> ActionResult:
    """Tell nodes of the network that mean nothing beyond the account."""
    wanted = self._get_param("InstanceIds", [])
    there = {one.id: one for one in _running(self)}
    found = []
    for key in wanted:
        near = f"{self.current_account}-{int(key.removeprefix('i-'), base=16) % _RACKS}"
        if there[key].placement.group_name:
            near = f"{self.current_account}-{there[key].placement.group_name}"
        nodes = [f"nn-{self.current_account}-1", f"nn-{self.current_account}-2", f"nn-{near}"]
        found.append({"InstanceId": key, "NetworkNodes": nodes})
    return ActionResult({"Instances": found})


def place_and_run(self: Any) -> ActionResult:
    """Run instances once for each token, and note the placement that was asked for."""
    token = self._get_param("ClientToken")
    made = self.ec2_backend.__dict__.setdefault("lab_tokens", {})
    if token in made:
        return ActionResult(made[token])
    group = self._get_param("Placement.GroupName") or ""
    if group and group not in groups_of(self):
        raise EC2ClientError("InvalidPlacementGroup.Unknown", f"there is no {group}")
    result = run_instances(self)
    reservation: Any = result.result
    made[token] = reservation
    number = self._get_param("Placement.PartitionNumber")
    for instance in reservation.instances:
        instance.placement.group_name = group
        instance.placement.tenancy = self._get_param("Placement.Tenancy") or "default"
        if number is not None:
            instance.placement.partition_number = int(number)
    return result
