"""`osmef run` on real hypervisors: guests of one tenant and of two, on one host and on two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from osmef.providers.openstack.provider import OpenStackProvider
from tests.cli.conftest import Osmef
from tests.openstack.real import HOSTS, RealCloud

pytestmark = [pytest.mark.timeout(3000)]
SCENARIO = Path(__file__).with_name("real.yaml")


def things(cloud: RealCloud) -> set[str]:
    """Return what hosts have that belongs to guests and networks: domains, namespaces, bridges."""
    found = set()
    for host in HOSTS:
        domains = cloud.run(host, "virsh", "--connect", "qemu:///system", "list", "--all", "--name")
        found |= {f"domain {name} on {host}" for name in domains.split()}
    found |= {
        f"namespace {line.split()[0]}" for line in cloud.run("net", "ip", "netns").splitlines()
    }
    return found


@pytest.fixture(scope="module")
def run(real_cloud: RealCloud, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The summary of a run of real.yaml."""
    before = things(real_cloud)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OS_CLIENT_CONFIG_FILE", str(real_cloud.clouds_yaml))
        for name in ("OS_CLOUD", "OS_AUTH_URL"):
            patch.delenv(name, raising=False)
        osmef = Osmef(tmp_path_factory.mktemp("real"))
        osmef.end_s = 2400.0
        process = osmef.start("run", str(SCENARIO), prefix=tuple(real_cloud.inside))
        try:
            ended = osmef.finish(process)
        finally:
            process.kill()
            with real_cloud.at_controller():
                left = [one for name in ("alice", "bob") for one in owned(name)]
                OpenStackProvider.destroy(left, lambda _resource: None)
        assert ended.code == 0, ended.err
        assert left == []
        assert things(real_cloud) <= before
    return osmef.summary


def owned(cloud: str) -> list[Any]:
    return OpenStackProvider.owned({"cloud": cloud})


def test_every_trial_measures_between_guests(run: Any) -> None:
    cells = {(cell["tenancy"], cell["placement"]): cell for cell in run["cells"]}
    assert len(cells) == 4
    for name, cell in cells.items():
        assert cell["n_ok"] == 2, name


def test_servers_of_one_tenant_stand_where_they_should(run: Any) -> None:
    found = {c["placement"]: c["distance"] for c in run["cells"] if c["tenancy"] == "same-tenant"}
    assert found == {"same-host": 0, "different-host": 2}


def test_all_endpoints_are_guests_of_the_two_hosts(run: Any) -> None:
    places = [endpoint["achieved"] for endpoint in run["endpoints"]]
    assert {place["host"] for place in places} == set(HOSTS)
    assert {place["tenant"] for place in places} == {"alpha", "beta"}
