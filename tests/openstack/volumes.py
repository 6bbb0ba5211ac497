"""A cloud with volumes, too: cinder, whose volumes hold nothing; the fake hypervisor reads none."""

from __future__ import annotations

from collections.abc import Sequence

from tests.openstack import config, packages
from tests.openstack.cloud import Cloud
from tests.openstack.settings import APIS, VOLUMES


class VolumeCloud(Cloud):
    """A cloud whose servers may boot from volumes."""

    apis: Sequence[str] = (*APIS, VOLUMES)

    @property
    def environment(self) -> dict[str, str]:
        """What the services inherit: cinder, too."""
        usual = super().environment
        return usual | {"PYTHONPATH": f"{usual['PYTHONPATH']}:{packages.volumes(self.venv)}"}

    def up(self) -> None:
        """Start what doesn't run. Raises CloudError, and keeps logs."""
        packages.install_volumes()
        super().up()

    def _configuration(self) -> dict[str, config.Sections]:
        cinder = config.cinder(self.settings, packages.volumes(self.venv))
        return super()._configuration() | {"cinder.conf": cinder}

    def _start_hosts(self) -> None:
        super()._start_hosts()
        self._command(*self._cinder("manage"), "db", "sync")
        for name in ("api", "scheduler", "volume"):
            self._start(f"cinder-{name}", *self._cinder(name))

    def _cinder(self, name: str) -> tuple[str, ...]:
        program = f"{packages.volumes(self.venv)}/bin/cinder-{name}"
        own = f"--config-file={self.state}/etc/cinder.conf"
        return (f"{self.venv}/bin/python", program, own)
