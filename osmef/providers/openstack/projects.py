"""The projects of a run's tenants: those that are named, or made for the run."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial

from keystoneauth1.access import AccessInfoV3
from openstack.connection import Connection

from osmef.errors import CredentialsError, NotFoundError, PolicyError, ProviderError
from osmef.providers.base import Access, Check, EndpointRequest
from osmef.providers.openstack.access import Cloud, Waits, identity, login_of, open_cloud
from osmef.providers.openstack.kinds import KINDS
from osmef.providers.openstack.making import Maker
from osmef.providers.openstack.tenants import Tenant
from osmef.providers.parallel import side_by_side
from osmef.scenario.clouds.openstack import OpenStackSettings


def access_of(settings: OpenStackSettings, cloud: str | None = None) -> Access:
    """Return how to reach a cloud of clouds.yaml in the settings' region, or the settings' own."""
    wanted = {"cloud": cloud or settings.cloud, "region": settings.region}
    return {key: value for key, value in wanted.items() if value is not None}


def slots_of(requests: Sequence[EndpointRequest]) -> list[str]:
    """Return the tenants' slots that the requests use, in the order of their numbers."""
    slots = {request.tenant for request in requests if request.tenant is not None}
    return sorted(slots, key=lambda slot: (len(slot), slot))


def named_tenants(
    settings: OpenStackSettings, slots: Sequence[str], check: Check, waits: Waits
) -> list[Tenant]:
    """Log into the projects that the settings name, one for each slot. Raises ProviderError."""
    if isinstance(settings.projects, dict):
        clouds = settings.projects
    else:
        clouds = {"": settings.cloud or ""}
    if len(slots) > len(clouds):
        raise ProviderError(
            f"the plan needs {len(slots)} tenants, and there are {len(clouds)} projects",
            where="provider.projects",
            cure="name more of them",
        )
    wanted = list(zip(slots, clouds.items(), strict=False))
    opened = side_by_side(
        lambda one: open_cloud(access_of(settings, one[1][1] or None), check, waits), wanted
    )
    _refuse_one_project_twice(opened)
    return [
        Tenant(slot, number, label or cloud.project_id, cloud)
        for number, ((slot, (label, _)), cloud) in enumerate(zip(wanted, opened, strict=True), 1)
    ]


def _refuse_one_project_twice(clouds: Sequence[Cloud]) -> None:
    if len({cloud.project_id for cloud in clouds}) < len(clouds):
        raise ProviderError(
            "two clouds of provider.projects have credentials of one and the same project",
            where="provider.projects",
            cure="name clouds with different projects, or they are no different tenants",
        )


def make_tenants(maker: Maker, base: Cloud, slots: Sequence[str]) -> list[Tenant]:
    """Make a project for each slot, as an admin. Raises PolicyError, ProviderError."""
    access: AccessInfoV3 = base.do("logging in", login_of)

    def make(number: int) -> Tenant:
        name = maker.mark.name(f"tenant-{number}")
        project = maker.make(
            base,
            "project",
            name,
            lambda c: identity(c).create_project(
                name=name, description=maker.mark.text, domain_id=access.project_domain_id
            ),
        )
        base.do("taking roles in the new project", partial(_take_roles, access, str(project.id)))
        return Tenant(slots[number - 1], number, name, base.of_project(str(project.id)))

    try:
        return side_by_side(make, range(1, len(slots) + 1))
    except PolicyError as error:
        raise PolicyError(
            error.message,
            where="provider.projects: made",
            cure="only an administrator may make projects: name projects that are there",
        ) from error


def _take_roles(access: AccessInfoV3, project: str, connection: Connection) -> None:
    for role in access.role_ids or ():
        identity(connection).assign_project_role_to_user(project, str(access.user_id), role)


def all_clouds(access: Access) -> list[Cloud]:
    """Open a cloud, and all projects in it that were made for runs. Raises ProviderError."""
    base = open_cloud({key: value for key, value in access.items() if key != "project"})
    clouds = [base]
    for project in KINDS["project"].owned(base, None):
        # A run that was killed before it had a role in the project has nothing in it.
        with contextlib.suppress(CredentialsError):
            clouds.append(base.of_project(project.id))
    return clouds


def open_or_gone(access: Access) -> Cloud | None:
    """Open a cloud; None if its project was made for a run and is gone. Raises ProviderError."""
    project = access.get("project")
    if project is None:
        return open_cloud(access)
    base = open_cloud({key: value for key, value in access.items() if key != "project"})
    try:
        base.do("looking for a project", lambda c: identity(c).get_project(project))
    except NotFoundError:
        return None
    return base.of_project(project)
