"""A bed for each cloud; nobody waits for SSH in them."""

from __future__ import annotations

import pytest

from osmef.providers.base import RunContext
from osmef.providers.cloud.provisioning import BootingGuest
from osmef.remote.login import HostKeys, Login
from tests.providers.aws.conftest import api as aws_account  # noqa: F401 - a fixture
from tests.providers.aws.conftest import aws_api, credentials  # noqa: F401 - fixtures
from tests.providers.azure.conftest import api as azure_api  # noqa: F401 - a fixture
from tests.providers.conformance import beds
from tests.providers.conformance.bed import Bed
from tests.providers.gce.conftest import gce_cloud  # noqa: F401 - a fixture
from tests.providers.gce.conftest import lab as gce_lab  # noqa: F401 - a fixture
from tests.providers.openstack.conftest import small_lab  # noqa: F401 - a fixture

BEDS = {
    "aws": (beds.Aws, "aws_account"),
    "azure": (beds.Azure, "azure_api"),
    "gce": (beds.Gce, "gce_lab"),
    "openstack": (beds.OpenStack, "small_lab"),
}


def _at_once(guest: BootingGuest, context: RunContext, _deadline: float) -> Login:
    return Login(guest.name, guest.user, guest.address, HostKeys(()), context.key)


@pytest.fixture(params=BEDS)
def bed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bed:
    """A cloud whose guests count as ready when they run."""
    monkeypatch.setattr(BootingGuest, "reach", _at_once)
    make, fixture = BEDS[request.param]
    found: Bed = make(request.getfixturevalue(fixture))
    return found
