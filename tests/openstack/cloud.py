"""A real OpenStack on this machine: bring up, hand out, bring down.

Keystone, placement, glance, nova with the fake compute driver on three hosts, neutron without
agents. Everything listens on 127.0.0.1, and all that is written stands in one state folder.
What differs in a cloud with real hypervisors is in real.py.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tests.gce.inside import inside
from tests.openstack import config, database, packages, settings
from tests.openstack.errors import CloudError
from tests.openstack.processes import Processes
from tests.openstack.schemas import Schemas, make_keys
from tests.openstack.settings import APIS, FAR_APIS, FAR_REGION, HOSTS, LOOPBACK, REGION

T = TypeVar("T")
SERVICES = Path(__file__).parent / "services"
ROOT = Path(__file__).parent.parent.parent
READY_S = 90.0
_RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"
_ERLANG = (
    "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none"
)


class Cloud:
    """One cloud, known by its state folder."""

    ip = LOOPBACK
    hosts: Mapping[str, str] = HOSTS  # each with its zone
    apis: Sequence[str] = tuple(APIS)

    def __init__(
        self, state: Path, tell: Callable[[str], None] = lambda _: None, *, guests: bool = False
    ) -> None:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        if state.stat().st_uid != os.getuid():
            raise CloudError(f"{state} belongs to someone else; give another --state")
        self.state = state.resolve()
        self.processes = Processes(self.state)
        self.settings = settings.load(self.state, self.ip)
        self.began = time.monotonic()
        self.guests = guests
        self._tell = tell

    @property
    def clouds_yaml(self) -> Path:
        """The file with the clouds admin, alice (project alpha) and bob (project beta)."""
        return self.state / "etc/clouds.yaml"

    @property
    def fabric(self) -> Path:
        """The socket of the data plane."""
        return self.state / "fabric.sock"

    @property
    def inside(self) -> list[str]:
        """What to put before a command that is to run where the guests can be reached."""
        return ["nsenter", f"--net={self._lab()}", "--"]

    def here(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns in a thread that can reach the guests."""
        return inside(self._lab(), work)

    def up(self) -> None:
        """Start what doesn't run, once more when that fails. Raises CloudError, and keeps logs."""
        self.venv = packages.install()
        self.tell("packages are there")
        try:
            self._up()
        except CloudError as error:
            self.tell(f"it failed, trying once more: {error}")
            self.processes.stop(*self.processes.names())
            self._put_logs_aside()
            self._up()

    def _put_logs_aside(self) -> None:
        """Begin new logs: in the old ones is what a service says once it is ready."""
        logs, first = self.state / "log", self.state / "log-of-first-try"
        shutil.rmtree(first, ignore_errors=True)
        logs.rename(first)
        logs.mkdir()

    def down(self, *, purge: bool = False) -> None:
        """Stop all; with purge, also remove the state."""
        names = self.processes.names()
        if purge:  # nobody will miss what they have not written
            self.processes.stop(*names, timeout_s=0)
        # The services want to say goodbye to the queue and the database.
        basis = [name for name in names if name in ("db", "mq", "epmd")]
        self.processes.stop(*(name for name in names if name not in basis))
        self.processes.stop(*basis)
        self.processes.forget()
        if purge:
            shutil.rmtree(self.state)

    def restart(self, name: str) -> None:
        """Start a service again, and wait until it answers."""
        self.processes.restart(name)
        if name in self.apis:
            self._await_api(name)

    def tell(self, text: str) -> None:
        self._tell(f"{time.monotonic() - self.began:6.1f} s  {text}")

    @property
    def environment(self) -> dict[str, str]:
        """What the services inherit. Not PYTHONDONTWRITEBYTECODE: it costs 3 s a start."""
        environment = {
            "PATH": f"{self.venv}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.state),
            "LANG": "C.UTF-8",
            "PYTHONWARNINGS": "ignore",
            "PYTHONPATH": f"{SERVICES / 'plugin'}:{ROOT}",
            "PYTHONSAFEPATH": "1",
            "LAB_STATE": str(self.state),
            "OS_KEYSTONE_CONFIG_FILES": str(self.state / "etc/keystone.conf"),
            "OS_PLACEMENT_CONFIG_DIR": str(self.state / "etc/placement"),
        }
        return environment | ({"LAB_FABRIC": str(self.fabric)} if self.guests else {})

    def _up(self) -> None:
        for folder in ("lock", "faults", "images", "mq", "glance/staging", "glance/tasks"):
            (self.state / folder).mkdir(parents=True, exist_ok=True)
        config.write(self.settings, self._configuration())
        make_keys(self.state)
        schemas = Schemas(self.settings, self.venv, self.environment)
        self._start_queue()
        if not (self.state / "db").exists():
            self._fetch_tables(schemas)
        self._start_database(self.state / "db")
        self.processes.wait("mq", READY_S, lambda: _listens(self.ip, self.settings.ports["mq"]))
        schemas.bootstrap()
        self.tell("MariaDB and RabbitMQ run")
        self._start_services()
        self.tell("APIs answer")
        self._populate("hosts")
        self.tell(f"all hosts are up; OS_CLIENT_CONFIG_FILE={self.clouds_yaml} OS_CLOUD=alice")

    def _configuration(self) -> dict[str, config.Sections]:
        return config.services(self.settings, self.venv, self.hosts)

    def _fetch_tables(self, schemas: Schemas) -> None:
        """Copy the databases from the cache, where they are made first if need be."""
        kept, new = database.template(self.venv), self.state / "db.new"
        shutil.rmtree(new, ignore_errors=True)
        if not kept.exists():
            self._command(
                *("mariadb-install-db", "--no-defaults", f"--datadir={new}"),
                *("--auth-root-authentication-method=normal", "--skip-test-db"),
                *("--innodb-log-file-size=16M",),
            )
            self._start_database(new)
            schemas.make()
            self.processes.stop("db")
            database.keep(new, kept)
            shutil.rmtree(new)
            self.tell("databases are made")
        shutil.copytree(kept, new)
        new.rename(self.state / "db")

    def _start_database(self, folder: Path) -> None:
        state, port = self.state, self.settings.ports["db"]
        self._start(
            *("db", "mariadbd", "--no-defaults", "--user=root", f"--datadir={folder}"),
            *(f"--bind-address={self.ip}", f"--port={port}", f"--socket={state}/db.sock"),
            *("--skip-name-resolve", "--max-connections=500", f"--pid-file={state}/db.pid"),
            *("--innodb-flush-log-at-trx-commit=0", "--skip-innodb-doublewrite"),
            *("--innodb-log-file-size=16M", "--innodb-buffer-pool-size=128M", "--skip-log-bin"),
            *("--character-set-server=utf8mb3", f"--init-file={state}/etc/databases.sql"),
        )
        self.processes.wait("db", READY_S, lambda: _listens(self.ip, port))

    def _start_queue(self) -> None:
        state, ports = self.state, self.settings.ports
        etc = state / "etc"
        # RabbitMQ would start this one itself, and leave it behind.
        self._start("epmd", "epmd", "-address", LOOPBACK, "-port", str(ports["epmd"]))
        self.processes.wait("epmd", READY_S, lambda: _listens(LOOPBACK, ports["epmd"]))
        self._start(
            "mq",
            _RABBITMQ,
            HOME=f"{state}/mq",
            ERL_EPMD_PORT=str(ports["epmd"]),
            ERL_EPMD_ADDRESS=LOOPBACK,
            RABBITMQ_NODENAME="osc@localhost",
            RABBITMQ_DIST_PORT=str(ports["erlang"]),
            RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=_ERLANG,
            RABBITMQ_CONFIG_FILE=f"{etc}/rabbitmq.conf",
            RABBITMQ_ENABLED_PLUGINS_FILE=f"{etc}/enabled_plugins",
            RABBITMQ_MNESIA_BASE=f"{state}/mq/mnesia",
            RABBITMQ_LOG_BASE=f"{state}/log",
            RABBITMQ_PID_FILE=f"{state}/mq/pid",
            RABBITMQ_CONF_ENV_FILE="/dev/null",
        )

    def _start_services(self) -> None:
        etc = self.state / "etc"
        nova = ("--config-file", f"{etc}/nova.conf")
        self._serve("keystone", "keystone.server.wsgi:initialize_public_application")
        self._serve("placement", "placement.wsgi:init_application")
        self._start("nova-conductor", "nova-conductor", *nova)
        if self.guests and not self.processes.alive("fabric"):
            self._start_fabric()
        self._start_front()
        self._await_api("keystone")
        self._populate("services")
        self.tell("keystone knows the services")
        self._start("nova-scheduler", "nova-scheduler", *nova)  # it ends where its login fails
        self._start("neutron-server", "neutron-server", "--config-file", f"{etc}/neutron.conf")
        self._start("nova-api", "nova-api-os-compute", *nova)
        self._start("glance-api", "glance-api", "--config-file", f"{etc}/glance.conf")
        self._await_queues("nova-conductor", "conductor")
        self._start_hosts()
        for name in self.apis:
            self._await_api(name)

    def _start_hosts(self) -> None:
        for host in self.hosts:
            own = ("--config-file", f"{self.state}/etc/nova-{host}.conf")
            self._start(f"nova-compute-{host}", *_module("compute"), *own)

    def _start_fabric(self) -> None:
        self.fabric.unlink(missing_ok=True)
        alone = ("unshare", "--mount", "--propagation", "private")
        self._start("fabric", *alone, *_module("fabric"), str(self.state))
        self.processes.wait("fabric", READY_S, self.fabric.exists)
        if "front" in self.processes.names():
            self.processes.stop("front")  # it listens in a namespace that has gone

    def _start_front(self) -> None:
        ports = self.settings.ports
        apis = [(name, ports[f"front-{name}"], ports[name]) for name in self.apis]
        apis += [(f"far-{name}", ports[f"far-{name}"], ports[name]) for name in FAR_APIS]
        lab = str(self._lab()) if self.guests else None
        given = {"ip": self.ip, "state": str(self.state), "apis": apis, "lab": lab}
        self._start("front", *_module("proxy"), json.dumps(given))
        self.processes.wait("front", READY_S, lambda: _listens(self.ip, ports["front-keystone"]))

    def _lab(self) -> Path:
        """Return the network namespace of the data plane, which has a name in its process only."""
        return Path(f"/proc/{self.processes.pid('fabric')}/root/run/netns/lab")

    def _await_queues(self, name: str, *queues: str) -> None:
        """Wait until a service takes messages: one that comes before is lost, and waited for."""
        log = self.processes.logs / f"{name}.log"
        wanted = [f"Creating fanout queue: {queue}_fanout" for queue in queues]
        self.processes.wait(name, READY_S, lambda: all(one in _text(log) for one in wanted))

    def _await_api(self, name: str) -> None:
        self.processes.wait(name, READY_S, lambda: _answers(self.settings.url(name)))

    def _serve(self, name: str, application: str) -> None:
        where = (self.ip, str(self.settings.ports[name]))
        self._start(name, *_module("serve_wsgi"), application, *where)

    def _start(self, name: str, *argv: str, **environment: str) -> None:
        program = shutil.which(argv[0], path=self.environment["PATH"]) or argv[0]
        self.processes.start(name, [program, *argv[1:]], {**self.environment, **environment})

    def _populate(self, step: str) -> None:
        """Run a step of populate.py with the SDK of the services' venv."""
        public, internal = self.settings.public_url, self.settings.url
        here = {name: {"public": public(name), "internal": internal(name)} for name in self.apis}
        far = {name: {"public": self.settings.far_url(name)} for name in FAR_APIS}
        regions = {REGION: here, FAR_REGION: far}
        given = {"regions": regions, "hosts": self.hosts, **self._furniture()}
        self._command(
            *(f"{self.venv}/bin/python", *_module("populate")[1:], step, json.dumps(given)),
            OS_CLIENT_CONFIG_FILE=str(self.clouds_yaml),
        )

    def _furniture(self) -> dict[str, object]:
        """Return what else the last step of populate.py is to look for, or to make."""
        return {}

    def _command(self, *argv: str, given: str = "", **environment: str) -> None:
        """Run a program with this input to its end. Raises CloudError."""
        log = self.state / f"log/{Path(argv[0]).name}.out"
        with log.open("ab") as out:
            done = subprocess.run(
                argv,
                input=given.encode(),
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**self.environment, **environment},
                check=False,
            )
        if done.returncode != 0:
            raise CloudError(f"{argv[0]} failed, {log}:\n{_text(log)[-1500:]}")


def _module(name: str) -> tuple[str, ...]:
    """Return how to run a program of services/ with the Python of the services."""
    return ("python", "-m", f"tests.openstack.services.{name}")


def _listens(ip: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((ip, port)) == 0


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - it is our own
            return True
    except urllib.error.HTTPError:
        return True  # 401 is an answer
    except OSError:
        return False


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
