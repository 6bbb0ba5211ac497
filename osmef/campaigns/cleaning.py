"""Cleaning up after sessions that nobody takes up again, until nothing of them stands."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from osmef.campaigns.logbook import Logbook
from osmef.campaigns.means import Means
from osmef.campaigns.rows import Session, Standing, State
from osmef.campaigns.session import conclude
from osmef.engine.journal import Journal
from osmef.errors import OsmefError

if TYPE_CHECKING:
    from osmef.campaigns.store import Store

# What would not go is tried again after so long: so often, and then seldom.
_AGAIN, _OFTEN, _SELDOM = timedelta(minutes=10), 6, timedelta(hours=1)


def uncleared(paths: Iterable[str]) -> str | None:
    """Return the run directories by whose journals something stands, one a line.

    Those that are not here may be on another machine, and stay.
    """
    return "\n".join(path for path in paths if _stands(path)) or None


def paths_of(session: Session) -> list[str]:
    """Return the run directories in which a session may have left something."""
    own = [session.directory] if session.directory else []
    return list(dict.fromkeys([*_left(session), *own]))


def _left(session: Session) -> list[str]:
    return (session.uncleared or "").splitlines()


def _stands(path: str) -> bool:
    if not Path(path).exists():
        return True
    try:
        return bool(Journal(Path(path) / "journal.jsonl").standing())
    except OsmefError:  # nobody knows
        return True


class Cleaning:
    """Destroys what sessions have left, and tries again where a cloud does not let it go."""

    def __init__(self, store: Store, standing: Standing, means: Means, log: Logbook) -> None:
        self._store, self._campaign = store, standing.id
        self._means, self._log = means, log
        self._next: datetime | None = means.clock.now()
        self._tries = 0

    @property
    def is_trying(self) -> bool:
        """Whether something stands that may go soon."""
        return self._next is not None and self._tries < _OFTEN

    def clear(self, session: Session, now: datetime) -> None:
        """Destroy what a planned session has left that nobody will take up again."""
        error = self._try(session, paths_of(session), ends=True)
        if error is not None:
            self.tell(session, str(error), now)

    def tell(self, session: Session, why: str, now: datetime) -> None:
        """Say that something of a session stands; it is tried again."""
        self._next, self._tries = now + _AGAIN, 0
        place = Path(session.directory or "").parent
        by_hand = f"it is tried again; by hand: osmef reap --out {place}"
        self._log.note(
            "failure", f"{session.slot} {session.platform}: left standing: {why}; {by_hand}"
        )

    def sweep(self, now: datetime) -> datetime | None:
        """Try again when it is time, and return when that is next; None where nothing stands."""
        if self._next is None or now < self._next:
            return self._next
        left = self._store.uncleared(self._campaign)
        here = [one for one in left if any(Path(path).exists() for path in _left(one))]
        errors = [self._sweep(session) for session in here]
        self._tries += 1
        wait = _AGAIN if self._tries < _OFTEN else _SELDOM
        self._next = now + wait if any(errors) else None
        return self._next

    def _sweep(self, session: Session) -> OsmefError | None:
        ends = session.state not in {State.PLANNED, State.DONE}
        error = self._try(session, _left(session), ends=ends)
        if error is None:
            self._log.note("note", f"{session.slot} {session.platform}: nothing stands any more")
        return error

    def _try(self, session: Session, paths: list[str], *, ends: bool) -> OsmefError | None:
        """Destroy it; where the session ``ends`` so, write down what it has come to."""
        failed = None
        for path in paths:
            # A cloud that fails takes its time, and others must not believe that we are gone.
            self._store.renew(self._campaign, self._means.holder, self._means.clock.now())
            try:
                self._means.clear(Path(path), session.provider)
                if ends and path == session.directory:
                    self._conclude(session, path)
            except OsmefError as error:
                failed = error
        self._store.conclude(session, uncleared=uncleared(paths))
        return failed

    def _conclude(self, session: Session, path: str) -> None:
        end = conclude(Path(path))
        trials = {"trials_ok": end.trials_ok, "trials_failed": end.trials_failed}
        self._store.conclude(session, **trials, cost=end.cost, currency=end.currency)
