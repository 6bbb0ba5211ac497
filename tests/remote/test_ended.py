"""What ends in the moment in which something is sent there, or an answer is waited for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import paramiko
import pytest
from paramiko.common import cMSG_CHANNEL_DATA, cMSG_CHANNEL_EOF

from osmef.remote.login import KeyPair
from osmef.remote.session import SshSession
from tests.memory.endpoint import Machine
from tests.memory.model import Path
from tests.memory.network import Network
from tests.sshd import Sshd
from tests.waiting import until


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
    with closing(SshSession.open(machine.login(KeyPair.generate("run")))) as session:
        channel = session._transport.open_session()
        words = LastWords(machine, session._transport)
        with pytest.raises(TimeoutError, match="no answer in"), session._limit(0.2):
            channel.exec_command(words)


def test_late_input_to_an_ended_program_does_not_close_the_connection(sshd: Sshd) -> None:
    """paramiko may send a channel's last words after its close, at which sshd hangs up."""
    with closing(SshSession.open(sshd.login())) as session:
        transport = session._transport
        for late in ("eof", "data"):
            channel = transport.open_session()
            channel.exec_command("true")
            words = paramiko.Message()
            words.add_byte({"eof": cMSG_CHANNEL_EOF, "data": cMSG_CHANNEL_DATA}[late])
            words.add_int(channel.remote_chanid)
            if late == "data":
                words.add_string(b"more")
            until(partial(getattr, channel, "closed"))
            transport._send_message(words)
            assert session.word(["echo", late]) == late, "as a new channel, of the same number"
            assert session.run(["cat"], stdin=b"all of it").stdout == b"all of it"
