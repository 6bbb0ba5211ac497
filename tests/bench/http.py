"""HTTP requests/s: pong beside nginx for the same clients, siege beside wrk at the same nginx."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from osmef.errors import OutputError
from osmef.workloads.kinds import apachebench, wrk
from tests.agents.lab import Agent
from tests.bench import ends, tools
from tests.bench.contest import AGENT, MORE, Contest, Sample, compare, hold
from tests.bench.report import Bench, Section, Table
from tests.bench.room import APART

CONNECTIONS = (1, 10, 50)
SIZES = {"100 B": 100, "100 kB": 100_000}
PORTS = {AGENT: 8080, "nginx": 8081, "nginx, sendfile": 8082}
THREADS = os.cpu_count() or 1
TRIAL_REQUESTS = 2000
AB_REQUESTS_PER_S = 500_000
"""More than it can."""
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108

# Which way of nginx is the fastest depends on the machine: a short answer from memory and a long
# one from a file through one buffer, or both by sendfile. tcp_nopush would only slow that down.
_NGINX = """
daemon off;
user root;
worker_processes {threads};
pid {folder}/pid;
error_log stderr crit;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    tcp_nodelay on;
    output_buffers 2 128k;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    open_file_cache max=10 inactive=1h;
    open_file_cache_valid 1h;
    default_type text/plain;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen {copying};
        root {folder};
        location = /pong/100 {{ return 200 {small}; }}
    }}
    server {{
        listen {sending};
        root {folder};
        sendfile on;
    }}
}}
"""


def _pong(length: int) -> str:
    return f"p{'o' * (length - 3)}ng"


@contextmanager
def _nginx(bench: Bench) -> Iterator[None]:
    nginx = tools.path_of("nginx")
    if nginx is None:
        yield
        return
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as name:
        folder = Path(name)
        (folder / "pong").mkdir()
        for length in SIZES.values():
            (folder / "pong" / str(length)).write_text(_pong(length), encoding="ascii")
        for path in (folder, folder / "pong"):
            path.chmod(0o755)
        ports = {"copying": PORTS["nginx"], "sending": PORTS["nginx, sendfile"]}
        small = _pong(SIZES["100 B"])
        text = _NGINX.format(threads=THREADS, folder=folder, small=small, **ports)
        (folder / "conf").write_text(text, encoding="ascii")
        command = [nginx, "-p", name, "-c", str(folder / "conf")]
        with bench.room.running(APART.server, command, PORTS["nginx"]):
            yield


@contextmanager
def _serving(bench: Bench) -> Iterator[None]:
    with _nginx(bench), ends.agent_at(bench.room, APART.server, bench.agent) as pong:
        place = {"bind": APART.address, "port": PORTS[AGENT], "threads": THREADS}
        pong.command("pong", id=ends.JOB, **place)
        ends.expect(pong, "listening")
        yield


def _url(server: str, size: int) -> str:
    return f"http://{APART.address}:{PORTS[server]}/pong/{size}"


def _wrk(bench: Bench, server: str, connections: int, size: int) -> Sample:
    load = ["-t", str(min(connections, THREADS)), "-c", str(connections)]
    command = ["wrk", *load, "-d", f"{bench.duration_s:.0f}", _url(server, size)]
    return {"rate": wrk_rate(bench.room.run(APART.client, command).output)}


def wrk_rate(output: str) -> float:
    """Return wrk's requests/s. Raises OutputError, also when a request failed."""
    told = wrk.read(output)
    if told.failed:
        raise OutputError(f"{told.failed} of wrk's requests and connections failed")
    return told.requests_per_s


def _ab(bench: Bench, server: str, connections: int, size: int) -> Sample:
    # Else -t ends after 50000 requests; it takes memory for each.
    enough = str(int(AB_REQUESTS_PER_S * bench.duration_s))
    until = ["-t", f"{bench.duration_s:.0f}", "-n", enough]
    command = ["ab", "-q", "-k", "-c", str(connections), *until, _url(server, size)]
    return {"rate": ab_rate(bench.room.run(APART.client, command).output)}


def ab_rate(output: str) -> float | None:
    """Return ab's requests/s. Raises OutputError, also when a request failed."""
    told = apachebench.read(output)
    if told.failed:
        raise OutputError(f"{told.failed} of ab's requests failed")
    return told.requests_per_s


def _siege(bench: Bench, server: str, connections: int, size: int) -> Sample:
    """Siege counts requests, not seconds: a short one tells how many fill the time."""
    with ends.agent_at(bench.room, APART.client, bench.agent) as agent:

        def rate(requests: int) -> float:
            where = {"host": APART.address, "port": PORTS[server], "path": "/pong/{size}"}
            load = {"connections": connections, "threads": min(connections, THREADS)}
            plan = {"sizes": str(size), "repetitions": requests}
            return _siege_rate(agent, {**where, **load, **plan})

        few = rate(TRIAL_REQUESTS)
        return {"rate": rate(int(few * bench.duration_s) + TRIAL_REQUESTS)}


def _siege_rate(agent: Agent, keys: dict[str, object]) -> float:
    agent.command("siege", id=ends.JOB, **keys)
    ends.expect(agent, "connected")
    agent.command("start", id=ends.JOB)
    result = ends.expect(agent, "result")
    if result["failed"]:
        raise OutputError(f"siege's requests failed: {result['errors']}")
    return float(result["requests_per_s"])


Client = Callable[[Bench, str, int, int], Sample]


def _server_contests(bench: Bench, name: str, client: Client) -> list[Contest]:
    servers = PORTS if tools.path_of("nginx") else [AGENT]
    return [
        Contest(
            f"{name}, {size}, {connections} connection{'s' * (connections > 1)}",
            {
                server: partial(client, bench, server, connections, SIZES[size])
                for server in servers
            },
        )
        for size in SIZES
        for connections in CONNECTIONS
    ]


def _client_contests(bench: Bench) -> list[Contest]:
    clients = {AGENT: _siege, "wrk": _wrk}
    found = {n: client for n, client in clients.items() if n == AGENT or tools.path_of(n)}
    return [
        Contest(
            f"at nginx, {size}, {connections} connection{'s' * (connections > 1)}",
            {n: partial(c, bench, "nginx", connections, SIZES[size]) for n, c in found.items()},
        )
        for size in SIZES
        for connections in CONNECTIONS
    ]


def bench(bench: Bench) -> Section:
    known = {"wrk": _wrk, "ab": _ab}
    loaders = {name: client for name, client in known.items() if tools.path_of(name)}
    servers = [c for name, client in loaders.items() for c in _server_contests(bench, name, client)]
    clients = _client_contests(bench) if tools.path_of("nginx") else []
    with _serving(bench):
        samples = hold(bench.console, "http", servers + clients, bench.repeat)
    return Section(
        "HTTP",
        "Requests/s with keep-alive between two namespaces. First `pong` beside nginx, asked by "
        "wrk and by ab; then `siege` beside wrk, asking nginx. Servers, wrk and siege have "
        f"{THREADS} threads, ab one; siege records every request. nginx keeps no log and "
        "answers in two ways: 100 B from memory and 100 kB through a buffer of that size, or both "
        "by sendfile, always from an open file on a tmpfs; siege and wrk ask the former.",
        [
            Table("Servers: pong, requests/s", *compare(samples, servers, "rate", MORE)),
            Table("Clients: siege, requests/s", *compare(samples, clients, "rate", MORE)),
        ],
        tools=("wrk", "ab", "nginx"),
        problems=samples.problems,
    )
