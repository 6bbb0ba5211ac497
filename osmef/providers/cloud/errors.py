"""Table of a cloud's errors: meaning, retry, and cure."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, auto

from osmef.errors import (
    ApiError,
    CapacityError,
    CredentialsError,
    NotFoundError,
    PolicyError,
    ProviderError,
    QuotaError,
)
from osmef.units import parse_count


class Meaning(Enum):
    """Meaning of an error."""

    CREDENTIALS = auto()
    """The cloud does not know who we are."""
    DENIED = auto()
    """We may not do it."""
    QUOTA = auto()
    NO_CAPACITY = auto()
    """The cloud has no capacity for it, here or now."""
    THROTTLED = auto()
    """There were too many requests: it was surely not done."""
    TRANSIENT = auto()
    """The cloud failed, or did not answer: it may have been done all the same."""
    NOT_READY = auto()
    """What it is about is still being made or changed."""
    NO_SERVICE = auto()
    """The cloud does not have what is asked."""
    GONE = auto()
    """What it names is not there, or not known yet."""
    EXISTS = auto()
    """There is something of that name."""
    IN_USE = auto()
    """It can't be deleted before something else is gone."""
    OTHER = auto()


RETRY = frozenset({Meaning.THROTTLED, Meaning.TRANSIENT})
"""After which the same call may do."""
_CLASSES: Mapping[Meaning, type[ProviderError]] = {
    Meaning.CREDENTIALS: CredentialsError,
    Meaning.DENIED: PolicyError,
    Meaning.QUOTA: QuotaError,
    Meaning.NO_CAPACITY: CapacityError,
    Meaning.THROTTLED: ApiError,
    Meaning.TRANSIENT: ApiError,
    Meaning.NO_SERVICE: ApiError,
    Meaning.GONE: NotFoundError,
}
USUAL_CURES: Mapping[Meaning, str] = {
    Meaning.QUOTA: "plan fewer or smaller endpoints, remove what you don't need, or ask for more",
    Meaning.TRANSIENT: "is the cloud's API up? try again later",
    Meaning.GONE: "was it removed by somebody?",
}
_TRY = (
    "change in the scenario what the cloud calls wrong; if nothing is, try it by the `{}` command"
)


@dataclass(frozen=True)
class Row:
    """Errors that match by class, code, HTTP status, or text.

    ``codes`` and ``words`` are regular expressions that are searched for. ``cure`` takes the place
    of the meaning's. Where ``named`` finds something in the cloud's words, ``naming`` is the cure,
    with the last that it found, such as the permission that lacks, in the place of ``{}``.
    """

    meaning: Meaning
    codes: str | None = None
    statuses: Container[int | None] | None = None
    words: str | None = None
    raised: tuple[type[Exception], ...] = (Exception,)
    when: Callable[[Exception], bool] | None = None
    cure: str | None = None
    named: str | None = None
    naming: str = "{}"


AGAIN = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses after which the same call may do."""
_BY_STATUS = (
    Row(Meaning.CREDENTIALS, statuses={401}),
    Row(Meaning.DENIED, statuses={403}),
    Row(Meaning.GONE, statuses={404}),
    Row(Meaning.THROTTLED, statuses={429}),
    Row(Meaning.TRANSIENT, statuses=AGAIN),
)
"""Meanings of an answer's status, where no row of a cloud says more."""


def _headers_of_response(error: Exception) -> Mapping[str, str]:
    return getattr(getattr(error, "response", None), "headers", None) or {}


@dataclass(frozen=True)
class ErrorTable:
    """Table of a cloud's errors and their meanings: the first matching row counts.

    Where none matches, the status of the answer decides. ``tool`` is the cloud's own command.
    ``library`` are the exceptions of the SDK. ``code_of``, ``status_of``, ``details_of`` and
    ``headers_of`` read one: the cloud's code ("" without one), the HTTP status (None without an
    answer), the cloud's own words, and the headers of the answer, by default those of its
    ``response``.
    """

    library: tuple[type[Exception], ...]
    rows: Sequence[Row]
    cures: Mapping[Meaning, str]
    tool: str
    status_of: Callable[[Exception], int | None]
    details_of: Callable[[Exception], str]
    code_of: Callable[[Exception], str] = lambda _error: ""
    headers_of: Callable[[Exception], Mapping[str, str]] = _headers_of_response

    def meaning_of(self, error: Exception) -> Meaning:
        """Return the meaning of an error."""
        row = self._row_of(error)
        return Meaning.OTHER if row is None else row.meaning

    def is_transient(self, error: Exception) -> bool:
        """Return whether a retry of the same call may succeed."""
        return self.meaning_of(error) in RETRY

    def is_gone(self, error: Exception) -> bool:
        """Return whether the named resource does not exist, or is not known yet."""
        return self.meaning_of(error) is Meaning.GONE

    def is_not_yet(self, error: Exception) -> bool:
        """Return whether a call may succeed later, by eventual consistency."""
        return self.meaning_of(error) in RETRY | {Meaning.GONE, Meaning.NOT_READY}

    def is_in_use(self, error: Exception) -> bool:
        """Return whether a deletion may succeed later, when dependents are deleted."""
        return self.meaning_of(error) in RETRY | {Meaning.IN_USE, Meaning.NOT_READY}

    def is_refusal(self, error: Exception) -> bool:
        """Return whether the cloud refused the call, so that nothing was created."""
        meaning = self.meaning_of(error)
        answered = self.status_of(error) is not None
        return meaning is Meaning.THROTTLED or (answered and meaning is not Meaning.TRANSIENT)

    def pause_of(self, error: Exception) -> float:
        """Return the delay that the cloud asks for (Retry-After), 0 without.

        By a number of them or by a date (Retry-After, RFC 9110 10.2.3).
        """
        headers = {key.lower(): value for key, value in self.headers_of(error).items()}
        value = str(headers.get("retry-after", ""))
        seconds = parse_count(value)
        if seconds is not None:
            return float(seconds)
        try:
            date = parsedate_to_datetime(value)
        except ValueError:
            return 0.0
        date = date if date.tzinfo else date.replace(tzinfo=UTC)  # "-0000" is UTC, too
        return max(0.0, (date - datetime.now(UTC)).total_seconds())

    def translate(self, error: Exception, doing: str, where: str | None = None) -> ProviderError:
        """Return the error to show: of the right class, with a cure."""
        row, details = self._row_of(error), self.details_of(error)
        meaning = Meaning.OTHER if row is None else row.meaning
        cure = self.cure_of(meaning)
        if row is not None:
            found = re.findall(row.named, details) if row.named else []
            cure = row.naming.format(found[-1]) if found else row.cure or cure
        return self.class_of(meaning)(f"{doing}: {details}", where=where, cure=cure)

    def class_of(self, meaning: Meaning) -> type[ProviderError]:
        """Return the class of errors of a meaning."""
        return _CLASSES.get(meaning, ProviderError)

    def cure_of(self, meaning: Meaning) -> str:
        """Return the cure of errors of a meaning."""
        if meaning not in _CLASSES:
            meaning = Meaning.OTHER
        if meaning in {Meaning.THROTTLED, Meaning.NO_SERVICE}:
            meaning = Meaning.TRANSIENT
        return self.cures.get(meaning) or USUAL_CURES.get(meaning) or _TRY.format(self.tool)

    def _row_of(self, error: Exception) -> Row | None:
        return next((row for row in (*self.rows, *_BY_STATUS) if self._fits(row, error)), None)

    def _fits(self, row: Row, error: Exception) -> bool:
        return (
            isinstance(error, row.raised)
            and (row.when is None or row.when(error))
            and (row.statuses is None or self.status_of(error) in row.statuses)
            and (row.codes is None or re.search(row.codes, self.code_of(error)) is not None)
            and (row.words is None or re.search(row.words, self.details_of(error)) is not None)
        )
