"""Programs as root on an endpoint, and their errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from osmef.errors import EndpointError

if TYPE_CHECKING:  # paramiko takes long to import, and `osmef validate` knows layers, too
    from osmef.remote.session import ProgramResult, SshSession

ENGINES = ("podman", "docker")
"""Programs that make containers, the first choice first."""
CRUN = "crun"
"""Makes them where there is none of these, see `osmef.layers.crun`."""
_ENGINE_S = 300
"""How long those may take, which unpack images and set networks up, in seconds."""
_REMOVALS = {"rm", "rmi"}
_GRACE_S = 10
_ENDED_BY_FORCE = {124: "was ended", 137: "was killed, unless a lack of memory did that"}
"""Exit statuses of timeout(1) for a program that it has ended."""
_PACKAGES = {
    "ip": "iproute2",
    "bridge": "iproute2",
    "tc": "iproute2",
    "nft": "nftables",
    "wg": "wireguard-tools",
    "setpriv": "util-linux",
}
_WITHIN = ("ip", "netns", "exec")
_NOT_FOUND = 127  # a shell's exit status for a missing program (POSIX)
_MAX_MESSAGE_CHARS = 300
# Errors of sudo and ip netns exec for a missing program.
_MISSING = re.compile(r"command not found|exec of .* failed: No such file or directory")
_IN_USE = (
    "File exists",
    "already exists",
    "Address already in use",
    "Address in use",
    "already assigned",
)
_NO_KERNEL = (
    "Unknown device type",
    "Operation not supported",
    "Protocol not supported",
    "Requested AEAD algorithm not found",
    "Could not process rule: No such file or directory",
)
_NO_RIGHT = ("Operation not permitted", "Permission denied", "mounting /sys failed")


class InUseError(EndpointError):
    """A chosen name, port or address is in use: another one may do."""


class KernelError(EndpointError):
    """The endpoint's kernel lacks support."""


class Root:
    """Runs programs as root on an endpoint: by a root login, or sudo without a password.

    ``words`` replaces programs in a command line by supplied ones; a container engine that needs
    more than ``removal_s`` seconds for a removal is ended.
    """

    def __init__(
        self,
        session: SshSession,
        words: Callable[[Sequence[str]], list[str]] = list,
        removal_s: float = 120,
    ) -> None:
        self.session = session
        self.removal_s = removal_s
        self._words = words
        self._before: tuple[str, ...] | None = None
        self._hangs: set[str] = set()

    @property
    def name(self) -> str:
        """The endpoint's name."""
        return self.session.name

    @property
    def prefix(self) -> tuple[str, ...]:
        """The command prefix for root. Raises EndpointError, ReachError."""
        if self._before is None:
            before = () if self.session.word(["id", "-u"]) == "0" else ("sudo", "-n")
            if before:
                self._check_sudo(before)
            self._before = before
        return self._before

    def _check_sudo(self, before: Sequence[str]) -> None:
        done = self.session.run([*before, "true"])
        if done.status:
            why = "there is no sudo" if done.status == _NOT_FOUND else failure_text(done)
            raise EndpointError(
                f"the login is not root and may not become it: {why}",
                where=self.name,
                cure="log in as root, or let the login run sudo without a password there; or"
                " measure without the layer",
            )

    def command_line(self, argv: Sequence[str]) -> list[str]:
        """Return a command line with the paths of supplied programs."""
        return list(self._words(argv))

    def run(self, argv: Sequence[str], stdin: bytes = b"") -> ProgramResult:
        """Run a program as root to its end. Raises EndpointError, ReachError."""
        if argv[0] in ENGINES:
            return self._run_engine(argv, stdin)
        return self.session.run([*self.prefix, *self._words(argv)], stdin=stdin)

    def _run_engine(self, argv: Sequence[str], stdin: bytes) -> ProgramResult:
        """Run a container engine with a time limit on the endpoint itself.

        After a removal has timed out further ones fail at once, as each would take that long again.
        Raises EndpointError, ReachError.
        """
        engine, removes = argv[0], bool(_REMOVALS & set(argv))
        most_s = self.removal_s if removes else _ENGINE_S
        if removes and engine in self._hangs:
            raise self._engine_timeout(argv, "was not tried, as it hangs")
        bound = ["timeout", "-k", str(_GRACE_S), str(most_s)]
        words = [*self.prefix, *bound, *self._words(argv)]
        done = self.session.run(words, stdin=stdin, within_s=most_s + 2 * _GRACE_S)
        if (ended := _ENDED_BY_FORCE.get(done.status)) is not None:
            self._hangs |= {engine} if removes else set()
            raise self._engine_timeout(argv, f"did not end within {most_s} s, and {ended}")
        return done

    def _engine_timeout(self, argv: Sequence[str], how: str) -> EndpointError:
        engine = argv[0]
        return EndpointError(
            f"`{' '.join(argv[:2])}` {how}",
            where=self.name,
            cure=f"see there whether `{engine} ps --all` answers, and whether its disk is full or"
            " the machine is overloaded",
        )

    def do(self, argv: Sequence[str], stdin: bytes = b"") -> str:
        """Run a program as root that must succeed, and return its output.

        Raises EndpointError with the reason: InUseError, KernelError; ReachError.
        """
        done = self.run(argv, stdin)
        if done.status:
            program = argv[4] if tuple(argv[:3]) == _WITHIN else argv[0]
            raise error_of(self.name, program, done)
        return done.stdout.decode(errors="replace")

    def ip(self, space: str | None, *lines: str) -> None:
        """Run several commands of iproute2 in a network namespace as one batch.

        They are written to its standard input, so that secrets are in no list of processes.
        """
        text = "".join(f"{line}\n" for line in lines)
        self.do([*_ip(space), "-batch", "-"], text.encode())

    def ask(self, space: str | None, *words: str) -> list[dict[str, Any]]:
        """Return the JSON output of ip(8) in a network namespace."""
        output = self.do([*_ip(space), "-j", *words])
        found = json.loads(output or "[]")
        return [one for one in found if isinstance(one, dict) and one]


def _ip(space: str | None) -> list[str]:
    return ["ip", *(["-n", space] if space else [])]


def in_namespace(space: str | None, argv: Iterable[str]) -> list[str]:
    """Return a command line that runs in a network namespace."""
    return [*((*_WITHIN, space) if space else ()), *argv]


def failure_text(done: ProgramResult) -> str:
    """Return a failed program's output in one line."""
    text = done.stderr.decode(errors="replace") or done.stdout.decode(errors="replace")
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    plain = [line for line in lines if not line.startswith("Command failed")] or lines
    kept = [line for line in plain if line.startswith("Error")] or plain
    return "; ".join(kept)[:_MAX_MESSAGE_CHARS] or f"exit status {done.status}"


def error_of(name: str, program: str, done: ProgramResult) -> EndpointError:
    """Return the error of a program that failed on an endpoint, with its cure."""
    why = failure_text(done)
    if done.status == _NOT_FOUND or _MISSING.search(why):
        package = _PACKAGES.get(program, program)
        return EndpointError(
            f"there is no program {program}", where=name, cure=f"install {package} there"
        )
    if any(word in why for word in _IN_USE):
        return InUseError(f"{program}: {why}", where=name, cure="run it again")
    if any(word in why for word in _NO_RIGHT):
        return EndpointError(
            f"{program} is not allowed there: {why}",
            where=name,
            cure="give the login the capabilities CAP_NET_ADMIN and CAP_SYS_ADMIN, or log in as"
            " root outside of a container; or measure without the layer",
        )
    if any(word in why for word in _NO_KERNEL):
        return KernelError(f"its kernel can't do that: {why}", where=name)
    return EndpointError(f"{program} failed: {why}", where=name)
