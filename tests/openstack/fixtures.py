"""The cloud as a fixture: brought up once for all tests that want it, and gone afterwards."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from osmef.images.guest_image import GuestImage
from tests.openstack.cloud import Cloud
from tests.openstack.errors import CloudError
from tests.openstack.real import RealCloud
from tests.openstack.small.cloud import SmallCloud
from tests.openstack.volumes import VolumeCloud

AnyCloud = TypeVar("AnyCloud", bound=Cloud)


@pytest.fixture(scope="session")
def openstack_cloud() -> Iterator[Cloud]:
    """A real OpenStack whose servers answer SSH; its logs stay when it doesn't come up.

    OSMEF_TEST_CLOUD is the state folder of one that shall be used, and kept.
    """
    _skip_unless_possible()
    with _up(lambda state: Cloud(state, guests=True)) as cloud:
        yield cloud


@pytest.fixture(scope="session")
def small_cloud() -> Iterator[SmallCloud]:
    """A small OpenStack at HTTP level whose servers answer SSH; up in about a second."""
    if os.geteuid() != 0:
        pytest.skip("the small OpenStack of the tests needs root, for namespaces")
    for program in ("ip", "nft", "nsenter", "unshare"):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            pytest.skip(f"the small OpenStack of the tests needs {program}")
    with _running(SmallCloud(Path(tempfile.mkdtemp(prefix="osmef-small-")))) as cloud:
        yield cloud


@pytest.fixture(scope="session")
def real_cloud(guest_image: GuestImage) -> Iterator[RealCloud]:
    """A real OpenStack with real guests; OSMEF_TEST_CLOUD as for the other one."""
    _skip_unless_possible()
    with _up(lambda state: RealCloud(state, lambda: guest_image)) as cloud:
        yield cloud


@pytest.fixture(scope="session")
def volume_cloud() -> Iterator[VolumeCloud]:
    """A real OpenStack with volumes; OSMEF_TEST_CLOUD as for the other one."""
    _skip_unless_possible()
    with _up(lambda state: VolumeCloud(state, guests=True)) as cloud:
        yield cloud


def _skip_unless_possible() -> None:
    if os.geteuid() != 0:
        pytest.skip("the OpenStack of the tests needs root, for packages and namespaces")
    if shutil.which("apt-get") is None:
        pytest.skip("the OpenStack of the tests takes MariaDB and RabbitMQ from Debian's packages")


@contextmanager
def _up(make: Callable[[Path], AnyCloud]) -> Iterator[AnyCloud]:
    kept = os.environ.get("OSMEF_TEST_CLOUD")
    if kept:
        cloud = make(Path(kept))
        cloud.up()
        yield cloud
        return
    with _running(make(Path(tempfile.mkdtemp(prefix="osmef-openstack-")))) as cloud:
        yield cloud


@contextmanager
def _running(cloud: AnyCloud) -> Iterator[AnyCloud]:
    failed = False
    try:
        cloud.up()
        yield cloud
    except CloudError:
        failed = True
        raise
    finally:
        cloud.down(purge=not failed)
