"""A connection that ends in the moment in which somebody begins to wait for an answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import paramiko
import pytest

from osmef.remote.keys import KeyPair
from osmef.remote.session import Session
from tests.memory.endpoint import Machine
from tests.memory.model import Path
from tests.memory.network import Network


@pytest.fixture
def machine() -> Iterator[Machine]:
    network = Network(lambda _one, _other: Path())
    made = Machine("vm-1", "192.0.2.1", network, lambda _name, _command: None)
    yield made
    made.close()


@dataclass
class LastWords:
    """A command that is asked for its bytes when the channel still stands, and then does not."""

    machine: Machine
    transport: paramiko.Transport

    def asbytes(self) -> bytes:
        self.machine.switch_off()
        self.transport.join()
        return b"true"


def test_the_wait_ends_with_its_limit(machine: Machine) -> None:
    with closing(Session.open(machine.login(KeyPair.generate("run")))) as session:
        channel = session._transport.open_session()
        words = LastWords(machine, session._transport)
        with pytest.raises(TimeoutError, match="no answer in"), session._limit(0.2):
            channel.exec_command(words)
