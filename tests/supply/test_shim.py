"""Libraries that stand in for what an endpoint lacks."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from osmef.errors import SupplyError
from osmef.supply import compiler
from osmef.supply.build import without_network
from osmef.supply.bundle import HERE
from osmef.supply.closure import command_line, parse
from osmef.supply.program import NAMES, find_architecture, this_architecture

ASKS = "import socket; print(*(socket.getprotobyname(name) for name in ('tcp', 'udp', 'icmp')))"
HIDDEN = 'mount --bind /dev/null /etc/protocols && exec "$@"'


def made(architecture: str) -> bytes:
    return compiler.shim(
        compiler.PROTOCOLS_SHIM, find_architecture(architecture), "a test", lambda: None
    )


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / compiler.SHIM_FILE
    path.write_bytes(made(this_architecture().name))
    return path


def asked(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Ask for protocols where /etc/protocols is empty."""
    alone = ("unshare", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")), "--mount")
    return subprocess.run(
        [*alone, "sh", "-c", HIDDEN, "sh", sys.executable, "-c", ASKS, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.skipif(
    not without_network() or not Path("/etc/protocols").is_file(),
    reason="no namespaces here, or no /etc/protocols that could be hidden",
)
def test_protocol_names_are_resolved_without_etc_protocols(library: Path) -> None:
    assert "protocol not found" in asked().stderr
    assert asked(LD_PRELOAD=str(library)).stdout.split() == ["6", "17", "1"]


def test_an_unknown_protocol_name_is_an_error(library: Path) -> None:
    script = "import socket; socket.getprotobyname('tcpx')"
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment
    )
    assert "protocol not found" in done.stderr


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="no ziglang here")
@pytest.mark.parametrize("architecture", NAMES)
def test_it_is_for_the_machine_of_the_endpoint(architecture: str, tmp_path: Path) -> None:
    path = tmp_path / compiler.SHIM_FILE
    path.write_bytes(made(architecture))
    found = parse(path.read_bytes())
    assert (found.machine, found.needed) == (find_architecture(architecture).elf, ())


def test_without_a_compiler_there_is_a_cure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(compiler, "search_path", lambda: str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(SupplyError, match="no compiler for") as caught:
        made(this_architecture().name)
    assert caught.value.cure == "pip install ziglang"


def test_the_loader_preloads_the_shim_before_the_program() -> None:
    contents = {"ld.so": b"--argv0", compiler.SHIM_FILE: b"", "NPtcp": b""}
    words = command_line("NPtcp", "ld.so", contents)
    assert words[words.index("--preload") + 1] == f"{HERE}/{compiler.SHIM_FILE}"
    assert "--preload" not in command_line("NPtcp", "ld.so", {"ld.so": b""})
