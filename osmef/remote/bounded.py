"""A connection that neither its peer nor a channel's end can break, and bounds on what it takes.

paramiko by itself sends what is late to a channel that has been closed, at which sshd ends the
whole connection (RFC 4254, 5.3), and takes packets of up to 4 GiB, a greeting without end, and any
number of bytes on a channel whose window is full.
"""

from __future__ import annotations

import socket
import struct
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

import paramiko
from paramiko.common import (
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EXTENDED_DATA,
    cMSG_CHANNEL_CLOSE,
    cMSG_CHANNEL_DATA,
    cMSG_CHANNEL_EOF,
    cMSG_CHANNEL_EXTENDED_DATA,
    cMSG_CHANNEL_REQUEST,
)
from paramiko.packet import Packetizer

from osmef.units import format_size

MAX_OUTPUT_BYTES = 8_000_000
"""Of what a program prints, on each of its two outputs."""
MAX_SFTP_BYTES = 1_000_000
"""Of all answers of a file server, beside what the files hold that are read."""

_MAX_PACKET_BYTES = 262_144
"""As OpenSSH has it; RFC 4253 (6.1) asks for 35000."""
_MAX_GREETING_BYTES = 64_000
"""Of all lines that come before the encrypted connection (RFC 4253, 4.2)."""
_MAX_WAITING_BYTES = 4_194_304
"""Of what a channel has received and nothing has read yet; its window is half as large."""
_PART_BYTES = 65_536


class Flood(paramiko.SSHException):
    """The peer exceeds a bound."""

    def __init__(self, what: str, most: int) -> None:
        super().__init__(f"{what} of more than {format_size(most)}")


class _Packetizer(Packetizer):
    _greeting_bytes = 0

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        if n > _MAX_PACKET_BYTES:
            raise Flood("it sent a packet", _MAX_PACKET_BYTES)
        return super().read_all(n, check_rekey)

    def _read_timeout(self, timeout: float) -> bytes:
        """Read a part of the unencrypted greeting."""
        data = cast("bytes", super()._read_timeout(timeout))  # type: ignore[misc] # no stub
        self._greeting_bytes += len(data)
        if self._greeting_bytes > _MAX_GREETING_BYTES:
            raise Flood("it sent a greeting", _MAX_GREETING_BYTES)
        return data


def _feed(take: Callable[[paramiko.Channel, Any], None]) -> Callable[[paramiko.Channel, Any], None]:
    def feed(channel: Any, message: Any) -> None:
        if len(channel.in_buffer) + len(channel.in_stderr_buffer) > _MAX_WAITING_BYTES:
            raise Flood("it sent output that was not asked for", _MAX_WAITING_BYTES)
        take(channel, message)

    return feed


_TO_A_CHANNEL = {
    *(cMSG_CHANNEL_DATA, cMSG_CHANNEL_EXTENDED_DATA, cMSG_CHANNEL_EOF, cMSG_CHANNEL_REQUEST),
}


class Transport(paramiko.Transport):
    """A transport that is closed with a Flood when the peer exceeds a bound."""

    _channel_handler_table = {  # noqa: RUF012 - as in paramiko
        **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined] # noqa: SLF001
        MSG_CHANNEL_DATA: _feed(paramiko.Channel._feed),  # type: ignore[attr-defined] # noqa: SLF001
        MSG_CHANNEL_EXTENDED_DATA: _feed(paramiko.Channel._feed_extended),  # type: ignore[attr-defined] # noqa: SLF001
    }

    def __init__(self, connection: socket.socket | paramiko.Channel) -> None:
        super().__init__(connection, packetizer_class=_Packetizer)
        self._opened: weakref.WeakSet[paramiko.Channel] = weakref.WeakSet()
        self._closed: set[bytes] = set()
        """The peer's numbers of channels to which we have sent a close, as in messages."""

    def open_channel(self, *args: Any, **more: Any) -> paramiko.Channel:
        """Open a channel, as paramiko does, and register it."""
        channel = super().open_channel(*args, **more)
        self._closed.discard(struct.pack(">I", channel.remote_chanid))
        self._opened.add(channel)
        return channel

    def _send_message(self, data: paramiko.Message) -> None:
        """Send a message, but none to a channel after its close: its end may overtake a thread."""
        words = data.asbytes()
        kind, number = words[:1], words[1:5]
        if kind == cMSG_CHANNEL_CLOSE:
            self._closed.add(number)
        elif kind in _TO_A_CHANNEL and number in self._closed:
            return
        super()._send_message(data)  # type: ignore[misc] # no stub

    def give_up(self) -> None:
        """Close the connection, and wake all waiting threads.

        paramiko lets who begins to wait just as a connection ends do so for ever.
        """
        self.close()
        for channel in list(self._opened):
            channel.event.set()


class FileClient(paramiko.SFTPClient):
    """An SFTP client with bounded answers."""

    left = MAX_SFTP_BYTES
    """How many bytes may come yet; who reads a file allows for its length, too."""

    def _read_all(self, n: int) -> bytes:
        self.left -= n
        if self.left < 0:
            raise Flood("its file server sent answers", MAX_SFTP_BYTES)
        return cast("bytes", super()._read_all(n))  # type: ignore[misc] # the stubs leave it out


def outputs_of(channel: paramiko.Channel) -> tuple[bytes, bytes]:
    """Return a program's standard output and error. Raises Flood, and as paramiko."""
    with ThreadPoolExecutor(1) as pool:
        errors = pool.submit(_whole, channel, partial(_patiently, channel), "errors")
        output = _whole(channel, channel.recv, "output")
        return output, errors.result()


def _patiently(channel: paramiko.Channel, count: int) -> bytes:
    """Wait for standard error as long as for standard output.

    A channel that is closed has what came before: a program may have ended by now.
    """
    while True:
        try:
            return channel.recv_stderr(count)
        except TimeoutError:
            if channel.closed:
                return b""


def _whole(channel: paramiko.Channel, receive: Callable[[int], bytes], what: str) -> bytes:
    """Read to the end; an error closes the channel, which ends the other stream, too."""
    data = bytearray()
    try:
        while part := receive(_PART_BYTES):
            data += part
            if len(data) > MAX_OUTPUT_BYTES:
                raise Flood(f"it printed {what}", MAX_OUTPUT_BYTES)
    except BaseException:
        channel.close()
        raise
    return bytes(data)
