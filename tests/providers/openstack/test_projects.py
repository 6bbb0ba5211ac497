"""Projects that are made for a run, and what others may have put into them."""

from __future__ import annotations

from typing import Any

import openstack
import pytest

from osmef.errors import ProviderError
from osmef.providers.base import Resource
from osmef.providers.openstack.access import open_cloud
from osmef.providers.openstack.provider import OpenStackProvider, make_tenants
from osmef.providers.openstack.resource_types import TYPES, Maker, Mark
from tests.providers.conftest import MemoryLedger
from tests.providers.openstack.lab import DEADLINE, RUN, Lab

pytestmark = pytest.mark.timeout(1200)  # the first test waits for the cloud


def groups_in(admin: Any, project: str) -> set[str]:
    """Return the groups of a project; asked for those of one, neutron makes its default one."""
    return {one.name for one in admin.network.security_groups() if one.project_id == project}


def test_a_project_with_a_foreign_group_in_it_stays_until_that_is_gone(lab: Lab) -> None:
    lab.dirty.add("admin")
    maker = Maker(Mark(RUN, 1, DEADLINE), MemoryLedger(), TYPES)
    (tenant,) = make_tenants(maker, open_cloud({"cloud": "admin"}), ["tenant-1"])
    project = tenant.account.id
    gone: list[Resource] = []
    with openstack.connect(cloud="admin") as admin:
        # Its owner looks at the groups, and so neutron makes the default one.
        tenant.account.ask("looking", lambda c: list(c.network.security_groups()))
        foreign = admin.network.create_security_group(name="theirs", project_id=project)
        with pytest.raises(ProviderError, match="not ours, theirs") as caught:
            OpenStackProvider.tear_down(maker.made, gone.append)
        assert "osmef reap" in str(caught.value.cure)
        assert gone == []
        assert groups_in(admin, project) == {"default", "theirs"}
        admin.network.delete_security_group(foreign)
        OpenStackProvider.tear_down(maker.made, gone.append)
        assert [one.kind for one in gone] == ["project"]
        assert groups_in(admin, project) == set()
        assert admin.identity.find_project(project) is None  # type: ignore[union-attr]
