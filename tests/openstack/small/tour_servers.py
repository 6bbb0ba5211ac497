"""The part of the tour that is about nova's servers."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tests.openstack.small.talk import Talk
from tests.openstack.small.tour_networks import (
    ADDRESSES,
    NETWORKS,
    NOWHERE,
    PORTS,
    ROUTERS,
    SUBNETS,
)
from tests.openstack.small.tour_networks import GROUPS as SECURITY

Failing = Callable[[str], AbstractContextManager[None]]
"""Has servers fail on hosts: a pattern for "HOST FLAVOR NAME"."""
SERVERS, KEYPAIRS, GROUPS = "compute /servers", "compute /os-keypairs", "compute /os-server-groups"
PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFmYuZmlJTZ0q6K+JNXpdtmWgqcMr8opDwU1v0ESi+VV tour"
_CONSOLE: dict[str, dict[str, str]] = {"os-getConsoleOutput": {}}
_FORCE = {"forceDelete": None}


class Servers:
    """Servers in the network of the tour, from asking for one to its end."""

    def __init__(self, talk: Talk, failing: Failing) -> None:
        self.talk, self.ids, self.failing = talk, talk.ids, failing

    def quotas(self) -> None:
        """Have the quotas of compute stand in the way."""
        with self.quota(server_groups=1):
            body = {"server_group": {"name": "more", "policy": "affinity"}}
            self.talk("compute: a group too many", "alice", "POST", GROUPS, body)
        with self.quota(key_pairs=1):
            key = {"keypair": {"name": "more", "public_key": PUBLIC}}
            self.talk("compute: a key too many", "alice", "POST", KEYPAIRS, key)
        with self.quota(server_group_members=0):
            self.refused("too many in a group", hints={"group": self.ids["group"]})
        with self.quota(instances=0, ram=0):
            self.refused("too many of two kinds")
        for name in ("instances", "cores", "ram"):
            with self.quota(**{name: 0}):
                self.refused(f"too many {name}")

    @contextmanager
    def quota(self, **limits: int) -> Iterator[None]:
        path = f"compute /os-quota-sets/{self.ids['project alice']}"
        body = {"quota_set": {**limits, "force": True}}
        status, _, answer = self.talk.ask("admin", "PUT", path, body)
        assert status == 200, answer
        try:
            yield
        finally:
            self.talk.ask("admin", "DELETE", path)

    def body(self, **other: Any) -> dict[str, Any]:
        """Return the request for a server, as the provider makes it."""
        ids = self.ids
        hints = {"os:scheduler_hints": other.pop("hints")} if "hints" in other else {}
        usual = {
            "name": "tour-1",
            "flavorRef": ids["m1.tiny"],
            "imageRef": ids["image"],
            "networks": [{"uuid": ids["net"]}],
            "key_name": "tour",
            "metadata": {"tour": "yes"},
            "security_groups": [{"name": ids["security"]}],
            "user_data": base64.b64encode(b"#cloud-config\n{}\n").decode(),
        }
        return {"server": {**usual, **other}, **hints}

    def refused(self, what: str, **other: Any) -> None:
        """Ask for a server that the cloud refuses at once."""
        body = self.body(**other)
        self.talk(f"servers: {what}", "alice", "POST", SERVERS, body)

    def go(self) -> None:
        talk, ids = self.talk, self.ids
        self.refused("no image", imageRef=NOWHERE)
        self.refused("no flavor", flavorRef=NOWHERE)
        self.refused("no network", networks=[{"uuid": NOWHERE}])
        self.refused("no key", key_name="nowhere")
        self.refused("no security group", security_groups=[{"name": NOWHERE}])
        self.refused("no zone", availability_zone="nowhere")
        self.refused("no group", hints={"group": NOWHERE})
        self.refused("a host for a member", host="cmp1")
        self.refused("a host in a zone for a member", availability_zone="az1:cmp1")
        key = self.made("making one", hints={"group": ids["group"]}, name="tour-1-apart")
        path = f"{SERVERS}/{key}"
        self.settled(key)
        ids["server"] = key
        for user in ("alice", "admin"):
            talk(f"servers: one for {user}", user, "GET", path)
        talk("servers: one for another", "bob", "GET", path)
        talk("servers: none", "alice", "GET", f"{SERVERS}/{NOWHERE}")
        lists = {
            "list": "",
            "details": "/detail",
            "of a name": "?name=%5Etour-1",
            "of no name": "?name=%5Enowhere",
            "that run": "?name=%5Etour&status=ACTIVE",
            "that are built": "?status=BUILD",
            "of no status": "?status=NOWHERE",
            "one a page": "?limit=1",
            "after the last": f"?marker={key}",
            "after none": f"?marker={NOWHERE}",
        }
        for name, query in lists.items():
            talk(f"servers: {name}", "alice", "GET", f"{SERVERS}{query}")
        every = f"{SERVERS}/detail?all_tenants=True"
        talk("servers: of all for an administrator", "admin", "GET", every)
        talk("servers: of all for a member", "alice", "GET", every)
        talk("compute: members of a group", "alice", "GET", GROUPS)
        talk("compute: limits in use", "alice", "GET", "compute /limits")
        talk("servers: console", "alice", "POST", f"{path}/action", _CONSOLE)
        none = f"{SERVERS}/{NOWHERE}/action"
        talk("servers: console of none", "alice", "POST", none, _CONSOLE)
        self.addresses(key)
        self.errors()

    def made(self, what: str, user: str = "alice", **other: Any) -> str:
        body = self.body(**other)
        found = self.talk(f"servers: {what}", user, "POST", SERVERS, body)
        return str(found["server"]["id"])

    def settled(self, key: str, user: str = "alice") -> Any:
        """Wait until nova is done with a server, and with what it says of it."""

        def look() -> Any:
            _, _, answer = self.talk.ask(user, "GET", f"{SERVERS}/{key}")
            server = answer["server"]
            told = server["status"] != "ERROR" or "fault" in server
            return server if told and server["status"] != "BUILD" else None

        return self.talk.until(look)

    def addresses(self, server: str) -> None:
        talk, ids = self.talk, self.ids
        ports = f"{PORTS}?device_id={server}"
        found = talk("network: ports of a server", "alice", "GET", ports)["ports"]
        ips = ADDRESSES
        body = {"floating_network_id": ids["ext"], "port_id": found[0]["id"], "description": "d"}
        made = talk("network: an address", "alice", "POST", ips, {"floatingip": body})
        twice = {"floatingip": {**body, "port_id": found[0]["id"]}}
        talk("network: another for the same port", "alice", "POST", ips, twice)
        inner = {"floatingip": {**body, "floating_network_id": ids["net"]}}
        talk("network: an address of the inside", "alice", "POST", ips, inner)
        lost = {"floatingip": {**body, "port_id": NOWHERE}}
        talk("network: an address for nothing", "alice", "POST", ips, lost)
        key = made["floatingip"]["id"]
        talk.until(
            lambda: talk.ask("alice", "GET", f"{ips}/{key}")[2]["floatingip"]["status"] == "ACTIVE"
        )
        talk("network: our addresses", "alice", "GET", f"{ips}?project_id={ids['project alice']}")
        in_use = f"{ROUTERS}/{ids['router']}/remove_router_interface"
        talk("network: leaving too early", "alice", "PUT", in_use, {"port_id": ids["interface"]})
        talk(
            "network: a group in use",
            "alice",
            "DELETE",
            f"{SECURITY}/{ids['security']}",
        )
        talk("network: giving it back", "alice", "DELETE", f"{ips}/{key}")
        talk("network: giving back none", "alice", "DELETE", f"{ips}/{key}")

    def errors(self) -> None:
        talk = self.talk
        with self.failing("tour-fails"):
            key = self.made("one that fails on all hosts", name="tour-fails")
            alone = self.made(
                "one that fails on the only host", name="tour-fails", availability_zone="az2"
            )
            self.settled(key)
            self.settled(alone)
        talk("servers: one that failed", "alice", "GET", f"{SERVERS}/{key}")
        failed = f"{SERVERS}/detail?name=%5Etour-fails"
        talk("servers: those that failed", "alice", "GET", failed)
        talk("servers: one that failed on its only host", "alice", "GET", f"{SERVERS}/{alone}")
        # A group of its own: the other one's server may be on the only host of this zone.
        body = {"server_group": {"name": "tour-alone", "policy": "anti-affinity"}}
        group = talk.ask("alice", "POST", GROUPS, body)[2]["server_group"]["id"]
        there: dict[str, Any] = {"hints": {"group": group}, "availability_zone": "az2"}
        other = self.made("one with no host left", name="tour-2", **there)
        server = self.settled(other)
        assert server["status"] == "ACTIVE", server.get("fault")
        more = self.made("one more with no host left", name="tour-3", **there)
        self.settled(more)
        talk("servers: one on no host", "alice", "GET", f"{SERVERS}/{more}")
        talk(
            "servers: one on no host for an administrator",
            "admin",
            "GET",
            f"{SERVERS}/{more}",
        )
        talk(
            "servers: console of one on no host",
            "alice",
            "POST",
            f"{SERVERS}/{more}/action",
            _CONSOLE,
        )
        for name, one in (
            ("failed", key),
            ("failed at once", alone),
            ("stands", other),
            ("is nowhere", more),
        ):
            path = f"{SERVERS}/{one}/action"
            talk(
                f"servers: taking away one that {name}",
                "alice",
                "POST",
                path,
                _FORCE,
            )
        self.gone(key, alone, other, more)
        talk.ask("alice", "DELETE", f"{GROUPS}/{group}")
        talk(
            "servers: taking away what is gone",
            "alice",
            "POST",
            f"{SERVERS}/{key}/action",
            _FORCE,
        )
        talk("servers: deleting what is gone", "alice", "DELETE", f"{SERVERS}/{key}")

    def gone(self, *keys: str) -> None:
        def look() -> bool:
            _, _, answer = self.talk.ask("alice", "GET", SERVERS)
            return not {one["id"] for one in answer["servers"]} & set(keys)

        self.talk.until(look)

    def destroy(self) -> None:
        """Delete all servers of the tour, in whatever state they are, and its group and key."""
        _, _, answer = self.talk.ask("alice", "GET", f"{SERVERS}?name=%5Etour")
        for one in answer["servers"]:
            self.talk.ask("alice", "POST", f"{SERVERS}/{one['id']}/action", _FORCE)
        self.gone(*(one["id"] for one in answer["servers"]))
        self.talk.ask("alice", "DELETE", f"{GROUPS}/{self.ids['group']}")
        self.talk.ask("alice", "DELETE", f"{KEYPAIRS}/tour")

    def hosts(self) -> None:
        """Have an administrator name the host."""
        talk, ids = self.talk, self.ids
        mine = {"security_groups": [{"name": "default"}], "key_name": None}
        body = self.body(host="cmp2", name="tour-host", **mine)
        del body["server"]["key_name"]
        network = {"network": {"name": "tour-admin"}}
        made = talk("network: making a network as admin", "admin", "POST", NETWORKS, network)
        ids["admin-net"] = made["network"]["id"]
        subnet = {
            "subnet": {"network_id": ids["admin-net"], "ip_version": 4, "cidr": "10.8.0.0/24"}
        }
        talk("network: making a subnet as admin", "admin", "POST", SUBNETS, subnet)
        body["server"]["networks"] = [{"uuid": ids["admin-net"]}]
        made = talk("servers: one on a host", "admin", "POST", SERVERS, body)
        key = made["server"]["id"]
        assert self.settled(key, "admin")["OS-EXT-SRV-ATTR:host"] == "cmp2"
        talk("servers: one on a host, seen", "admin", "GET", f"{SERVERS}/{key}")
        (port,) = talk.ask("admin", "GET", f"{PORTS}?device_id={key}")[2]["ports"]
        body_ip = {"floating_network_id": ids["ext"], "port_id": port["id"]}
        talk(
            "network: an address without a way",
            "admin",
            "POST",
            ADDRESSES,
            {"floatingip": body_ip},
        )
        nowhere = {"server": {**body["server"], "host": "nowhere"}}
        talk("servers: one on no such host", "admin", "POST", SERVERS, nowhere)
        forced = {"server": {**body["server"], "availability_zone": "az2:cmp3"}}
        del forced["server"]["host"]
        made = talk("servers: one forced to a host", "admin", "POST", SERVERS, forced)
        assert self.settled(made["server"]["id"], "admin")["OS-EXT-SRV-ATTR:host"] == "cmp3"
        for one in (key, made["server"]["id"]):
            talk.ask("admin", "DELETE", f"{SERVERS}/{one}")
        talk.until(
            lambda: (
                talk.ask("admin", "GET", f"{PORTS}?network_id={ids['admin-net']}")[2]["ports"] == []
            )
        )

    def clear(self) -> None:
        """Delete what is left, and what servers were made of."""
        talk, ids = self.talk, self.ids
        talk("servers: deleting one", "alice", "DELETE", f"{SERVERS}/{ids['server']}")
        self.gone(ids["server"])
        talk("compute: deleting a group", "alice", "DELETE", f"{GROUPS}/{ids['group']}")
        talk("compute: deleting a key", "alice", "DELETE", f"{KEYPAIRS}/tour")
