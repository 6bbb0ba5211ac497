"""Directories on an endpoint that a run writes to: its own, and those of its programs.

A program that writes files has a directory for each of its trials, in the run's own or wherever the
scenario wants the files. Its agent removes that; leftovers after a crash of the endpoint are found
by their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from osmef.errors import EndpointError, ReachError

if TYPE_CHECKING:  # paramiko takes long to import, and `osmef validate` knows workloads, too
    from osmef.remote.session import SshSession

_REMOVAL_S = 600.0
"""A file system may take its time for large files."""
_MAX_MESSAGE_CHARS = 300
_NOT_FOUND = 127  # a shell's exit status for a missing program (POSIX)


def directory_of(run: str, endpoint: str) -> str:
    """Return a run's directory in the login's home, which endpoints may share (NFS)."""
    return f".osmef-{run}-{endpoint}"


def scratch_prefix(run: str, endpoint: str = "") -> str:
    """Return the prefix of the directories of a run's programs on an endpoint.

    Without an endpoint, those at all of them. No other run or endpoint has a name that begins so.
    """
    return f".osmef-{run}+" + (f"{endpoint}+" if endpoint else "")


def clear(session: SshSession, prefix: str, directory: str) -> None:
    """Remove entries with a prefix from a directory, if it exists.

    Raises EndpointError where something can't be removed, ReachError.
    """
    found = ["find", f"{directory}/.", "!", "-name", ".", "-prune", "-name", f"{_plain(prefix)}*"]
    done = session.run([*found, "!", "-exec", "rm", "-rf", "--", "{}", ";", "-print"],
                       within_s=_REMOVAL_S)  # fmt: skip
    if done.status == _NOT_FOUND:
        if not any(name.startswith(prefix) for name in session.list_directory(directory)):
            return
        message = f"it has no find(1), and in {directory} is what a program has left"
        cure = f"install findutils there, or remove {directory}/{prefix}* by hand"
        raise EndpointError(message, where=session.name, cure=cure)
    left = done.stdout.decode(errors="replace").split("\n")[0][:_MAX_MESSAGE_CHARS]
    if left:
        raise EndpointError(
            f"what a program has left can't be removed: {left}",
            where=session.name,
            cure="find out who owns it, and remove it by hand",
        )


def _plain(text: str) -> str:
    """Escape a text for find(1)'s patterns."""
    return "".join(f"\\{char}" if char in "*?[]\\" else char for char in text)


def remove(session: SshSession, run: str, endpoint: str) -> None:
    """Remove the run's directory, and those of its programs. Raises EndpointError."""
    directory = directory_of(run, endpoint)
    try:
        session.remove_directory(directory)
    except ReachError:
        if not session.is_open:
            raise
        # what programs have left may be deep, and much
        clear(session, scratch_prefix(run, endpoint), directory)
        session.remove_directory(directory)
