"""Search of users' patterns in a process of its own, with a limit of CPU time.

A pattern such as ``((?:a+)+)$`` takes years on forty characters (catastrophic backtracking), and
Python's ``re`` neither ends by itself nor lets other threads run meanwhile, those that handle
Ctrl-C among them.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from threading import Lock

from osmef.programs import start_apart

LIMIT_S = 10
"""CPU time of one search, in seconds."""
_TRIES = 2

# The kernel ends it by SIGXCPU, so also where OSMeF itself was killed meanwhile.
_SERVER = """
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for line in sys.stdin.buffer:
    pattern, text, limit_s = json.loads(line)
    used = resource.getrusage(resource.RUSAGE_SELF)
    bound = int(used.ru_utime + used.ru_stime) + 1 + limit_s
    resource.setrlimit(resource.RLIMIT_CPU, (bound, resource.RLIM_INFINITY))
    print(json.dumps(re.findall(pattern, text)), flush=True)
"""


class _Matcher:
    """The process, which is started for the first search and ends with this one."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner = 0
        self._process: subprocess.Popen[bytes] | None = None

    def search(self, pattern: str, text: str, limit_s: int) -> list[str]:
        line = json.dumps([pattern, text, limit_s]).encode() + b"\n"
        with self._lock:
            # Something may have killed it, as the kernel does for want of memory.
            for _ in range(_TRIES):
                process = self._started()
                if answer := _ask(process, line):
                    found: list[str] = json.loads(answer)
                    return found
                self._end()
                if process.returncode == -signal.SIGXCPU:
                    raise TimeoutError
        raise ChildProcessError(f"the process that searches ended with {process.returncode}")

    def _started(self) -> subprocess.Popen[bytes]:
        # One that was forked from this process must not share its pipes.
        if self._process is None or self._owner != os.getpid():
            argv, pipe = [sys.executable, "-I", "-S", "-c", _SERVER], subprocess.PIPE
            self._process = start_apart(argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
            self._owner = os.getpid()
        return self._process

    def close(self) -> None:
        """End the process, if it is this one's."""
        process = self._process
        if process is not None and self._owner == os.getpid():
            process.kill()
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(BrokenPipeError):
                process.communicate()


def _ask(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    """Return the answer of the process, nothing where it has ended."""
    assert process.stdin is not None  # noqa: S101 - both are pipes
    assert process.stdout is not None  # noqa: S101
    with suppress(BrokenPipeError):
        process.stdin.write(line)
        process.stdin.flush()
    return process.stdout.readline()


_MATCHER = _Matcher()
atexit.register(_MATCHER.close)


def find_all(pattern: str, text: str, limit_s: int = LIMIT_S) -> list[str]:
    """Return all matches of a pattern with one group, as ``re.findall`` does.

    Raises TimeoutError where that takes more than ``limit_s`` seconds of CPU time, and
    ChildProcessError where the process ends otherwise.
    """
    return _MATCHER.search(pattern, text, limit_s)
