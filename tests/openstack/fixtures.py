"""The cloud as a fixture: brought up once for all tests that want it, and gone afterwards."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.openstack.cloud import Cloud


@pytest.fixture(scope="session")
def openstack_cloud() -> Iterator[Cloud]:
    """A real OpenStack whose servers answer SSH; its logs stay when it doesn't come up.

    OSMEF_TEST_CLOUD is the state folder of one that shall be used, and kept.
    """
    if os.geteuid() != 0:
        pytest.skip("the OpenStack of the tests needs root, for packages and namespaces")
    if shutil.which("apt-get") is None:
        pytest.skip("the OpenStack of the tests takes MariaDB and RabbitMQ from Debian's packages")
    kept = os.environ.get("OSMEF_TEST_CLOUD")
    cloud = Cloud(Path(kept or tempfile.mkdtemp(prefix="osmef-openstack-")), guests=True)
    failed = True
    try:
        cloud.up()
        failed = False
        yield cloud
    finally:
        if not kept:
            cloud.down(purge=not failed)
