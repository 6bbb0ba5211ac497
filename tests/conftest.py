"""What all tests share."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from osmef.images.guest_image import GuestImage
from osmef.remote.session import SshSession
from tests.guest_image import shared_image
from tests.libvirt.lab import Lab, skip_unless_possible
from tests.memory.cloud import World, memory_world
from tests.sshd import Sshd

pytest.register_assert_rewrite("tests.layers.machines")
# The first test that wants it builds a guest image, on a slow machine from a slow registry.
IMAGE_TIMEOUT_S = 900
_ENDS_S = 10


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
def session(sshd: Sshd) -> Iterator[SshSession]:
    """An open session to a real sshd."""
    session = SshSession.open(sshd.login())
    yield session
    session.close()


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A cloud in memory, of which nothing runs after the test."""
    before = _threads()
    with memory_world(tmp_path_factory.mktemp("agents")) as made:
        yield made
    deadline = time.monotonic() + _ENDS_S  # what was stopped may be just ending
    while left := _threads() - before:
        assert time.monotonic() < deadline, left
        with suppress(RuntimeError):  # it is just beginning
            next(iter(left)).join(0.1)


def _threads() -> set[threading.Thread]:
    """Return the threads that run; paramiko leaves the timer of a handshake that is cut."""
    return {one for one in threading.enumerate() if not isinstance(one, threading.Timer)}


@pytest.fixture(scope="session")
def guest_image() -> GuestImage:
    """A guest image, made as `osmef image build` makes it."""
    return shared_image()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two hypervisors on one network."""
    skip_unless_possible()
    with Lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab
