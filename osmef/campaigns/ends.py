"""How a session ended: what it returned, or what became of it when it raised."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from osmef.campaigns.rows import Line, Session, State
from osmef.campaigns.session import End, so_far
from osmef.errors import InputError, Interrupted, OsmefError, StorageError

_MOST_ATTEMPTS = 3
# A cloud that fails is asked again after so long, and so much longer each time.
_OUTAGE = timedelta(minutes=10)


@dataclass(frozen=True)
class Outcome:
    """The end of an attempt; ``attempts`` counts those that an outage has ended.

    ``is_news``: it failed, and not as the one before, so who is told of failures hears of it.
    """

    end: End
    attempts: int
    is_news: bool = False

    def values(self, now: datetime, *, stopping: bool) -> dict[str, Any]:
        """Return what a session's row becomes. What is planned again is due after a while."""
        values = {name: value for name, value in vars(self.end).items() if name != "state"}
        values |= {"attempts": self.attempts, "ended_at": now}
        if self.end.state is State.PLANNED:
            values["ended_at"] = None
            if not stopping:
                values["due"] = now + _OUTAGE * max(1, self.attempts)
        return values

    def line(self, session: Session) -> Line:
        """Return what the log says of it."""
        end = self.end
        what = f"{session.slot} {session.platform}: {end.state}"
        trials = f", {end.trials_ok} trials ok, {end.trials_failed} failed"
        failed = end.state is State.FAILED or end.trials_failed or self.is_news
        kind = "failure" if failed else "end"
        return Line(kind, what + trials + (f": {end.why}" if end.why else ""))


def outcome_of(future: Future[End], session: Session) -> Outcome:
    """Return how a session ended.

    One that was interrupted, or could not be written down, is planned again, and so is one whose
    cloud failed, but for the last time. What it has cost is counted in any case.
    """
    attempts, message = session.attempts, None
    try:
        return Outcome(future.result(), attempts)
    except Interrupted as error:
        state, why = State.PLANNED, error.message
    except StorageError as error:
        state, why, message = State.PLANNED, str(error), error.message
    except InputError as error:
        state, why, message = State.FAILED, str(error), error.message
    except OsmefError as error:
        attempts += 1
        state = State.PLANNED if attempts < _MOST_ATTEMPTS else State.FAILED
        why, message = str(error), error.message
    except Exception as error:
        state, why = State.FAILED, f"a bug: {type(error).__name__}: {error}"
    end = so_far(Path(session.directory), state, why) if session.directory else End(state, why=why)
    # Where it failed is another run directory each time.
    is_news = message is not None and message not in (session.why or "")
    return Outcome(end, attempts, is_news)
