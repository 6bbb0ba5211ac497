"""A tour of the calls that the provider makes, and of what a cloud says when it refuses.

The same tour is made of the real services and of the small cloud, and both are to say the same.
"""

from __future__ import annotations

from pathlib import Path

from tests.openstack.cloud import Cloud
from tests.openstack.faults import hosts_fail
from tests.openstack.small.talk import Said, Talk
from tests.openstack.small.tour_networks import NOWHERE, Networks
from tests.openstack.small.tour_servers import GROUPS, KEYPAIRS, PUBLIC, Servers

NO_PROJECT = "0" * 32
RECORDED = Path(__file__).with_name("recorded.json")
"""What the real services said."""


def said_by(cloud: Cloud) -> dict[str, Said]:
    """Make the tour of a cloud with servers that answer, and return what it said."""
    talk = Talk(cloud.clouds_yaml)
    networks = Networks(talk)
    servers = Servers(talk, lambda pattern: hosts_fail(cloud, pattern))
    Tour(talk).go()
    networks.go()
    networks.quotas()
    try:
        servers.quotas()
        servers.go()
        servers.hosts()
        servers.clear()
    except BaseException:
        servers.destroy()  # other tests use the cloud, too
        raise
    networks.clear()
    return talk.said


class Tour:
    """The part of the tour that keystone, glance and nova answer, before there are servers.

    Each step may use what earlier ones made.
    """

    def __init__(self, talk: Talk) -> None:
        self.talk, self.ids = talk, talk.ids

    def go(self) -> None:
        self.identity()
        self.images()
        self.compute()

    def identity(self) -> None:
        talk, alice = self.talk, self.ids["project alice"]
        talk("identity: version", None, "GET", "identity ")
        tokens = "identity /auth/tokens"
        talk("identity: login", None, "POST", tokens, talk.login_of("alice"))
        wrong = talk.login_of("alice", password="wrong")  # noqa: S106
        talk("identity: wrong password", None, "POST", tokens, wrong)
        scope = {"project": {"id": alice}}
        talk("identity: project by id", None, "POST", tokens, talk.login_of("alice", scope=scope))
        for what, key in (("another's project", self.ids["project bob"]), ("no project", "x")):
            asked = talk.login_of("alice", scope={"project": {"id": key}})
            talk(f"identity: {what}", None, "POST", tokens, asked)
        self.credential()
        talk("identity: projects", "admin", "GET", "identity /projects")
        talk("identity: projects of that name", "admin", "GET", "identity /projects?name=alpha")
        talk("identity: projects for a member", "alice", "GET", "identity /projects")
        body = {"project": {"name": "tour", "description": "d", "domain_id": "default"}}
        talk("identity: making a project as a member", "alice", "POST", "identity /projects", body)
        made = talk("identity: making a project", "admin", "POST", "identity /projects", body)
        talk("identity: making it twice", "admin", "POST", "identity /projects", body)
        path = f"identity /projects/{made['project']['id']}"
        talk("identity: a project", "admin", "GET", path)
        talk("identity: no such project", "admin", "GET", f"identity /projects/{NO_PROJECT}")
        role = talk("identity: login as admin", None, "POST", tokens, talk.login_of("admin"))
        grant = f"{path}/users/{self.ids['user admin']}/roles/{role['token']['roles'][0]['id']}"
        talk("identity: taking a role", "admin", "PUT", grant)
        talk("identity: taking a role as a member", "alice", "PUT", grant)
        talk("identity: deleting a project", "admin", "DELETE", path)
        talk("identity: deleting no project", "admin", "DELETE", path)
        talk("identity: no token", None, "GET", "identity /projects")
        talk("identity: a token that is none", "nonsense", "GET", "identity /projects")

    def credential(self) -> None:
        """Make an application credential, and log in by it."""
        talk, user = self.talk, self.ids["user alice"]
        path = f"identity /users/{user}/application_credentials"
        body = {"application_credential": {"name": "tour", "secret": "s"}}
        made = talk("identity: making a credential", "alice", "POST", path, body)
        key = made["application_credential"]["id"]
        for what, secret in (("", "s"), (" with a wrong secret", "t")):
            who = {"id": key, "secret": secret}
            asked = {"methods": ["application_credential"], "application_credential": who}
            login = {"auth": {"identity": asked}}
            talk(
                f"identity: login by a credential{what}",
                None,
                "POST",
                "identity /auth/tokens",
                login,
            )
        talk("identity: deleting a credential", "alice", "DELETE", f"{path}/{key}")

    def images(self) -> None:
        talk = self.talk
        talk("image: versions", None, "GET", "image /")
        there = talk("image: list", "alice", "GET", "image /v2/images")
        self.ids["image"] = there["images"][0]["id"]
        talk("image: none of that name", "alice", "GET", "image /v2/images?name=gest")
        talk("image: one a page", "alice", "GET", "image /v2/images?limit=1")
        talk(
            "image: after the last", "alice", "GET", f"image /v2/images?marker={self.ids['image']}"
        )
        talk("image: one", "alice", "GET", f"image /v2/images/{self.ids['image']}")
        talk("image: no such one", "alice", "GET", f"image /v2/images/{NOWHERE}")
        talk("image: no token", None, "GET", "image /v2/images")

    def compute(self) -> None:
        talk = self.talk
        talk("compute: version", None, "GET", "compute ")
        talk("compute: no token", None, "GET", "compute /flavors/detail")
        talk("compute: no such version", "alice", "GET", "compute /flavors/detail", version="2.999")
        flavors = "compute /flavors/detail?is_public=None"
        there = talk("compute: flavors", "alice", "GET", flavors)["flavors"]
        self.ids |= {flavor["name"]: flavor["id"] for flavor in there}
        second = sorted(flavor["id"] for flavor in there)[1]
        for name, query in (("one", "limit=1"), ("the last", f"limit=1000&marker={second}")):
            talk(f"compute: flavors, {name}", "alice", "GET", f"compute /flavors/detail?{query}")
        talk(
            "compute: flavors after none",
            "alice",
            "GET",
            f"compute /flavors/detail?marker={NOWHERE}",
        )
        talk("compute: limits", "alice", "GET", "compute /limits")
        talk("compute: zones", "alice", "GET", "compute /os-availability-zone")
        hosts = "compute /os-services?binary=nova-compute"
        # A service that has just begun has reported nothing yet.
        talk.until(
            lambda: all(one["updated_at"] for one in talk.ask("admin", "GET", hosts)[2]["services"])
        )
        talk("compute: hosts", "admin", "GET", hosts)
        talk("compute: hosts for a member", "alice", "GET", hosts)
        quotas = f"compute /os-quota-sets/{self.ids['project alice']}"
        talk("compute: usual quotas", "alice", "GET", f"{quotas}/defaults")
        talk("compute: quotas", "alice", "GET", quotas)
        body = {"quota_set": {"instances": 10}}
        talk("compute: setting quotas", "admin", "PUT", quotas, body)
        talk("compute: setting quotas as a member", "alice", "PUT", quotas, body)
        self.keys()
        self.groups()

    def keys(self) -> None:
        talk, keys = self.talk, KEYPAIRS
        talk("compute: no keys", "alice", "GET", keys)
        body = {"keypair": {"name": "tour", "public_key": PUBLIC}}
        talk("compute: making a key", "alice", "POST", keys, body)
        talk("compute: making it twice", "alice", "POST", keys, body)
        bad = {"keypair": {"name": "bad", "public_key": "ssh-ed25519 no"}}
        talk("compute: making a key of nothing", "alice", "POST", keys, bad)
        talk("compute: keys", "alice", "GET", keys)
        talk("compute: deleting no key", "alice", "DELETE", f"{keys}/nowhere")

    def groups(self) -> None:
        talk, groups = self.talk, GROUPS
        body = {"server_group": {"name": "tour", "policy": "anti-affinity"}}
        made = talk("compute: making a group", "alice", "POST", groups, body)
        self.ids["group"] = made["server_group"]["id"]
        bad = {"server_group": {"name": "tour", "policy": "nowhere"}}
        talk("compute: making a group of no policy", "alice", "POST", groups, bad)
        talk("compute: groups", "alice", "GET", groups)
        talk("compute: a group", "alice", "GET", f"{groups}/{self.ids['group']}")
        talk("compute: another's group", "bob", "GET", f"{groups}/{self.ids['group']}")
        talk("compute: no group", "alice", "DELETE", f"{groups}/{NOWHERE}")
