"""Make the cloud's accounts and services (step 1), then what users find in it (step 2).

populate.py services|hosts GIVEN: the latter is JSON with the services' urls in each region, the
hosts with their zones; and, where there are real hypervisors, the network agents to wait for, and
the image of their guests. What is there already is kept.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import openstack

from tests.openstack.settings import EXTERNAL, FLAVORS

TYPES = {"placement": "placement", "glance-api": "image", "nova-api": "compute"}
TYPES |= {"neutron-server": "network", "cinder-api": "volumev3"}
READY_S = 90.0


def main() -> None:
    """Do one step as the cloud's administrator."""
    step, given = sys.argv[1], json.loads(sys.argv[2])
    cloud: Any = openstack.connect(cloud="admin")
    if step == "services":
        add_accounts(cloud)
        for region, urls in given["regions"].items():
            register(cloud.identity, region, urls)
        add_members(cloud)
    else:
        await_hosts(cloud, set(given["hosts"]))
        await_agents(cloud, set(given.get("agents", ())))
        make_zones(cloud, given["hosts"])
        if cloud.image.find_image("guest") is None:
            upload(cloud.image, given.get("image"))
        furnish(cloud)


def add_accounts(cloud: Any) -> None:
    """Give each service an account."""
    identity = cloud.identity
    project = once(identity.find_project, identity.create_project, "service", domain_id="default")
    roles = [once(identity.find_role, identity.create_role, name) for name in ("admin", "service")]
    password = cloud.config.get_auth_args()["password"]
    for name in TYPES:
        account = name.split("-")[0]
        user = once(identity.find_user, identity.create_user, account, password=password)
        for role in roles:
            identity.assign_project_role_to_user(project, user, role)


def register(identity: Any, region: str, urls: dict[str, dict[str, str]]) -> None:
    """Tell keystone of the services in a region; its own address it knows."""
    if identity.find_region(region) is None:
        identity.create_region(id=region)
    for name, kind in ((name, kind) for name, kind in TYPES.items() if name in urls):
        service = first(identity.services(type=kind))
        service = service or identity.create_service(name=name.split("-")[0], type=kind)
        for interface, url in urls[name].items():
            known = {"service_id": service.id, "interface": interface, "region_id": region}
            if first(identity.endpoints(**known)) is None:
                identity.create_endpoint(url=url, **known)


def add_members(cloud: Any) -> None:
    """Make the users of clouds.yaml, members of a project each."""
    identity = cloud.identity
    clouds = json.loads(Path(os.environ["OS_CLIENT_CONFIG_FILE"]).read_text())["clouds"]
    member = identity.find_role("member")
    for auth in (clouds[name]["auth"] for name in clouds if name != "admin"):
        project = once(identity.find_project, identity.create_project, auth["project_name"])
        name, password = auth["username"], auth["password"]
        user = once(identity.find_user, identity.create_user, name, password=password)
        identity.assign_project_role_to_user(project, user, member)


def await_hosts(cloud: Any, hosts: set[str]) -> None:
    """Wait until every compute host is up, mapped to a cell and known to placement."""
    end = time.monotonic() + READY_S
    while True:
        up = {s.host for s in cloud.compute.services(binary="nova-compute") if s.state == "up"}
        mapped = {hypervisor.name for hypervisor in cloud.compute.hypervisors()}
        known = {provider.name for provider in cloud.placement.resource_providers()}
        if hosts <= up & mapped & known:
            return
        if time.monotonic() > end:
            sys.exit(f"hosts are missing: up {up}, mapped {mapped}, in placement {known}")
        time.sleep(0.5)


def await_agents(cloud: Any, agents: set[str]) -> None:
    """Wait until these network agents are alive, each given as PROGRAM@HOST."""
    end = time.monotonic() + READY_S
    while missing := agents - {
        f"{agent.binary}@{agent.host}" for agent in cloud.network.agents() if agent.is_alive
    }:
        if time.monotonic() > end:
            sys.exit(f"agents are missing: {missing}")
        time.sleep(0.5)


def make_zones(cloud: Any, hosts: dict[str, str]) -> None:
    """Put the hosts into their availability zones."""
    aggregates = {aggregate.name: aggregate for aggregate in cloud.compute.aggregates()}
    for host, zone in hosts.items():
        if zone not in aggregates:
            aggregates[zone] = cloud.compute.create_aggregate(name=zone, availability_zone=zone)
        if host not in (aggregates[zone].hosts or ()):
            aggregates[zone] = cloud.compute.add_host_to_aggregate(aggregates[zone], host)


def furnish(cloud: Any) -> None:
    """Make what a user needs for a server: flavors, and the network to the outside."""
    compute, network = cloud.compute, cloud.network
    for name, (vcpus, ram, disk) in FLAVORS.items():
        once(compute.find_flavor, compute.create_flavor, name, vcpus=vcpus, ram=ram, disk=disk)
    if network.find_network("ext") is None:
        where = {"provider_network_type": "flat", "provider_physical_network": "physnet1"}
        outside = network.create_network(name="ext", is_router_external=True, **where)
        network.create_subnet(
            network_id=outside.id, ip_version=4, cidr=EXTERNAL, enable_dhcp=False, name="ext"
        )


def upload(images: Any, bundle: dict[str, str] | None) -> None:
    """Make the image "guest": of a kernel, an initrd and a disk; or of noise that nobody boots."""
    if bundle is None:
        add_image(images, "guest", "raw", "bare", os.urandom(1 << 20))
        return
    loaded = {
        f"{key}_id": add_image(images, key, form, form, Path(bundle[key]).read_bytes()).id
        for key, form in (("kernel", "aki"), ("ramdisk", "ari"))
    }
    disk = Path(bundle["root"]).read_bytes()
    more = {"os_command_line": bundle["cmdline"], "hw_rng_model": "virtio"}
    add_image(images, "guest", "qcow2", "bare", disk, **loaded, **more)


def add_image(images: Any, name: str, disk: str, container: str, data: bytes, **more: str) -> Any:
    """Upload an image that all may use."""
    form = {"disk_format": disk, "container_format": container, "visibility": "public"}
    return images.create_image(name=name, data=data, **form, **more)


def once(find: Callable[..., Any], create: Callable[..., Any], name: str, **values: Any) -> Any:
    """Return what has this name, made if need be."""
    return find(name) or create(name=name, **values)


def first(found: Iterable[Any]) -> Any:
    """Return the first, or None."""
    return next(iter(found), None)


main()
