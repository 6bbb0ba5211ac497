"""The cloud of the tests is what the providers take it for."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from keystoneauth1.exceptions import ConnectFailure
from openstack import exceptions
from openstack.config import OpenStackConfig
from openstack.connection import Connection

from osmef.remote.login import KeyPair
from tests.openstack.calls import recorded
from tests.openstack.cloud import Cloud
from tests.openstack.faults import calls_fail, guests_hang, hosts_fail
from tests.waiting import until

pytestmark = [
    pytest.mark.timeout(900),  # the first test waits for the cloud
    # The SDK's own code uses what it will remove.
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]
WAIT = {"wait": 240, "interval": 0.3}


class Tenant:
    """A user with a network, and all servers on it; gone at the end."""

    def __init__(self, cloud: Cloud, name: str) -> None:
        self.cloud = cloud
        self.api = connect(cloud, name)
        self.key = KeyPair.generate(name)
        self.servers: list[Any] = []
        compute, network = self.api.compute, self.api.network
        self.outside = network.find_network("ext")
        self.flavor, self.image = compute.find_flavor("m1.tiny"), self.api.image.find_image("guest")
        compute.create_keypair(name="lab", public_key=self.key.public)
        self.network = network.create_network(name="lab")
        # Both tenants use the same addresses.
        subnet = {"ip_version": 4, "cidr": "10.1.0.0/24"}
        self.subnet = network.create_subnet(network_id=self.network.id, **subnet)
        gateway = {"network_id": self.outside.id}
        self.router = network.create_router(name="lab", external_gateway_info=gateway)
        network.add_interface_to_router(self.router, subnet_id=self.subnet.id)
        self.group = network.create_security_group(name="lab")

    def allow(self, port: int) -> Any:
        rule = {"direction": "ingress", "protocol": "tcp", "port_range_min": port}
        return self.api.network.create_security_group_rule(
            security_group_id=self.group.id, port_range_max=port, **rule
        )

    def boot(self, number: int = 1, **more: Any) -> list[Any]:
        """Start servers, and return them once nova has made up its mind."""
        wanted = {
            "flavor_id": self.flavor.id,
            "image_id": self.image.id,
            "networks": [{"uuid": self.network.id}],
            "security_groups": [{"name": self.group.id}],
            "key_name": "lab",
            **more,
        }
        made = [self.api.compute.create_server(name=f"s{i}", **wanted) for i in range(number)]
        self.servers += made
        with ThreadPoolExecutor(number) as pool:
            return list(pool.map(self.settled, made))

    def settled(self, server: Any) -> Any:
        try:
            return self.api.compute.wait_for_server(server, **WAIT)
        except exceptions.ResourceFailure:
            return self.api.compute.get_server(server.id)

    def floating(self, server: Any) -> str:
        port = next(self.api.network.ports(device_id=server.id))
        made = self.api.network.create_ip(floating_network_id=self.outside.id, port_id=port.id)
        return str(made.floating_ip_address)

    def clear(self) -> None:
        for made in self.api.network.ips():
            self.api.network.delete_ip(made)
        for server in self.servers:
            self.api.compute.delete_server(server)

    def close(self) -> None:
        compute, network = self.api.compute, self.api.network
        for server in self.servers:
            compute.wait_for_delete(server, **WAIT)
        network.delete_security_group(self.group)
        network.remove_interface_from_router(self.router, subnet_id=self.subnet.id)
        network.delete_router(self.router)
        network.delete_network(self.network)
        compute.delete_keypair("lab")
        self.api.close()


def connect(cloud: Cloud, name: str, **more: Any) -> Any:
    config = OpenStackConfig(config_files=[str(cloud.clouds_yaml)], load_envvars=False)
    return Connection(config=config.get_one(cloud=name, **more))


def ssh(cloud: Cloud, key: Path, address: str, command: str) -> str:
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "ConnectTimeout=20"]
    options += ["ConnectionAttempts=20", "LogLevel=ERROR", "IdentitiesOnly=yes"]
    argv = [*cloud.inside, "ssh", "-i", str(key), *(f"-o{option}" for option in options)]
    done = subprocess.run(
        [*argv, f"debian@{address}", command], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def admin(openstack_cloud: Cloud) -> Iterator[Any]:
    with connect(openstack_cloud, "admin") as api:
        yield api


@pytest.fixture(scope="module")
def tenants(openstack_cloud: Cloud) -> Iterator[dict[str, Tenant]]:
    made = {name: Tenant(openstack_cloud, name) for name in ("alice", "bob")}
    yield made
    for tenant in made.values():
        tenant.close()


@pytest.fixture
def alice(tenants: dict[str, Tenant]) -> Iterator[Tenant]:
    yield tenants["alice"]
    tenants["alice"].clear()


@pytest.fixture
def bob(tenants: dict[str, Tenant]) -> Iterator[Tenant]:
    yield tenants["bob"]
    tenants["bob"].clear()


def hosts(admin: Any, servers: list[Any]) -> list[str]:
    return [admin.compute.get_server(server.id).compute_host for server in servers]


def test_affinity_and_its_opposite_are_kept(alice: Tenant, admin: Any) -> None:
    for policy, different in (("affinity", 1), ("anti-affinity", 2)):
        group = alice.api.compute.create_server_group(name=policy, policy=policy)
        servers = alice.boot(2, scheduler_hints={"group": group.id})
        assert {server.status for server in servers} == {"ACTIVE"}
        assert len(set(hosts(admin, servers))) == different
        assert len({server.host_id for server in servers}) == different  # what anyone can see
        alice.api.compute.delete_server_group(group)


def test_servers_are_placed_in_their_availability_zone(alice: Tenant, admin: Any) -> None:
    assert hosts(admin, alice.boot(availability_zone="az2")) == ["cmp3"]
    assert hosts(admin, alice.boot(availability_zone="az1"))[0] in ("cmp1", "cmp2")


def test_a_member_may_not_force_a_host(alice: Tenant) -> None:
    with pytest.raises(exceptions.ForbiddenException):
        alice.boot(availability_zone="az1:cmp2")


def test_tenants_do_not_see_each_other(alice: Tenant, bob: Tenant) -> None:
    (server,) = alice.boot()
    assert bob.api.compute.find_server(server.id) is None


def test_a_wrong_password_is_refused(openstack_cloud: Cloud) -> None:
    stranger = connect(openstack_cloud, "alice", auth={"password": "wrong"})
    with pytest.raises(exceptions.SDKException, match="401"):
        stranger.authorize()


def test_quotas_are_in_force(alice: Tenant, admin: Any) -> None:
    project = admin.identity.find_project("alpha")
    usual = admin.compute.get_quota_set(project).cores
    admin.compute.update_quota_set(project, cores=0, force=True)
    with pytest.raises(exceptions.ForbiddenException, match="Quota exceeded"):
        alice.boot()
    admin.compute.update_quota_set(project, cores=usual)


def test_no_host_has_room(alice: Tenant, admin: Any) -> None:
    for service in admin.compute.services(binary="nova-compute"):
        admin.compute.disable_service(service)
    (server,) = alice.boot()
    for service in admin.compute.services(binary="nova-compute"):
        admin.compute.enable_service(service)
    assert server.status == "ERROR"
    assert "No valid host" in server.fault["message"]


def test_a_host_fails(alice: Tenant, openstack_cloud: Cloud) -> None:
    with hosts_fail(openstack_cloud, "m1.tiny"):
        (server,) = alice.boot()
    assert server.status == "ERROR"
    assert alice.boot()[0].status == "ACTIVE"


def test_two_tenants_reach_each_other_as_their_groups_allow(
    openstack_cloud: Cloud, alice: Tenant, bob: Tenant, tmp_path: Path
) -> None:
    for tenant, name in ((alice, "alice"), (bob, "bob")):
        path = tmp_path / name
        path.touch(mode=0o600)
        path.write_text(tenant.key.private)
        tenant.allow(22)
    (sender,), (receiver,) = alice.boot(user_data="IyEvYmluL3NoCmVjaG8gaGVyZQo="), bob.boot()
    at, to = alice.floating(sender), bob.floating(receiver)
    assert "s0" in ssh(openstack_cloud, tmp_path / "alice", at, "hostname")
    assert "s0" in ssh(openstack_cloud, tmp_path / "bob", to, "hostname")
    knock = f"timeout 2 bash -c 'exec 3<>/dev/tcp/{to}/22; head -c 4 <&3'"
    assert "SSH-" in ssh(openstack_cloud, tmp_path / "alice", at, knock)
    console = alice.api.compute.get_server_console_output(sender.id)["output"]
    assert "-----BEGIN SSH HOST KEY KEYS-----\nssh-ed25519 " in console
    assert "here" in console  # the user-data ran
    rules = bob.api.network.security_group_rules(security_group_id=bob.group.id, protocol="tcp")
    for rule in list(rules):
        bob.api.network.delete_security_group_rule(rule)
    until = f"for i in $(seq 30); do {knock} >&2 || {{ echo closed; break; }}; done"
    assert "closed" in ssh(openstack_cloud, tmp_path / "alice", at, until)


def test_a_guest_hangs(alice: Tenant, openstack_cloud: Cloud) -> None:
    with guests_hang(openstack_cloud):
        (server,) = alice.boot()
    assert server.status == "ACTIVE"
    console = alice.api.compute.get_server_console_output(server.id)["output"]
    assert "Kernel panic" in console
    assert "KEYS" not in console


def test_calls_are_counted_and_fail_on_demand(alice: Tenant, openstack_cloud: Cloud) -> None:
    with recorded(openstack_cloud) as calls:
        list(alice.api.compute.servers())
    assert [(c.service, c.method, c.status) for c in calls] == [("nova-api", "GET", 200)]
    with (
        calls_fail(openstack_cloud, "nova-api", "GET .*/servers", 500),
        pytest.raises(exceptions.HttpException),
    ):
        list(alice.api.compute.servers())
    with (
        calls_fail(openstack_cloud, "neutron-server", "POST .*/networks", "lose"),
        pytest.raises(ConnectFailure),
    ):
        alice.api.network.create_network(name="lost")
    made = alice.api.network.find_network("lost")
    alice.api.network.delete_network(made, ignore_missing=False)


def test_a_service_stops_and_comes_back(alice: Tenant, openstack_cloud: Cloud) -> None:
    openstack_cloud.processes.stop("nova-api")
    with pytest.raises(exceptions.HttpException, match="503"):
        list(alice.api.compute.flavors())
    openstack_cloud.restart("nova-api")
    assert list(alice.api.compute.flavors())


def test_all_processes_end_with_the_emulated_cloud(tmp_path: Path) -> None:
    """What was started ends by pid, also what it left behind, and nothing is left of it."""
    cloud = Cloud(tmp_path / "state")
    script = "sleep 600 & echo $!; exec sleep 600"
    cloud.processes.start("parent", ["sh", "-c", script], dict(os.environ))
    output = tmp_path / "state/log/parent.out"
    cloud.processes.wait("parent", 20, lambda: output.read_text().endswith("\n"))
    child = Path(f"/proc/{output.read_text().strip()}/cmdline")
    until(lambda: "600" in child.read_text())  # it has none while it becomes another program
    cloud.processes.pause("parent")
    cloud.down(purge=True)
    assert not child.exists() or not child.read_text()  # a zombie has no command line
    assert not (tmp_path / "state").exists()
