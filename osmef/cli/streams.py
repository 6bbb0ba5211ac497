"""Standard output and error that never raise: a closed pipe must not end a run."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from typing_extensions import override

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# A reader of progress may pause so long (Ctrl-S, less); what it does not take by then is dropped.
_TIMEOUT_S = 10.0


class LossyWriter(io.RawIOBase):
    """Writer to a descriptor that never raises OSError: undeliverable output is dropped.

    Each write is retried, since a full disk may have room again. Nothing is buffered, so a
    signal handler may write while others do. ``failure`` is the first, if something was dropped.
    With ``timeout_s`` it waits at most so long for a reader, without as long as that takes.
    """

    def __init__(self, descriptor: int, timeout_s: float | None = None) -> None:
        self._descriptor, self._timeout_s = descriptor, timeout_s
        self._is_stalled = self._has_dropped = False
        self._ended = b"\n"
        self.failure: OSError | None = None

    @override
    def writable(self) -> bool:
        return True

    @override
    def fileno(self) -> int:
        return self._descriptor

    @override
    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    @override
    def write(self, data: ReadableBuffer, /) -> int:
        text = bytes(data)
        # After a gap a new line begins, so that none is made of the halves of two.
        left = b"\n" + text if self._has_dropped and self._ended != b"\n" else text
        try:
            while left:
                written = self._write_some(left)
                self._ended, left = left[:written][-1:] or self._ended, left[written:]
            self._has_dropped = False
        except OSError as error:
            self._has_dropped, self.failure = True, self.failure or error
        return len(text)

    def _write_some(self, data: bytes) -> int:
        """Write as much as possible without blocking; return how much. Raises OSError."""
        self._wait()
        # So much never blocks once a pipe is ready: pipe(7).
        most = len(data) if self._timeout_s is None else select.PIPE_BUF
        try:
            return os.write(self._descriptor, data[:most])
        except BlockingIOError:  # another process has made it so, and was faster
            return 0

    def _wait(self) -> None:
        """Wait until the descriptor is writable. Raises TimeoutError."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        timeout_s = 0.0 if self._is_stalled else self._timeout_s
        self._is_stalled = not poll.poll(None if timeout_s is None else 1000 * timeout_s)
        if self._is_stalled:
            raise TimeoutError(errno.ETIMEDOUT, "its reader does not read")


def stream_to(outlet: LossyWriter, encoding: str | None = None) -> TextIO:
    """Return a text stream to it; characters outside of the encoding are written as ?."""
    return io.TextIOWrapper(
        cast("BinaryIO", outlet), encoding, errors="replace", write_through=True
    )


def failure_of(stream: object) -> OSError | None:
    """Return the error of a stream of ``stream_to`` that has dropped output; None without."""
    outlet = getattr(stream, "buffer", None)
    return outlet.failure if isinstance(outlet, LossyWriter) else None


def set_up_streams() -> None:
    """Replace Python's standard streams by ones that never raise OSError."""
    _fill_gaps()
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - it has no path
    sys.stdout = stream_to(LossyWriter(1), getattr(sys.stdout, "encoding", None))
    sys.stderr = stream_to(LossyWriter(2, _TIMEOUT_S), getattr(sys.stderr, "encoding", None))


def _fill_gaps() -> None:
    """Open closed descriptors among 0 to 2: else the next file would get their numbers.

    They are open for reading alone, so what is written there fails as before.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)
