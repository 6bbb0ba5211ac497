"""ping and pong in Python, with http.server: what docs/pingpong.md says of their answers.

python3 pingpong.py pong [--bind ADDRESS] [--port PORT]
python3 pingpong.py ping --pong HOST:PORT [--retries N] [--timeout S] [--bind ADDRESS] [--port PORT]
"""

from __future__ import annotations

import argparse
import http.client
import re
import socket
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LONGEST = 1 << 30
PART = 1 << 16
LAST_PAUSE_S = 0.256
NO_PATH = b"pong has /pong/N, ping has /ping/N and /mping/N\n"
TOO_LONG = b"the longest answer has 1073741824 bytes\n"
HOST = r"(?a:[\w!$%&'()*+,.:;=\[\]~-]*)"
NO_METHOD = b"only GET and HEAD are answered\n"
NO_HTTP = b"this is no HTTP/1.1\n"
NO_PONG = b"pong can't be reached\n"
ANSWER = '{{"length": {}, "code": {}, "retries": {}, "duration": {:.6f}}}'

options: argparse.Namespace


def pattern(length: int) -> Iterator[bytes]:
    """Yield the parts of pong's answer: p, then o's, then ng."""
    yield b"p"
    for at in range(0, length - 3, PART):
        yield b"o" * min(PART, length - 3 - at)
    yield b"ng"


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection; a subclass answers those of its paths."""

    protocol_version = default_request_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 75
    wbufsize = -1  # the head goes out with the beginning of the body
    paths: str

    def do_GET(self) -> None:
        """Answer a request, or refuse it."""
        if not self.names_host():
            self.close_connection = True
            self.answer(400, NO_HTTP)
            return
        target = self.requestline.split()[1]  # of self.path several slashes are one
        target = re.sub("^(?i:http)://[^/]*", "", target).partition("?")[0]
        found = re.fullmatch(f"/({self.paths})/([0-9]+)", target)
        if found is None:
            self.answer(404, NO_PATH)
            return
        digits = found[2].lstrip("0") or "0"
        if len(digits) > 10 or int(digits) > LONGEST:
            self.answer(400, TOO_LONG)
        else:
            self.serve(found[1], int(digits))

    def names_host(self) -> bool:
        """Whether a request has the one Host that it needs; HTTP/1.0 needs none."""
        hosts = self.headers.get_all("Host", [])
        if not hosts:
            return self.request_version == "HTTP/1.0"
        return len(hosts) == 1 and re.fullmatch(HOST, hosts[0]) is not None

    do_HEAD = do_GET  # noqa: N815 - http.server calls it so

    def serve(self, path: str, length: int) -> None:
        """Answer a request for so many bytes."""
        raise NotImplementedError

    def head(self, status: int, content_type: str, **fields: object) -> None:
        """Send a head; the names of further fields have _ for -."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), str(value))
        if self.close_connection:
            self.send_header("Connection", "close")
        elif self.request_version == "HTTP/1.0":
            self.send_header("Connection", "keep-alive")
        self.end_headers()

    def answer(
        self, status: int, body: bytes, content_type: str = "text/plain", **fields: object
    ) -> None:
        """Send a short answer."""
        self.head(status, content_type, Content_Length=len(body), **fields)
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, *_more: object) -> None:
        """Refuse what http.server does not take for a request, or has no method for."""
        self.close_connection = True
        if code == 501 and self.names_host():
            self.answer(405, NO_METHOD, Allow="GET, HEAD")
        else:
            self.answer(400 if code == 501 else code, NO_HTTP)

    def log_message(self, *_more: object) -> None:
        """Log nothing."""


class Pong(Handler):
    """GET /pong/N."""

    paths = "pong"

    def serve(self, path: str, length: int) -> None:  # noqa: ARG002 - it has the one
        """Send so many bytes, four at least."""
        length = max(length, 4)
        self.head(200, "text/plain", Content_Length=length)
        if self.command != "HEAD":
            for part in pattern(length):
                self.wfile.write(part)


class Ping(Handler):
    """GET /ping/N and /mping/N; each client has a connection to pong for itself."""

    paths = "m?ping"

    def setup(self) -> None:
        """Take up a client."""
        super().setup()
        host, _, port = options.pong.rpartition(":")
        self.pong = http.client.HTTPConnection(host.strip("[]"), port, timeout=options.timeout)

    def finish(self) -> None:
        """Leave pong with the client."""
        self.pong.close()
        super().finish()

    def serve(self, path: str, length: int) -> None:
        """Ask pong again and again, with growing pauses, and answer with what came of it."""
        arrival = time.perf_counter()
        retries, self.begun = 0, False
        try_it = self.measure if path == "mping" else self.relay
        while True:
            reused = self.pong.sock is not None
            try:
                code, received = try_it(f"/pong/{length}")
                break
            except (OSError, http.client.HTTPException) as error:
                self.pong.close()
                if self.begun:  # what the client has got can't be taken back
                    self.close_connection = True
                    return
                if reused and isinstance(error, ConnectionError):
                    continue  # pong had closed the kept connection, which says nothing about it
            late = time.perf_counter() >= arrival + options.timeout
            if retries >= options.retries or late:
                code, received = 503, 0
                break
            time.sleep(min(LAST_PAUSE_S, 0.001 * 2**retries))
            retries += 1
        duration_ms = 1000 * (time.perf_counter() - arrival)
        if path == "mping":
            told = ANSWER.format(received, code, retries, duration_ms)
            self.answer(503 if code == 503 else 200, told.encode(), "application/json")
        elif not self.begun:
            self.answer(503, NO_PONG)

    def measure(self, path: str) -> tuple[int, int]:
        """Return the status and the number of bytes of pong's answer."""
        self.pong.request("GET", path)
        response, received = self.pong.getresponse(), 0
        while part := response.read(PART):
            received += len(part)
        if response.length:  # read(n) does not tell that the rest is missing
            raise http.client.IncompleteRead(b"", response.length)
        return response.status, received

    def relay(self, path: str) -> tuple[int, int]:
        """Hand pong's answer on as it comes."""
        self.pong.request(self.command, path)
        response = self.pong.getresponse()
        length = response.getheader("Content-Length")
        if length is None:  # its end is the connection's
            self.close_connection = True
        self.begun = True
        self.head(response.status, "text/plain", **{"Content_Length": length} if length else {})
        received = 0
        while part := response.read(PART):
            self.wfile.write(part)
            received += len(part)
        if response.length and self.command != "HEAD":
            raise http.client.IncompleteRead(b"", response.length)
        return response.status, received


class Server(ThreadingHTTPServer):
    """A thread for each connection."""

    request_queue_size = 4096

    def __init__(self, address: str, port: int, handler: type[Handler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, port), handler)

    def handle_error(self, *_more: object) -> None:
        """Leave a client alone that has gone."""


def main() -> None:
    """Serve until the end."""
    parser = argparse.ArgumentParser(description="ping and pong, an HTTP service in two parts")
    parser.add_argument("what", choices=["ping", "pong"])
    parser.add_argument("--bind", metavar="ADDRESS", default="0.0.0.0")  # noqa: S104 - as all servers
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--pong", metavar="HOST:PORT")
    parser.add_argument("--retries", type=int, default=10)
    parser.add_argument("--timeout", type=float, default=10.0)
    global options  # noqa: PLW0603 - as handlers are made by the server
    options = parser.parse_args()
    if options.what == "ping" and not options.pong:
        parser.error("ping needs --pong HOST:PORT")
    Server(options.bind, options.port, Pong if options.what == "pong" else Ping).serve_forever()


if __name__ == "__main__":
    main()
