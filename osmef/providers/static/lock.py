"""Lock on a machine, against concurrent measurement by two controllers.

It is a symbolic link, because that is made in one step together with what it says: the run that
holds it and until when. Nothing follows it.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from osmef.errors import CapacityError, ReachError
from osmef.remote.session import SshSession
from osmef.units import parse_count

PATH = "/dev/shm/osmef-lock"  # noqa: S108 - for all users of the machine, and gone with its next boot
_WORD = r"([A-Za-z0-9._-]+)"
_TIME = r"([0-9]{1,11})"
_TRIES = 4
_TEXT = re.compile(rf"osmef/{_WORD}/{_WORD}/{_TIME}/{_TIME}")


def is_word(name: str) -> bool:
    """Return whether a name of a run or endpoint is valid as a part of paths."""
    return re.fullmatch(_WORD, name) is not None


@dataclass(frozen=True)
class LockOwner:
    """The holder of a machine's lock.

    ``made`` and ``deadline`` are the UNIX times at which its run began to make things, and after
    which it is not needed.
    """

    run: str
    endpoint: str
    made: int
    deadline: int

    def __str__(self) -> str:
        return f"osmef/{self.run}/{self.endpoint}/{self.made}/{self.deadline}"


def holder(session: SshSession) -> LockOwner | None:
    """Return the holder of a machine's lock, None if it is free. Raises ReachError."""
    target = session.read_link(PATH)
    if target is None:
        return None
    found = _TEXT.fullmatch(target)
    if found is None:
        cure = f"find out whose {PATH} this is, and remove it"
        raise ReachError(f"{PATH} is none of ours: {target[:80]}", where=session.name, cure=cure)
    return LockOwner(found[1], found[2], int(found[3]), int(found[4]))


def acquire(
    session: SshSession, wanted: LockOwner, machines: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Lock a machine for a run; an expired lock is taken over.

    ``machines`` are the run's machines by endpoint, as the inventory names them. Raises
    CapacityError when another run holds it, ReachError.
    """
    for _ in range(_TRIES):
        session.link(str(wanted), PATH)  # unless there is one
        # Read again also where it was made: another process may have moved it aside, see remove.
        held = holder(session)
        if held == wanted:
            return
        if held is None:  # it has gone in between
            continue
        if held.run == wanted.run and held.endpoint != wanted.endpoint:
            raise CapacityError(
                f"this is the same machine as {machines.get(held.endpoint, held.endpoint)}",
                where=session.name,
                cure="name each machine once in the inventory, or measure its loopback",
            )
        if held.run != wanted.run and (end := end_of(session, held)) > time.time():
            until = datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%d %H:%M UTC")
            raise CapacityError(
                f"the run {held.run} measures on this machine, until {until} at the latest",
                where=session.name,
                cure="wait for its end; if it was killed: osmef reap, where it was started",
            )
        _take_over(session, held)
    raise CapacityError(
        "other runs lock this machine all the time", where=session.name, cure="try again"
    )


def confirm(session: SshSession, wanted: LockOwner) -> None:
    """Check that a run still holds the lock. Raises CapacityError, ReachError.

    A missing lock is recreated: a boot of the machine removes it, and so does logind
    when it believes that the user has left (RemoveIPC, logind.conf(5)). Two that take over a stale
    lock at one moment may both believe that it is theirs (see remove).
    """
    held = holder(session)
    if held is None:
        session.link(str(wanted), PATH)
        held = holder(session)
    if held != wanted:
        by = "nobody" if held is None else f"the run {held.run}"
        raise CapacityError(
            f"this run had taken the machine, and now {by} holds it",
            where=session.name,
            cure=f"measure again; if it was you who removed {PATH}: leave it while a run lasts",
        )


def release(session: SshSession, run: str, endpoint: str) -> None:
    """Unlock a machine, if the run holds it for this endpoint. Raises ReachError."""
    held = holder(session)
    if held is not None and (held.run, held.endpoint) == (run, endpoint):
        remove(session, held)


def remove(session: SshSession, held: LockOwner) -> None:
    """Remove the lock, if the holder is unchanged. Raises ReachError.

    Another reader may have locked the machine since. So it is moved away in one step,
    looked at there, and put back if it is another's. If a third one has taken the machine in this
    moment, that one has it: the other finds out when it confirms its lock.
    """
    aside = f"{PATH}-{secrets.token_hex(8)}"
    if not session.rename(PATH, aside):
        return
    moved = session.read_link(aside)
    if moved is not None and moved != str(held):
        session.link(moved, PATH)
    session.remove(aside)


def end_of(session: SshSession, held: LockOwner) -> float:
    """Return the UNIX time by this controller's clock at which a lock expires. Raises ReachError.

    Past its deadline it is valid until it is as old as its run may get by the machine's clock, as
    that of the controller may have been set.
    """
    now = time.time()
    if held.deadline > now or (age := _age(session)) is None:
        return held.deadline
    return max(held.deadline, now + held.deadline - held.made - age)


def _age(session: SshSession) -> int | None:
    """Return the age of a lock in seconds by the machine's clock.

    None where it is not known, or the lock is of the future by a clock that was set back.
    """
    times = [
        parse_count(session.word(argv)) for argv in (["date", "+%s"], ["stat", "-c", "%Y", PATH])
    ]
    if None in times:
        return None
    now, made = (one or 0 for one in times)
    return now - made if now >= made else None


def _take_over(session: SshSession, held: LockOwner) -> None:
    try:
        remove(session, held)
    except ReachError as error:
        raise CapacityError(
            f"the run {held.run} is over and its lock is not ours to remove: {error.message}",
            where=session.name,
            cure=f"ask the user who ran it, or root, to remove {PATH}",
        ) from error
