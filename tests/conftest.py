"""What all tests share."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from osmef.images.bundle import Bundle
from osmef.remote.session import Session
from tests.guest_image import shared_image
from tests.libvirt.lab import Lab, skip_unless_possible
from tests.sshd import Sshd

pytest_plugins = ["tests.openstack.fixtures"]

# A busy machine is slow now and then; how long one example takes says nothing about the code.
settings.register_profile("osmef", deadline=None)
settings.load_profile("osmef")

# A shell that runs its job in the background has it ignore Ctrl-C, and so all programs under test.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The first test that wants it builds a guest image, on a slow machine from a slow registry.
IMAGE_TIMEOUT_S = 900


# These rooms make sandboxes, bridges and guests on this machine, list and reap what they find,
# and compare the machine with what it was: all of them run one after the other. The agent's tests,
# the OpenStack and the public clouds have namespaces of their own, and the other rooms only files.
MACHINE = {"cli", "engine", "facts", "images", "libvirt", "notebooks", "providers", "remote"}
MACHINE |= {"workloads"}
PUBLIC_CLOUDS = {"aws", "azure", "gce", "sites"}


def room_of(nodeid: str) -> str:
    """Return what a worker runs as a whole: the room of a test, or all that share the machine."""
    rooms = nodeid.split("::", maxsplit=1)[0].split("/")[1:-1]
    if rooms[-1:] == ["openstack"]:
        return "openstack"
    if PUBLIC_CLOUDS & set(rooms):
        return "clouds"
    return "machine" if MACHINE & set(rooms[:1]) else "/".join(rooms[:1])


# The longest first, so that in the end no worker has much to do while the others have nothing.
LONGEST = ("openstack", "machine", "clouds", "agents")


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    config.option.loadscopereorder = False  # by the number of tests, not by what they take
    scheduling = LoadScopeScheduling(config, log)
    scheduling._split_scope = room_of
    return scheduling


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {room: place for place, room in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(room_of(item.nodeid), len(places)))
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
