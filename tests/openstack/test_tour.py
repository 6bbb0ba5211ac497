"""The small cloud of the tests says what the real services say."""

from __future__ import annotations

import pytest

from tests.openstack.cloud import Cloud
from tests.openstack.small.cloud import SmallCloud
from tests.openstack.small.talk import Said, read
from tests.openstack.small.tour import RECORDED, said_by


def differences(said: dict[str, Said]) -> dict[str, object]:
    """Return what differs from what was recorded, by the name of the answer."""
    recorded = read(RECORDED)
    names = [*recorded, *(name for name in said if name not in recorded)]
    both = {name: (recorded.get(name), said.get(name)) for name in names}
    return {name: pair for name, pair in both.items() if pair[0] != pair[1]}


def test_the_emulated_cloud_answers_as_the_real_services(small_cloud: SmallCloud) -> None:
    assert differences(said_by(small_cloud)) == {}


@pytest.mark.timeout(1200)  # the first test waits for the cloud
def test_the_real_services_still_answer_as_recorded(openstack_cloud: Cloud) -> None:
    """Else: make openstack-cloud ARGS=--guests; python -m tests.openstack record --guests."""
    assert differences(said_by(openstack_cloud)) == {}
