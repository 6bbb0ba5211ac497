"""The data plane of the cloud: serves STATE/fabric.sock until it is ended.

Neutron tells what it knows, nova's hosts have guests booted and ended. Namespaces are named in a
mount namespace of this process, so nothing is left of them when it and the guests have gone. A
request is a line of JSON, and so is the answer: null, or what went wrong.
"""

from __future__ import annotations

import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.openstack.services.network import LAB, Cables, ip, run

GUEST = Path(__file__).with_name("guest.py")


class Fabric:
    """The cables and the guests on them."""

    def __init__(self, state: Path) -> None:
        self.folder = state / "guests"
        self.cables = Cables()
        self.guests: dict[str, subprocess.Popen[bytes]] = {}
        self.lock = threading.Lock()

    def do(self, request: dict[str, Any]) -> None:
        """Carry out a request. Raises OSError."""
        with self.lock:
            match request["do"]:
                case "apply":
                    self.cables.apply(request["told"])
                case "boot":
                    self.end(request["guest"]["id"])
                    self.boot(request["guest"])
                case "end":
                    self.end(request["id"])

    def boot(self, guest: dict[str, Any]) -> None:
        """Plug a guest in and start it."""
        key, ports = guest["id"], guest["ports"]
        namespace = f"g-{key[:11]}"
        run(["ip", "netns", "add", namespace])
        ip(namespace, "link set lo up")
        self.cables.guests[key] = [port["id"] for port in ports]
        self.cables.protect(key)
        for number, port in enumerate(ports):
            self.cables.plug(namespace, f"eth{number}", port["port"], port["mtu"])
            if port["gateway"] and number == 0:
                ip(namespace, f"route add default via {port['gateway']}")
        folder = self.folder / key
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "spec.json").write_text(json.dumps(guest))
        alone = ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]
        argv = ["ip", "netns", "exec", namespace, *alone, "--mount-proc", sys.executable]
        with (folder / "console").open("ab") as console:
            self.guests[key] = subprocess.Popen(
                [*argv, str(GUEST), str(folder / "spec.json")],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
            )

    def end(self, key: str) -> None:
        """Switch a guest off; fine when there is none."""
        guest = self.guests.pop(key, None)
        if guest is None:
            return
        guest.kill()
        guest.wait()
        run(["ip", "netns", "delete", f"g-{key[:11]}"])
        for port in self.cables.guests.pop(key):
            # The pair goes with the namespace, but only once the last process in it is gone.
            subprocess.run(
                ["ip", "-n", LAB, "link", "delete", f"t-{port[:11]}"],
                stderr=subprocess.DEVNULL,
                check=False,
            )
        self.cables.rules.pop(f"g-{key[:11]}", None)


class Handler(socketserver.StreamRequestHandler):
    """Answers one request."""

    def handle(self) -> None:
        """Read, do, answer."""
        try:
            FABRIC.do(json.loads(self.rfile.readline()))
            answer = None
        except OSError as error:
            sys.stderr.write(f"{error}\n")
            answer = str(error)
        self.wfile.write(json.dumps(answer).encode() + b"\n")


class Server(socketserver.ThreadingUnixStreamServer):
    """Listens at the socket."""

    daemon_threads = True
    request_queue_size = 128


def end_all(*_: object) -> None:
    """End at once, and the guests, which are in the group that this process leads."""
    os.killpg(0, signal.SIGKILL)


state = Path(sys.argv[1])
signal.signal(signal.SIGTERM, end_all)
run(["mount", "-t", "tmpfs", "tmpfs", "/run"])
FABRIC = Fabric(state)
socket_path = state / "fabric.sock"
socket_path.unlink(missing_ok=True)
with Server(str(socket_path), Handler) as server:
    server.serve_forever()
