"""Log of a campaign, and notifications by a command or a webhook."""

from __future__ import annotations

import json
import queue
import ssl
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException, responses
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError

from osmef.campaigns.schedule.calendar import Clock
from osmef.campaigns.schedule.model import Notify
from osmef.campaigns.state.rows import CampaignRow
from osmef.engine.observer import contain_failures

if TYPE_CHECKING:
    from osmef.campaigns.state.store import Store

Tell = Callable[[str, str], None]
_TIMEOUT_S = 30.0
# A campaign that ends waits so long for those who are told so.
_LAST_S = 60.0
Message = Mapping[str, object]
"""Told what happens: a kind (start, end, failure, gap, missed, budget, note) and a line."""

_URGENT = {"failure", "missed", "budget"}


class CampaignLog:
    """Log of one campaign, with notifications."""

    def __init__(
        self, store: Store, row: CampaignRow, clock: Clock, tell: Tell, whom: Notify
    ) -> None:
        self._store, self._row, self._clock = store, row, clock
        self._tell = contain_failures(tell)
        self._messenger = Notifier(whom)

    def note(self, kind: str, text: str, *, last: bool = False) -> None:
        """Append to the log, and notify. Raises StorageError."""
        self._store.tell(self._row.id, self._clock.now(), kind, text)
        self.say(kind, text, last=last)

    def say(self, kind: str, text: str, *, last: bool = False) -> None:
        """Notify without logging."""
        self._tell(kind, text)
        if kind in _URGENT or last:
            at = self._clock.now().isoformat()
            message = {"campaign": self._row.name, "at": at, "kind": kind, "text": text}
            self._messenger.tell(message)

    def note_problems(self) -> None:
        """Log failed notifications. Raises StorageError."""
        for problem in self._messenger.problems():
            self.note("note", problem)

    def close(self) -> None:
        """Wait for pending notifications, within a limit. Raises StorageError."""
        for problem in self._messenger.close():
            self.note("note", problem)


class Notifier:
    """Sends notifications in a background thread, so that a slow recipient delays nothing.

    What happens while somebody is being told is told together: of each kind the newest message, and
    in ``more`` how many came before it.
    """

    def __init__(self, whom: Notify) -> None:
        self._whom = whom
        self._waiting: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._problems: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def tell(self, message: Message) -> None:
        """Enqueue a notification to all recipients."""
        if not (self._whom.command or self._whom.webhook):
            return
        if self._thread is None:
            # The exit does not wait for a server that never answers.
            self._thread = threading.Thread(target=self._work, name="notify", daemon=True)
            self._thread.start()
        self._waiting.put(message)

    def problems(self) -> list[str]:
        """Return the errors since the last call, each once."""
        found = []
        while not self._problems.empty():
            found.append(self._problems.get())
        return found

    def close(self) -> list[str]:
        """Wait for pending notifications, within a limit; return the errors."""
        if self._thread is None:
            return []
        self._waiting.put(None)
        self._thread.join(_LAST_S)
        late = ["notify: somebody has not taken the last message"] * self._thread.is_alive()
        self._thread = None
        return self.problems() + late

    def _work(self) -> None:
        goes_on = True
        while goes_on:
            waiting = [self._waiting.get()]
            while not self._waiting.empty():
                waiting.append(self._waiting.get())
            goes_on = None not in waiting
            for message in _together([one for one in waiting if one is not None]):
                for problem in notify(self._whom, message):
                    self._problems.put(problem)


def _together(messages: Sequence[Message]) -> list[Message]:
    """Return the newest message of each kind, with the number of earlier ones."""
    by_kind: dict[object, list[Message]] = {}
    for message in messages:
        by_kind.setdefault(message["kind"], []).append(message)
    return [{**those[-1], "more": len(those) - 1} for those in by_kind.values()]


def notify(whom: Notify, message: Message) -> list[str]:
    """Send a notification to every recipient, and return the errors.

    The command gets the message on its standard input, a line, without a shell.
    """
    problems = []
    data = json.dumps(dict(message)).encode() + b"\n"
    if whom.command:
        try:
            subprocess.run(
                whom.command, input=data, timeout=_TIMEOUT_S, check=True, capture_output=True
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            problems.append(f"the command of notify: {whom.command[0]!r}: {_why(error)}")
    if whom.webhook:
        headers = {"Content-Type": "application/json"}
        try:
            url = whom.webhook.get_secret_value()
            request = urllib.request.Request(url, data, headers)  # noqa: S310 - http(s)
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310
                pass
        except (OSError, ValueError, HTTPException) as error:
            problems.append(f"the webhook of notify: {_why(error)}")
    return problems


def _why(error: Exception) -> str:
    """Return an error message that quotes neither the address nor the command.

    They are secrets, or hold some, and libraries put them into what they say.
    """
    if isinstance(error, HTTPError):
        error.close()
        return f"it answered {error.code} {responses.get(error.code, '')}".strip()
    if isinstance(error, subprocess.CalledProcessError):
        return f"it ended with exit status {error.returncode}"
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, TimeoutError | subprocess.TimeoutExpired):
        return f"it took longer than {_TIMEOUT_S:g} s"
    if isinstance(reason, ssl.SSLError):
        return f"its certificate or TLS is not good: {reason.reason}"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return f"this can't be asked ({type(reason).__name__})"
