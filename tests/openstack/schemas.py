"""The databases of the services: their tables, made once a machine; keys and the first account."""

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
        """Make the tables, of a cloud with any ports and passwords. Raises CloudError."""
        with ThreadPoolExecutor(2) as lanes:
            for lane in [lanes.submit(self._network), lanes.submit(self._others)]:
                lane.result()

    def bootstrap(self) -> None:
        """Make this cloud's keys, administrator and address of keystone. Raises CloudError."""
        done = self.settings.state / "bootstrapped"
        if done.exists():
            return
        internal, public = self.settings.url("keystone"), self.settings.public_url("keystone")
        self._run(
            *("keystone-manage", "--config-file", f"{self.etc}/keystone.conf", "bootstrap"),
            f"--bootstrap-password={self.settings.password}",
            f"--bootstrap-region-id={REGION}",
            f"--bootstrap-public-url={public}",
            f"--bootstrap-internal-url={internal}",
            f"--bootstrap-admin-url={internal}",
        )
        done.touch()

    def _network(self) -> None:
        self._run(
            "neutron-db-manage", "--config-file", f"{self.etc}/neutron.conf", "upgrade", "heads"
        )
        self._run("glance-manage", "--config-file", f"{self.etc}/glance.conf", "db_sync")

    def _others(self) -> None:
        self._run("keystone-manage", "--config-file", f"{self.etc}/keystone.conf", "db_sync")
        placement = f"{self.etc}/placement/placement.conf"
        self._run("placement-manage", "--config-file", placement, "db", "sync")
        nova = ("nova-manage", "--config-file", f"{self.etc}/nova.conf")
        # Nova fills in what its configuration says.
        here = "{scheme}://{username}:{password}@{hostname}:{port}"
        cell0, cell1 = f"{here}/nova_cell0?{{query}}", f"{here}/{{path}}?{{query}}"
        self._run(*nova, "api_db", "sync")
        self._run(*nova, "cell_v2", "map_cell0", "--database_connection", cell0)
        self._run(*nova, "db", "sync")
        urls = ("--database_connection", cell1, "--transport-url", f"{here}/")
        self._run(*nova, "cell_v2", "create_cell", "--name", "cell1", *urls)

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


def make_keys(state: Path) -> None:
    """Make keystone's keys, unless they are there."""
    for name in ("fernet-keys", "credential-keys"):
        if not (state / name).exists():
            _keys(state / name)


def _keys(folder: Path) -> None:
    """Do what keystone-manage's fernet_setup and credential_setup do, without a start of it."""
    folder.mkdir(mode=0o700)
    for name in ("0", "1"):
        path = folder / name
        path.touch(mode=0o600)
        path.write_bytes(base64.urlsafe_b64encode(os.urandom(32)))
