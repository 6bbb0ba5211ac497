"""The databases of the services: tables, keys, the first account. Made once a cloud."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.openstack.errors import CloudError
from tests.openstack.settings import REGION, Settings


class Schemas:
    """Runs the services' own tools, in two lanes: two cores are what a small machine has."""

    def __init__(self, settings: Settings, venv: Path, environment: dict[str, str]) -> None:
        self.settings = settings
        self.venv = venv
        self.environment = environment
        self.etc = settings.state / "etc"

    def make(self) -> None:
        """Make what is not there. Raises CloudError."""
        done = self.settings.state / "schemas-made"
        if done.exists():
            return
        _keys(self.settings.state / "fernet-keys")
        _keys(self.settings.state / "credential-keys")
        with ThreadPoolExecutor(2) as lanes:
            for lane in [lanes.submit(self._network), lanes.submit(self._others)]:
                lane.result()
        done.touch()

    def _network(self) -> None:
        self._run(
            "neutron-db-manage", "--config-file", f"{self.etc}/neutron.conf", "upgrade", "heads"
        )
        self._run("glance-manage", "--config-file", f"{self.etc}/glance.conf", "db_sync")

    def _others(self) -> None:
        keystone = ("keystone-manage", "--config-file", f"{self.etc}/keystone.conf")
        url = self.settings.url("keystone")
        urls = [f"--bootstrap-{kind}-url={url}" for kind in ("public", "internal", "admin")]
        password = f"--bootstrap-password={self.settings.password}"
        self._run(*keystone, "db_sync")
        self._run(*keystone, "bootstrap", password, f"--bootstrap-region-id={REGION}", *urls)
        placement = f"{self.etc}/placement/placement.conf"
        self._run("placement-manage", "--config-file", placement, "db", "sync")
        nova = ("nova-manage", "--config-file", f"{self.etc}/nova.conf")
        cell0 = self.settings.database("nova_cell0")
        self._run(*nova, "api_db", "sync")
        self._run(*nova, "cell_v2", "map_cell0", "--database_connection", cell0)
        self._run(*nova, "db", "sync")
        self._run(*nova, "cell_v2", "create_cell", "--name", "cell1")

    def _run(self, tool: str, *arguments: str) -> None:
        argv: Sequence[str] = (f"{self.venv}/bin/{tool}", *arguments)
        log = self.settings.state / f"log/schema-{tool}.out"
        with log.open("ab") as out:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self.environment,
                check=False,
            )
        if done.returncode != 0:
            tail = log.read_bytes()[-1500:].decode(errors="replace")
            raise CloudError(f"{tool} {arguments[-1]} failed, {log}:\n{tail}")


def _keys(folder: Path) -> None:
    """Do what keystone-manage's fernet_setup and credential_setup do, without a start of it."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for name in ("0", "1"):
        path = folder / name
        path.touch(mode=0o600)
        path.write_bytes(base64.urlsafe_b64encode(os.urandom(32)))
