"""A small OpenStack: the APIs that the provider calls, by one process, and real sshd behind them.

It is up in about a second, and says what the real services say: see tour.py.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from tests.openstack import config
from tests.openstack.cloud import Cloud
from tests.openstack.processes import WITH_US
from tests.openstack.settings import LOOPBACK

_READY_S = 60.0


class SmallCloud(Cloud):
    """One such cloud, known by its state folder. It ends with the process that brought it up."""

    def __init__(self, state: Path) -> None:
        super().__init__(state, guests=True)
        self.venv = Path(sys.prefix)

    def up(self) -> None:
        """Start it. Raises CloudError."""
        for folder in ("etc", "faults"):
            (self.state / folder).mkdir(exist_ok=True)
        self._start_fabric()
        told = self.state / "ports.json"
        given = (str(self.state), LOOPBACK, str(self._lab()), self.settings.password)
        self._start("api", "python", "-m", "tests.openstack.small.serve", *given)
        self.processes.wait("api", _READY_S, told.exists)
        ports = json.loads(told.read_text())
        # Nothing is before its services, so clients and services reach them at the same ports.
        same = {f"front-{name}": port for name, port in ports.items()}
        self.settings = replace(self.settings, ports={**ports, **same})
        config.write_clouds(self.settings)

    def _start(self, name: str, *argv: str, **environment: str) -> None:
        super()._start(name, *WITH_US, *argv, **environment)
