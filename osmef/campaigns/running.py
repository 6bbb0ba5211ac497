"""The sessions that run at a conductor, of which it asks at each look.

Nothing here looks at all of them: a conductor that has thousands looks whenever one of them ends.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Collection, Iterator
from concurrent.futures import Future

from osmef.campaigns.rows import Session
from osmef.campaigns.session import End


class Running:
    """Sessions by what tells their end; ``wake`` is set when one ends.

    ``ids`` are those of the sessions in the database.
    """

    def __init__(self) -> None:
        self.wake = threading.Event()
        self.ids: set[int] = set()
        self._sessions: dict[Future[End], Session] = {}
        self._ended: deque[Future[End]] = deque()
        self._places: Counter[str] = Counter()
        self._platforms: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    @property
    def places(self) -> Collection[str]:
        """What they measure at."""
        return self._places.keys()

    @property
    def platforms(self) -> Collection[str]:
        """The names of the platforms that they measure."""
        return self._platforms.keys()

    @property
    def ended(self) -> list[tuple[Future[End], Session]]:
        """Those that have ended, in that order, until they are removed."""
        return [(future, self._sessions[future]) for future in list(self._ended)]

    def add(self, future: Future[End], session: Session) -> None:
        """Take one on that has begun."""
        self._sessions[future] = session
        self.ids.add(session.id)
        self._places.update(session.places)
        self._platforms[session.platform] += 1
        future.add_done_callback(self._take_end)

    def _take_end(self, future: Future[End]) -> None:
        self._ended.append(future)
        self.wake.set()

    def remove(self, future: Future[End]) -> Session:
        """Forget one that has ended."""
        session = self._sessions.pop(future)
        self._ended.remove(future)  # mostly the first
        self.ids.remove(session.id)
        _drop(self._places, session.places)
        _drop(self._platforms, [session.platform])
        return session


def _drop(counts: Counter[str], names: Collection[str]) -> None:
    for name in names:
        counts[name] -= 1
        if not counts[name]:
            del counts[name]
