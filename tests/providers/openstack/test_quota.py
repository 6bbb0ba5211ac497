"""What a plan needs of the quotas, and quotas of which a cloud does not tell all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from osmef.errors import QuotaError
from osmef.providers.base import EndpointRequest
from osmef.providers.openstack.access import open_cloud
from osmef.providers.openstack.lookup import (
    FlavorInfo,
    ResolvedBootSource,
    ResolvedNames,
    check_quotas,
    needs_of,
)
from osmef.providers.openstack.provider import OpenStackProvider
from osmef.scenario.clouds.openstack import OpenStackSettings
from osmef.scenario.fields import EndpointKind, FlavorNeed
from tests.providers.openstack.keystone import entry, keystone, write_cloud

SIZES: dict[str | FlavorNeed | None, FlavorInfo] = {
    "small": FlavorInfo("small", 1, 512, 1, "1"),
    "large": FlavorInfo("large", 8, 4096, 1, "2"),
}
NETWORK = {"networks": {"limit": 100, "used": 0, "reserved": 0}, "ports": {"limit": -1}}


def server(name: str, flavor: str, host: str, tenant: str = "tenant-1") -> EndpointRequest:
    return EndpointRequest(name, "sender", EndpointKind.VM, flavor, host, tenant)


def need(*requests: EndpointRequest, boot: dict[str, Any] | None = None) -> dict[str, int]:
    settings = OpenStackSettings.model_validate({"boot": boot or {"image": "i"}})
    source = ResolvedBootSource(*(("volume", "v", 7) if boot else ("image", "i")))
    names = ResolvedNames(source, SIZES, None, "ext", (), (), ())
    return needs_of(settings, names, "tenant-1", requests)


@pytest.mark.parametrize("boot", [None, {"volume": "v"}])
def test_a_server_that_may_be_recreated_needs_quota_for_its_replacement(
    boot: dict[str, Any] | None,
) -> None:
    """One at a time, so there must be room for the largest of them, once."""
    plain = [server("a", "small", "host-1"), server("b", "large", "host-1")]
    moving = [replace(one, movable=True) for one in plain]
    before, after = need(*plain, boot=boot), need(*moving, boot=boot)
    more = {key: after[key] - before[key] for key in after if after[key] != before[key]}
    room = {"instances": 1, "cores": 8, "ram (MiB)": 4096, "ports": 1, "floating IPs": 1}
    volumes = {"volumes": 1, "volume space (GiB)": 7} if boot else {}
    assert more == {**room, "members of a server group": 1, **volumes}


def test_the_security_group_admits_the_old_and_the_new_server_of_another_tenant() -> None:
    plain = [server("a", "small", "host-1"), server("b", "small", "host-2", "tenant-2")]
    moving = [plain[0], replace(plain[1], movable=True)]
    rules = [need(*some)["security group rules"] for some in (plain, moving)]
    assert rules[1] - rules[0] == 2  # TCP and UDP
    assert need(*moving)["instances"] == 1


@contextmanager
def quotas(limits: dict[str, int], network: dict[str, Any]) -> Iterator[str]:
    """Run a cloud of these quotas, with an image, a flavor and an external network."""
    flavor = {"id": "1", "name": "small", "vcpus": 1, "ram": 512, "disk": 1}
    image = {"id": "i", "name": "i", "status": "active"}
    outside = {"id": "e", "name": "ext", "router:external": True}
    said: dict[str, dict[str, Any]] = {
        "compute": {
            "limits": {"limits": {"rate": [], "absolute": limits}},
            "os-keypairs": {"keypairs": []},
            "flavors": {"flavors": [flavor]},
        },
        "image": {"images": {"images": [image]}},
        "network": {
            "quotas": {"quota": network},
            "networks": {"networks": [outside]},
            "subnets": {"subnets": []},
        },
        "block-storage": {"limits": {"limits": {"rate": [], "absolute": limits}}},
    }

    def answer(kind: str, _method: str, path: str) -> tuple[int, Any] | None:
        found = said[kind].get(re.split("[/?]", path)[0])
        return None if found is None else (200, found)

    with keystone(answers={kind: partial(answer, kind) for kind in said}) as url:
        yield url


@pytest.mark.parametrize(
    ("limits", "network", "lacking"),
    [
        ({}, {}, None),
        ({"maxTotalInstances": 5}, NETWORK, None),
        ({"maxTotalInstances": 5, "totalInstancesUsed": 4}, NETWORK, "2 instances"),
        ({"maxServerGroups": 1}, {"ports": 7}, "2 server groups"),
        ({"totalServerGroupsUsed": 10, "maxServerGroupMembers": -1}, NETWORK, None),
        ({}, {"ports": {"limit": 2, "used": None}}, "4 ports"),
        ({"maxTotalVolumes": 3, "totalVolumesUsed": 2}, {}, r"2 volumes \(quota 3, in use 2\)"),
        ({"maxTotalVolumes": -1, "maxTotalVolumeGigabytes": 8}, {}, r"9 volume space \(GiB\)"),
    ],
)
def test_quotas_that_a_cloud_does_not_report_are_ignored(
    clouds: Path, limits: dict[str, int], network: dict[str, Any], lacking: str | None
) -> None:
    wanted = {"instances": 2, "server groups": 2, "members of a server group": 2, "ports": 4}
    wanted |= {"volumes": 2, "volume space (GiB)": 9}
    with quotas(limits, network) as url:
        write_cloud(clouds, url, "p1")
        cloud = open_cloud({"cloud": "lab"})
        if lacking is None:
            check_quotas(cloud, wanted)
        else:
            with pytest.raises(QuotaError, match=lacking):
                check_quotas(cloud, wanted)


NEW = {"instances": 10, "server_groups": -1}


@pytest.mark.parametrize(
    ("wanted", "lacking"),
    [
        ({"instances": 10, "server groups": 99, "cores": 99, "volumes": 3, "networks": 9}, None),
        ({"instances": 11}, r"11 instances \(quota 10, in use 0\)"),
        ({"security groups": 1}, r"1 security groups \(quota 1, in use 1\)"),
        ({"security group rules": 7}, r"7 security group rules \(quota 10, in use 4\)"),
        ({"volumes": 4}, r"4 volumes \(quota 3, in use 0\)"),
    ],
)
def test_a_new_project_has_the_default_quotas_and_a_group_of_neutrons(
    clouds: Path, wanted: dict[str, int], lacking: str | None
) -> None:
    said: dict[str, dict[str, Any]] = {
        "compute": {
            "os-quota-sets/p1/defaults": {"quota_set": {"id": "p1", **NEW}},
            "os-keypairs": {"keypairs": []},
        },
        "network": {
            "quotas/p1/default": {"quota": {"security_group": 1, "security_group_rule": 10}}
        },
        "block-storage": {"os-quota-sets/p1/defaults": {"quota_set": {"id": "p1", "volumes": 3}}},
    }

    def answer(kind: str, _method: str, path: str) -> tuple[int, Any] | None:
        found = said[kind].get(path.partition("?")[0])
        return None if found is None else (200, found)

    with keystone(answers={kind: partial(answer, kind) for kind in said}) as url:
        write_cloud(clouds, url, "p1")
        cloud = open_cloud({"cloud": "lab"})
        if lacking is None:
            check_quotas(cloud, wanted, made=True)
        else:
            with pytest.raises(QuotaError, match=lacking):
                check_quotas(cloud, wanted, made=True)


@pytest.mark.parametrize("user", ["alice", "bob"])
def test_two_projects_of_one_user_need_two_of_its_key_pairs(clouds: Path, user: str) -> None:
    asked = {"projects": {"a": "red", "b": "blue"}, "boot": {"image": "i"}}
    provider = OpenStackProvider(OpenStackSettings.model_validate(asked))
    wanted = [server("a", "small", "host-1"), server("b", "small", "host-2", "tenant-2")]
    with quotas({"maxTotalKeypairs": 1}, {}) as url:
        both = {"red": entry(url, "p1", "alice"), "blue": entry(url, "p2", user)}
        clouds.write_text(json.dumps({"clouds": both}))
        if user == "bob":
            provider.check(wanted)
        else:
            with pytest.raises(QuotaError, match=r"2 key pairs \(quota 1, in use 0\)"):
                provider.check(wanted)
