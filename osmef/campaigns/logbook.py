"""What a campaign tells of itself: into its log, to who watches, and to whom it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from osmef.campaigns.clock import Clock
from osmef.campaigns.means import Tell
from osmef.campaigns.model import Notify
from osmef.campaigns.notify import Messenger
from osmef.campaigns.rows import Standing
from osmef.engine.telling import contained

if TYPE_CHECKING:
    from osmef.campaigns.store import Store

_URGENT = {"failure", "missed", "budget"}


class Logbook:
    """Notes what happens to one campaign."""

    def __init__(
        self, store: Store, standing: Standing, clock: Clock, tell: Tell, whom: Notify
    ) -> None:
        self._store, self._standing, self._clock = store, standing, clock
        self._tell = contained(tell)
        self._messenger = Messenger(whom)

    def note(self, kind: str, text: str, *, last: bool = False) -> None:
        """Write it into the log, and say it. Raises StorageError."""
        self._store.tell(self._standing.id, self._clock.now(), kind, text)
        self.say(kind, text, last=last)

    def say(self, kind: str, text: str, *, last: bool = False) -> None:
        """Show what stands in the log already, or can't; tell it to whom the campaign names."""
        self._tell(kind, text)
        if kind in _URGENT or last:
            at = self._clock.now().isoformat()
            message = {"campaign": self._standing.name, "at": at, "kind": kind, "text": text}
            self._messenger.tell(message)

    def note_problems(self) -> None:
        """Note who could not be told. Raises StorageError."""
        for problem in self._messenger.problems():
            self.note("note", problem)

    def close(self) -> None:
        """Wait until all is told, as far as it can be. Raises StorageError."""
        for problem in self._messenger.close():
            self.note("note", problem)
