"""Instances: their requests, creation, and waiting until they run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from osmef.errors import (
    BootError,
    CapacityError,
    CredentialsError,
    NotFoundError,
    PolicyError,
    ProviderError,
)
from osmef.providers.aws.access import ERRORS, Account, where
from osmef.providers.aws.lookup import FlavorInfo, Image
from osmef.providers.aws.network import TenantNet, attach, keypair_of
from osmef.providers.aws.resource_types import Facts, Maker, tags_for, token_of
from osmef.providers.cloud.account import Again
from osmef.providers.cloud.build import Vm, VmSpec
from osmef.providers.cloud_init import cloud_config
from osmef.scenario.clouds.aws import AwsSettings
from osmef.units import whole_gib

_NO_ROOM = ("Server.InsufficientInstanceCapacity", "Server.SpotInstanceTermination")
_ENDED = {"shutting-down", "terminated", "stopping", "stopped"}


@dataclass(frozen=True)
class InstanceSpec(VmSpec[TenantNet]):
    """An instance to create, in a zone given by its id."""

    flavor: FlavorInfo
    zone: str
    image: Image
    place: Mapping[str, Any]

    @property
    def image_name(self) -> str:
        """The id of its image."""
        return self.image.id


@dataclass(frozen=True)
class Instance(Vm[InstanceSpec]):
    """A running instance."""

    def user(self, settings: AwsSettings) -> str:  # noqa: ARG002
        """Return the account that SSH logs into: that of the image."""
        return self.spec.image.user

    def console(self) -> str:
        """Return what is on the console so far. Raises CredentialsError, PolicyError."""
        for latest in (True, False):  # types before Nitro know only what was kept some minutes ago
            try:
                answer = self.spec.account.read(
                    "get_console_output", "reading a console", InstanceId=self.id, Latest=latest
                )
            except (CredentialsError, PolicyError):
                raise
            except ProviderError:
                continue
            return str(answer.get("Output") or "")
        return ""


def make_instance(maker: Maker, spec: InstanceSpec, settings: AwsSettings, ends: float) -> str:
    """Request an instance, and return its id; it does not run yet. Raises ProviderError.

    It ends itself at about ``ends``, a UNIX time.
    """
    request: dict[str, Any] = {
        "ImageId": spec.image.id,
        "InstanceType": spec.flavor.name,
        "MinCount": 1,
        "MaxCount": 1,
        "KeyName": keypair_of(maker.mark),
        "ClientToken": token_of(maker.mark, f"{spec.name} {spec.zone}"),
        "UserData": cloud_config(
            spec.image.user, spec.login_key, spec.host_key, ends - time.time()
        ),
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpTokens": "required"},
        "NetworkInterfaces": [
            {
                "DeviceIndex": 0,
                "SubnetId": spec.net.subnets[spec.zone],
                "Groups": [spec.net.group],
                "AssociatePublicIpAddress": True,
                "DeleteOnTermination": True,
            }
        ],
        "BlockDeviceMappings": [{"DeviceName": spec.image.root, "Ebs": _disk(spec, settings)}],
        "TagSpecifications": tags_for("volume", maker.mark, spec.name),
    }
    if spec.place:
        request["Placement"] = dict(spec.place)
    if settings.spot:
        request["InstanceMarketOptions"] = {"MarketType": "spot"}
    return str(maker.make(spec.account, "instance", spec.name, **request))


def add_nics(maker: Maker, instance: Instance, settings: AwsSettings) -> Instance:
    """Create the further interfaces of a running instance, and attach them. Raises ProviderError.

    They come afterwards: EC2 gives one that is made with several no public address.
    """
    spec, nics = instance.spec, []
    for card, name in enumerate(spec.nic_names):
        nic = maker.make(
            *(spec.account, "network-interface", name),
            SubnetId=spec.net.nic_subnets[spec.zone, settings.nic_network(card)],
            Groups=[spec.net.group],
            ClientToken=token_of(maker.mark, name),
        )
        nics.append(attach(spec.account, nic, instance.id, card + 1))
    return replace(instance, nics=tuple(nics))


def _disk(spec: InstanceSpec, settings: AwsSettings) -> dict[str, Any]:
    size_gib = max(spec.image.disk_gib, whole_gib(settings.disk))
    return {"VolumeSize": size_gib, "VolumeType": "gp3", "DeleteOnTermination": True}


def await_instances(specs: Mapping[str, InstanceSpec], timeout_s: float) -> list[Instance]:
    """Wait until all instances, given by id, run and have a public address; in their order.

    Raises BootError, CapacityError.
    """
    found: dict[str, Instance] = {}

    def running(*, late: bool) -> list[Instance] | None:
        states = _look({key: spec for key, spec in specs.items() if key not in found}, found)
        if not states:
            return [found[key] for key in specs]
        if not late:
            return None
        key, state = next(iter(states.items()))
        raise BootError(
            f"the instance is still {state} after {timeout_s:.0f} s",
            where=specs[key].request.name,
            cure="look at it in the EC2 console, or raise provider.boot_timeout",
        )

    account: Account = next(iter(specs.values())).account
    return account.until(running, timeout_s)


def _look(specs: Mapping[str, InstanceSpec], found: dict[str, Instance]) -> dict[str, str]:
    """Add the running instances, and return the states of the others."""
    states = {}
    for account in {id(o.account): o.account for o in specs.values()}.values():
        ours = [key for key, spec in specs.items() if spec.account is account]
        there = {str(facts["InstanceId"]): facts for facts in list_instances(account, ours)}
        for key in ours:
            facts, state = there.get(key, {}), "not known yet"
            if facts:
                state = str(facts["State"]["Name"])
            if state in _ENDED:
                raise _failed(specs[key], facts)
            if state == "running" and facts.get("PublicIpAddress"):
                addresses = str(facts["PrivateIpAddress"]), str(facts["PublicIpAddress"])
                found[key] = Instance(specs[key], key, *addresses)
            else:
                states[key] = state
    return states


def list_instances(account: Account, ids: Sequence[str]) -> list[Facts]:
    """List instances in one call, those that EC2 has just made, too. Raises ProviderError."""
    return _list(account, ERRORS.is_not_yet, InstanceIds=list(ids))


def _list(account: Account, again: Again, **which: Any) -> list[Facts]:
    answer = account.read("describe_instances", "listing instances", again=again, **which)
    return [one for some in answer["Reservations"] for one in some["Instances"]]


def list_standing(account: Account, ids: Sequence[str]) -> list[Facts]:
    """List those of the instances that still run. Raises ProviderError."""
    end = time.monotonic() + account.waits.gone_s

    def again(error: Exception) -> bool:
        late = ERRORS.is_gone(error) and time.monotonic() < end
        return late or ERRORS.is_transient(error)

    try:
        found = _list(account, again, InstanceIds=list(ids))
    except NotFoundError:  # some were taken back, and forgotten since, as those of spot are
        found = _list(account, ERRORS.is_transient, Filters=where(instance_id=ids))
    return [one for one in found if one["State"]["Name"] not in _ENDED]


def _failed(spec: InstanceSpec, facts: Facts) -> ProviderError:
    reason = facts.get("StateReason", {})
    kind = CapacityError if reason.get("Code") in _NO_ROOM else BootError
    return kind(
        f"the instance ended at once: {reason.get('Message') or facts['State']['Name']}",
        where=spec.request.name,
        cure="use another zone or instance type, or look at the reason in the EC2 console",
    )
