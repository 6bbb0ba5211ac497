"""ping and pong of every language as processes of this machine, and what they say to raw bytes."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path

import pytest

from osmef.errors import SupplyError
from osmef.supply.bundle import BundleStore
from osmef.supply.program import this_architecture
from osmef.supply.supply import Supplier, make
from osmef.workloads.kinds.pingpong import LANGUAGES, Implementation
from tests.agents.lab import TIMEOUT_S, closed_port, dial

_DURATION = re.compile(rb'"duration": \d+\.\d{6}}$')


@dataclass(frozen=True)
class Reply:
    """What a client is told; a duration is left out, since no two are the same."""

    status: int
    body: bytes
    fields: dict[str, str | None]

    @classmethod
    def read(cls, connection: socket.socket, method: bytes) -> Reply:
        response = HTTPResponse(connection, method=method.decode())
        response.begin()
        names = ("Content-Type", "Content-Length", "Allow")
        body = response.read()
        timeless = _DURATION.sub(b'"duration": T}', body)
        told = {name: response.getheader(name) for name in names}
        if timeless != body or response.getheader("Content-Type") == "application/json":
            told["Content-Length"] = None
        return cls(response.status, timeless, told)


def runtime_of(language: Implementation) -> list[str]:
    """Return the words that start a language's programs, without their own names, or skip."""
    runtime = LANGUAGES[language].runtime
    path = shutil.which(runtime.name) if runtime else ""
    if path is None:
        pytest.skip(f"no {runtime.name if runtime else language} on this machine")
    if language is Implementation.RUBY:
        asked = subprocess.run([path, "-rwebrick", "-e", ""], capture_output=True, check=False)
        if asked.returncode != 0:
            pytest.skip("the ruby of this machine has no webrick")
    return [path] if path else []


def made(language: Implementation, folder: Path) -> list[str]:
    """Make a language's programs as they are made for an endpoint; return what starts them."""
    start = runtime_of(language)
    program = LANGUAGES[language].program
    try:
        bundle = make(
            "build", program, this_architecture(), Supplier(BundleStore(folder / "store"))
        )
    except SupplyError as error:
        if "this machine has no" not in error.message:
            raise
        pytest.skip(error.message)
    for name, data in bundle.contents.items():
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o700)
    places = {word: str(folder / name) for word, name in bundle.manifest.data.items()}
    words = LANGUAGES[language].words
    return [*start, *(places.get(word, word) for word in words[1:])] or [str(folder / program.name)]


@contextmanager
def serving(argv: Sequence[str], *options: str, bind: str = "127.0.0.1") -> Iterator[int]:
    """Run ping or pong; give its port once it listens there."""
    port = closed_port()
    words = [*argv, *options, "--bind", bind, "--port", str(port)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while not _listens(bind, port):
                if process.poll() is not None and process.stderr is not None:
                    raise AssertionError(process.stderr.read().decode())
                assert time.monotonic() < deadline, "it does not listen"
            yield port
        finally:
            process.kill()


def _listens(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), TIMEOUT_S).close()
    except ConnectionRefusedError:
        return False
    return True


def reply(port: int, data: bytes) -> Reply:
    """Return what a server says to the bytes of one request."""
    with dial(port) as connection:
        connection.sendall(data)
        return Reply.read(connection, data.partition(b" ")[0])


def head_of(method: str, target: str, *fields: str, version: str = "1.1") -> bytes:
    """Return the bytes of a request."""
    lines = [f"{method} {target} HTTP/{version}", "Host: a", *fields, "", ""]
    return "\r\n".join(lines).encode()
