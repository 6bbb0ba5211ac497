"""A machine whose programs print what no honest one does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osmef.agent.client import deploy
from osmef.errors import AgentError, EndpointError, NotFoundError, OsmefError, ReachError
from osmef.facts.collect import collect
from osmef.providers.base import EndpointRequest
from osmef.providers.static.lock import LockOwner
from osmef.providers.static.machine import addresses, endpoint_of
from osmef.remote.session import SshSession
from osmef.scenario.clouds.static import InventoryHost
from osmef.scenario.fields import EndpointKind
from tests.sshd import Sshd

BY_INTERFACE = InventoryHost(ssh="vm-1", interface="eth0")
BY_SSH = InventoryHost(ssh="vm-1")
WRITTEN = InventoryHost(ssh="vm-1", data_address="127.0.0.1")
HOST = EndpointRequest("host-1", "sender", EndpointKind.HOST, None, "host-1", None)
HOLDER = LockOwner("run", "host-1", 1, 2)


@dataclass
class Liar:
    """A machine, and what every program on it prints."""

    session: SshSession
    says: Path
    sshd: Sshd

    def cpus(self) -> int | None:
        return endpoint_of(self.session, self.sshd.login(), HOLDER, HOST, WRITTEN).vcpus


@pytest.fixture(scope="module")
def liar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Liar]:
    folder = tmp_path_factory.mktemp("liar")
    server = Sshd(folder, options=f"SetEnv HOME={folder}\nForceCommand cat {folder}/says")
    session = SshSession.open(server.login())
    yield Liar(session, folder / "says", server)
    session.close()
    server.close()


NUMBERS = (b"9" * 5000, b"-1", b"0" * 100, b"1e9", b"\xc2\xb2", "٣".encode(), b"4\0", b"\xff\xfe")
NAMES = (
    b"x86\0_64",
    b"../../../../../../etc/passwd",
    b"\xed\xb2\x80",
    b"\x1b]0;x\x07",
    b"x" * 9999,
)
LINES = (
    b"2: eth0 inet \0/24\n",
    b"2: eth0 inet 300.1.1.1/24\n2: eth0 inet6 x\n",
    b"2: eth0 color red/1\n",
    b"2: eth0 inet ::1/1\n",
    b"1 2 999.0.0.1 4",
    b"\xff \xff \xff",
)


def ask(liar: Liar, said: bytes) -> None:
    """Ask all that is asked there: an answer makes sense, or it is an error of this machine."""
    liar.says.write_bytes(said)
    questions: tuple[Callable[[], object], ...] = (
        lambda: liar.cpus() in (None, *range(10**6)),
        lambda: [ip_address(one) for one in addresses(liar.session, BY_INTERFACE)],
        lambda: [ip_address(one) for one in addresses(liar.session, BY_SSH)],
        lambda: json.dumps(collect(liar.session), allow_nan=False),
        lambda: deploy(liar.session, ".osmef-liar"),
    )
    errors: list[OsmefError] = []
    for question in questions:
        try:
            assert question()
        except (EndpointError, NotFoundError) as error:
            errors.append(error)
    for one in errors:
        assert one.where == "vm-1" or isinstance(one, AgentError)
        assert one.cure
        assert len(str(one)) < 1000


@pytest.mark.parametrize("said", [*NUMBERS, *NAMES])
def test_a_program_that_prints_no_word_is_an_error_of_its_machine(liar: Liar, said: bytes) -> None:
    ask(liar, said)
    with pytest.raises(ReachError, match="print"):
        liar.cpus()


@pytest.mark.parametrize("said", LINES)
def test_an_invalid_address_is_an_error_of_its_machine(liar: Liar, said: bytes) -> None:
    ask(liar, said)
    with pytest.raises(NotFoundError):
        addresses(liar.session, BY_INTERFACE)


@settings(max_examples=20)
@given(st.binary(max_size=200) | st.from_regex(rb"(2: eth0 inet6? .*/24)?\n", fullmatch=True))
def test_no_output_makes_the_controller_fail(liar: Liar, said: bytes) -> None:
    ask(liar, said)
