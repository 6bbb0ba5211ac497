from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.libvirt.lab import Lab, skip_unless_possible


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two hypervisors on one network."""
    skip_unless_possible()
    with Lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab
