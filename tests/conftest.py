"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from osmef.images.bundle import Bundle
from osmef.remote.session import Session
from tests.guest_image import shared_image
from tests.libvirt.lab import Lab, skip_unless_possible
from tests.sshd import Sshd

# The first test that wants it builds a guest image, on a slow machine from a slow registry.
IMAGE_TIMEOUT_S = 900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "guest_image" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(IMAGE_TIMEOUT_S))


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A real sshd."""
    server = Sshd(tmp_path)
    yield server
    server.close()


@pytest.fixture
def session(sshd: Sshd) -> Iterator[Session]:
    """An open session to a real sshd."""
    session = Session.open(sshd.login())
    yield session
    session.close()


@pytest.fixture(scope="session")
def guest_image(request: pytest.FixtureRequest) -> Bundle:
    """A guest image, made as `osmef image build` makes it."""
    cache: pytest.Cache = request.config.cache
    return shared_image(cache)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two hypervisors on one network."""
    skip_unless_possible()
    with Lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab
