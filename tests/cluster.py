"""An MPI program that needs no MPI, in a bundle, and scenarios that run it."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

from osmef.supply.bundle import ProgramManifest, described, pack

PRINTED = (Path(__file__).parent / "formats" / "data" / "npb" / "is.txt").read_text()

# A process that asks for the others, sends them something, and prints what IS did once.
PROCESS = """\
#!/usr/bin/env python3
import os, socket, sys
if "PMI_FD" not in os.environ:
    sys.exit("osmef 9.9")
rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
pmi = socket.socket(fileno=int(os.environ["PMI_FD"]))
lines = pmi.makefile("r", newline="\\n")

def ask(line):
    pmi.sendall(line.encode() + b"\\n")
    return lines.readline().rstrip("\\n")

def address():
    import fcntl, struct
    name = os.environ["UCX_NET_DEVICES"].encode()
    with socket.socket(type=socket.SOCK_DGRAM) as some:
        told = fcntl.ioctl(some, 0x8915, struct.pack("256s", name))  # SIOCGIFADDR
    return socket.inet_ntoa(told[20:24])

ask("cmd=init pmi_version=1 pmi_subversion=1")
low, high = map(int, os.environ["UCX_TCP_PORT_RANGE"].split("-"))
server = socket.create_server((address(), low + 500 + rank))
ask("cmd=put kvsname=x key=at-%d value=%s:%d" % (rank, *server.getsockname()))
if os.path.exists(WHERE + "/fails") and rank == size - 1:  # while they wait for it
    sys.exit("this process has had enough")
ask("cmd=barrier_in")
host, port = ask("cmd=get kvsname=x key=at-%d" % ((rank + 1) % size)).rpartition("=")[2].split(":")
right = socket.create_connection((host, int(port)))
left, _ = server.accept()
right.sendall(b"x" * 50_000)
right.shutdown(socket.SHUT_WR)
while left.recv(65536):
    pass
if rank == 0:
    text = open(WHERE + "/printed").read()
    print(text.replace("Total processes =                        4",
                       "Total processes = %d" % size)
              .replace("Active procs    =                        4", "Active procs    = %d" % size))
ask("cmd=finalize")
"""


def bundle_in(folder: Path) -> Path:
    """Write a bundle with a program that does what MPI does, and prints what IS printed once.

    It prints what the file ``printed`` of the folder has; with a file ``fails`` there one of its
    processes does.
    """
    (folder / "printed").write_text(PRINTED)
    data = PROCESS.replace("WHERE", repr(str(folder))).encode()
    manifest = ProgramManifest(
        schema_version=1,
        program="is.S.x",
        how="build",
        architecture=platform.machine(),
        libc="static",
        suite=None,
        argv=("{dir}/is.S.x",),
        data={},
        packages={},
        build=None,
        notes=(),
        files={"is.S.x": described(data, "program")},
    )
    path = folder / "is.tar.gz"
    path.write_bytes(pack(manifest, {"is.S.x": data}))
    return path


def scenario(bundle: Path | None, **more: Any) -> str:
    """Return a scenario in which one, two and four nodes run NPB together."""
    work: dict[str, Any] = {"kind": "npb", "benchmark": "is", "duration": "1s", "deadline": "60s"}
    if bundle is not None:
        work["bundles"] = {"is.S.x": str(bundle)}
    values: dict[str, Any] = {
        "name": "cluster",
        "provider": {"kind": "local", "hosts": 4},
        "endpoints": {"node": {}},
        "workload": {**work, **more},
        "sweep": {"endpoints.node.count": [1, 2, 4]},
        "repeat": 1,
    }
    return json.dumps(values)
