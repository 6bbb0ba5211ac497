"""A machine of the inventory on a network that is there, beside servers on that network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import openstack
import pytest

from osmef.providers.cloud_init import host_keys
from osmef.remote.login import KeyPair
from tests.providers.openstack.lab import Lab
from tests.waiting import until

pytestmark = pytest.mark.timeout(1200)  # the first test waits for the cloud


@pytest.fixture
def box(lab: Lab, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A machine on the network "lan", as an entry of an inventory; none of ours, and it stays."""
    with ExitStack() as last, openstack.connect(cloud="alice") as api:
        outside = next(one for one in api.network.networks() if one.is_router_external)
        network = api.network.create_network(name="lan")
        last.callback(api.network.delete_network, network)
        # Those of servers may go some time after these, on a busy machine.
        last.callback(until, lambda: not list(api.network.ports(network_id=network.id)))
        subnet = api.network.create_subnet(network_id=network.id, ip_version=4, cidr="10.77.0.0/24")
        router = api.network.create_router(external_gateway_info={"network_id": outside.id})
        last.callback(api.network.delete_router, router)
        api.network.add_interface_to_router(router, subnet.id)
        last.callback(api.network.remove_interface_from_router, router, subnet.id)
        group = api.network.create_security_group(name="box")
        last.callback(api.network.delete_security_group, group)
        api.network.create_security_group_rule(
            security_group_id=group.id, direction="ingress", protocol="tcp"
        )
        key = KeyPair.generate("box")
        api.compute.create_keypair(name="box", public_key=key.public)
        last.callback(api.compute.delete_keypair, "box")
        server = api.compute.create_server(
            name="box",
            image_id=next(api.image.images(name="guest")).id,
            flavor_id=next(f.id for f in api.compute.flavors() if f.name == "m1.tiny"),
            networks=[{"uuid": network.id}],
            key_name="box",
            security_groups=[{"name": group.id}],
        )
        last.callback(until, lambda: api.compute.find_server(server.id) is None)
        last.callback(api.compute.delete_server, server)
        until(lambda: bool(console(api, server)))
        port = next(api.network.ports(device_id=server.id))
        floating = api.network.create_ip(floating_network_id=outside.id, port_id=port.id)
        last.callback(api.network.delete_ip, floating)
        address = floating.floating_ip_address
        (tmp_path / "known").write_text(f"{address} {console(api, server)[0]}\n")
        (tmp_path / "key").write_text(key.private)
        yield {
            "ssh": f"debian@{address}",
            "identity": str(tmp_path / "key"),
            "known_hosts": str(tmp_path / "known"),
            "data_address": port.fixed_ips[0]["ip_address"],
        }
        assert api.compute.get_server(server.id).status == "ACTIVE"
    assert lab.owned() == []


def console(api: Any, server: Any) -> list[str]:
    if api.compute.get_server(server.id).status != "ACTIVE":
        return []
    return host_keys(api.compute.get_server_console_output(server.id)["output"])


def test_a_host_on_the_network_of_the_servers_measures_there(lab: Lab, box: dict[str, Any]) -> None:
    """By way of the floating address it would arrive under another one, and be shut out."""
    scenario = lab.write(
        network="lan",
        reach="floating",
        hosts={"box": box},
        endpoints={"sender": {"kind": "host"}, "receiver": {"kind": "vm"}},
        placement="any",
    )
    ended = lab("run", scenario)
    assert ended.code == 0, ended.err
    assert [cell["n_ok"] for cell in lab.osmef.summary["cells"]] == [1]
