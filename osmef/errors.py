"""Every exception that OSMeF raises on purpose, in one tree.

    OsmefError                 exit 1   an error with a message for the user
    ├── InputError             exit 2   a file or an argument is wrong; carries every Problem found
    │   └── NothingToDrawError exit 2   these runs can't be drawn in that kind of figure
    ├── ProviderError          exit 3   the cloud, its tools or its credentials
    │   ├── CredentialsError   exit 3   they are missing, or not accepted
    │   ├── PolicyError        exit 3   the credentials are valid, the cloud's policy denies it
    │   ├── NotFoundError      exit 3   a named image, flavor, network or the like
    │   ├── QuotaError         exit 3   the plan exceeds a quota
    │   ├── CapacityError      exit 3   the cloud has no capacity, or no host that fits
    │   ├── BootError          exit 3   an endpoint was created and does not boot
    │   ├── ApiError           exit 3   the cloud's API fails, also after retries
    │   └── PlacementError     exit 3   the achieved placement is not the requested one
    ├── PackageError           exit 3   a Python package of an extra is not installed
    ├── SupplyError            exit 3   a program that endpoints need is not available
    ├── EndpointError          exit 3   an endpoint or a program on it; recorded in a trial
    │   ├── ReachError         exit 3   SSH: no route, refused, timed out
    │   │   ├── HostKeyError   exit 3   an unknown or changed host key
    │   │   └── LoginError     exit 3   sshd accepts none of the keys
    │   ├── AgentError         exit 3   the agent reported an error, or has ended
    │   └── ProgramError       exit 3   an external program on an endpoint failed
    │       └── OutputError    exit 3   its output is not the expected one
    ├── StorageError           exit 4   the run directory can't be written; the state so far is kept
    ├── LostError              exit 4   endpoints were lost while a run measured; the same
    └── Interrupted            exit 4   Ctrl-C, SIGTERM or the deadline; the state so far is kept

A message says what failed, where, and why; ``cure`` says what to do about it.
A traceback is for bugs only.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType


class OsmefError(Exception):
    """An error with a message for the user."""

    exit_code = 1
    kind = "error"

    def __init__(self, message: str, *, where: str | None = None, cure: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.cure = cure

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\n  cure: {self.cure}" if self.cure else text


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong in an input file. Lines and columns count from 1.

    ``excerpt`` is the line with a mark below the column, where it may be shown.
    """

    file: str
    line: int
    column: int
    message: str
    cure: str
    excerpt: str = field(default="", compare=False)

    @property
    def place(self) -> str:
        """The place with line and column, which an option of the command line does not have."""
        is_option = self.file.startswith("--")
        return self.file if is_option else f"{self.file}:{self.line}:{self.column}"

    def __str__(self) -> str:
        return f"{self.place}: {self.message}\n  cure: {self.cure}"


MOST_PROBLEMS = 100
"""So many of one file are shown, the first of them; who mends these sees the others."""


class InputError(OsmefError):
    """A file or an argument is wrong. ``problems`` lists what was found, in file order.

    ``more`` is how many there are at least beside them, where there are more than are shown.
    """

    exit_code = 2
    kind = "input"

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        cure: str | None = None,
        problems: Sequence[Problem] = (),
        more: int = 0,
    ) -> None:
        super().__init__(message, where=where, cure=cure)
        self.problems = tuple(problems)
        self.more = more

    @classmethod
    def from_problems(cls, problems: Sequence[Problem], more: int = 0) -> InputError:
        """Make one error of many problems, sorted as they stand in the file.

        The first ones are kept, and the others counted with ``more``.
        """
        found = sorted(set(problems))
        ordered, more = found[:MOST_PROBLEMS], more + len(found[MOST_PROBLEMS:])
        lines = [*map(str, ordered), *([f"and {more} more problems"] * bool(more))]
        return cls("\n".join(lines), problems=ordered, more=more)


class NothingToDrawError(InputError):
    """A kind of figure can't be drawn of these runs: they have no such data, or too many."""

    kind = "no-figure"


class ProviderError(OsmefError):
    """The cloud, its tools or its credentials do not allow what the scenario needs."""

    exit_code = 3
    kind = "provider"


class CredentialsError(ProviderError):
    """There are no credentials, or the cloud does not take them."""

    kind = "credentials"


class PolicyError(ProviderError):
    """The credentials are valid, and the cloud's policy denies the call."""

    kind = "policy"


class NotFoundError(ProviderError):
    """An image, flavor, network, project or the like of the scenario does not exist."""

    kind = "not-found"


class QuotaError(ProviderError):
    """The plan exceeds a quota."""

    kind = "quota"


class CapacityError(ProviderError):
    """The cloud has no capacity, or no host that fits the request."""

    kind = "capacity"


class BootError(ProviderError):
    """An endpoint was created and does not boot; the message has the end of its console."""

    kind = "boot"


class ApiError(ProviderError):
    """The cloud's API fails or times out, also after retries."""

    kind = "api"


class PlacementError(ProviderError):
    """The achieved placement is not the requested one."""

    kind = "placement"


class PackageError(OsmefError):
    """A Python package of an extra is not installed."""

    exit_code = 3
    kind = "package"

    _EXTRAS = MappingProxyType(
        {
            **dict.fromkeys(("jinja2", "markupsafe", "matplotlib"), "report"),
            **dict.fromkeys(("cronsim", "prometheus_client", "sqlalchemy"), "campaigns"),
            "psycopg": "postgresql",
            "pyroute2": "local",
        }
    )

    @classmethod
    def of(cls, error: ModuleNotFoundError) -> PackageError | None:
        """Return the error for a failed import; None if it is of no extra."""
        package = (error.name or "").partition(".")[0]
        extra = cls._EXTRAS.get(package)
        if extra is None:
            return None
        cure = f"pip install 'osmef[{extra}]'"
        return cls(f"this needs the Python package {package}, which is not installed", cure=cure)


class SupplyError(OsmefError):
    """A program that endpoints need is not available: not installed, not bundled, not built.

    ``program`` is its name where no way of supply is left.
    """

    exit_code = 3
    kind = "supply"

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        cure: str | None = None,
        program: str | None = None,
    ) -> None:
        super().__init__(message, where=where, cure=cure)
        self.program = program


class EndpointError(OsmefError):
    """An endpoint, or a program on it, failed.

    While trials run this becomes a record of the trial; before them it ends the run.
    """

    exit_code = 3
    kind = "endpoint"


class ReachError(EndpointError):
    """An endpoint can't be reached by SSH."""

    kind = "reach"


class HostKeyError(ReachError):
    """An endpoint's host key is unknown or has changed."""

    kind = "host-key"


class LoginError(ReachError):
    """An endpoint's sshd accepts none of the offered keys."""

    kind = "login"


class AgentError(EndpointError):
    """The agent on an endpoint reported an error, violated the protocol or has ended."""

    kind = "agent"


class ProgramError(EndpointError):
    """An external program failed; ``tail`` is the end of what it printed."""

    kind = "program"

    def __init__(
        self, message: str, *, tail: str = "", where: str | None = None, cure: str | None = None
    ) -> None:
        super().__init__(message, where=where, cure=cure)
        self.tail = tail

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}\n  it printed: {self.tail}" if self.tail else text


class OutputError(ProgramError):
    """A program's output is not the expected one.

    ``line`` is where, counted from 1; None where it is the whole output that lacks something.
    """

    kind = "output"

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        tail: str = "",
        where: str | None = None,
        cure: str | None = None,
    ) -> None:
        super().__init__(message, tail=tail, where=where, cure=cure)
        self.line = line


class StorageError(OsmefError):
    """The run directory can't be read or written."""

    exit_code = 4
    kind = "storage"


class LostError(OsmefError):
    """Endpoints were lost while a run measured; what needs them stays to be measured."""

    exit_code = 4
    kind = "lost"


class Interrupted(OsmefError):  # noqa: N818 - it is not an error of the program
    """The run was cancelled by the user or the system."""

    exit_code = 4
    kind = "interrupted"


_MORE_MEMORY = "free some memory, or raise its limit (ulimit -v, the memory of a container)"
_MORE_TASKS = "allow more processes (ulimit -u, TasksMax of systemd, --pids-limit of a container)"
_LIMITS = MappingProxyType(
    {
        errno.EMFILE: "raise the limit of open files (ulimit -n)",
        errno.ENFILE: "raise the limit of open files (sysctl fs.file-max)",
        errno.ENOMEM: _MORE_MEMORY,
        errno.EAGAIN: _MORE_TASKS,  # fork(2)
    }
)


def limit_cure(error: BaseException) -> str | None:
    """Return the cure for an exhausted resource limit of this process; None for other errors."""
    if isinstance(error, MemoryError):
        return _MORE_MEMORY
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return _MORE_TASKS  # Python has no class for it
    return _LIMITS.get(error.errno or 0) if isinstance(error, OSError) else None
