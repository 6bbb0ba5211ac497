"""A project of Google Cloud: its clients, its operations, and repeating what it may fail at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import google.auth
from google.auth.credentials import Credentials
from google.auth.exceptions import GoogleAuthError
from google.cloud import compute_v1

from osmef.errors import ApiError, CredentialsError, ProviderError
from osmef.providers.base import Access
from osmef.providers.gce import failures
from osmef.providers.gce.failures import OperationError
from osmef.providers.patience import Patience

T = TypeVar("T")
Again = Callable[[Exception], bool]
"""Tells of an error whether the same call may do when it is repeated."""

AT_ONCE = 8
"""Requests on their way at once; the connections of one client are ten."""
_ANSWER_S = 60.0
_OPERATION_S = 600.0
_POLL_S = 1.0
_SCOPES = ("https://www.googleapis.com/auth/compute",)


class Project:
    """One project. Safe to use from several threads."""

    def __init__(self, project: str, credentials: Credentials, url: str | None = None) -> None:
        self.id = project
        self.access: Access = {"cloud": project} | ({"uri": url} if url else {})
        self.check: Callable[[], None] = lambda: None
        """Called at least once a second in every wait; may raise."""
        self._credentials = credentials
        self._options = {"api_endpoint": url} if url else None
        self._clients: dict[type, Any] = {}
        self._lock = threading.Lock()

    def ask(
        self,
        doing: str,
        service: type,
        method: str,
        again: Again = failures.is_passing,
        /,
        **fields: Any,
    ) -> Any:
        """Make a call that changes nothing; ``fields`` are the request's, but for the project.

        Raises ProviderError.
        """
        return self._ask(doing, self._call(service, method, fields), again)

    def every(self, doing: str, service: type, method: str = "list", **fields: Any) -> list[Any]:
        """Return all pages of a list. Raises ProviderError."""
        call = self._call(service, method, fields)
        return self._ask(doing, lambda: list(call()), failures.is_passing)

    def change(
        self,
        doing: str,
        service: type,
        method: str,
        again: Again = failures.is_passing,
        /,
        **fields: Any,
    ) -> None:
        """Ask for a change that may be asked for twice, and wait until its operation ends.

        Raises one of LIBRARY_ERRORS, which ``shown`` translates, or ProviderError.
        """
        call = self._call(service, method, fields)
        self._attempts(lambda: self._finish(doing, call()), again)

    def _call(self, service: type, method: str, fields: Mapping[str, Any]) -> Callable[[], Any]:
        with self._lock:
            if service not in self._clients:
                self._clients[service] = service(
                    credentials=self._credentials, client_options=self._options
                )
            client = self._clients[service]
        request = {"project": self.id, **fields}
        # Its own repeating would be a second one, that knows of no request to stop.
        return lambda: getattr(client, method)(request=request, retry=None, timeout=_ANSWER_S)

    def _ask(self, doing: str, call: Callable[[], T], again: Again) -> T:
        try:
            return self._attempts(call, again)
        except failures.LIBRARY_ERRORS as error:
            raise self.shown(error, doing) from error

    def _finish(self, doing: str, operation: Any) -> None:
        end = time.monotonic() + _OPERATION_S
        pause = _POLL_S / 4
        while operation.status != compute_v1.Operation.Status.DONE:
            if time.monotonic() > end:
                raise ApiError(
                    f"{doing}: the operation {operation.name} does not end",
                    where=self.id,
                    cure="look at it: gcloud compute operations describe",
                )
            self.wait(pause)
            pause = min(2 * pause, _POLL_S)
            operation = self._look(doing, operation)
        if operation.error.errors:
            first = operation.error.errors[0]
            raise OperationError(first.code, first.message, operation.http_error_status_code)

    def _look(self, doing: str, operation: Any) -> Any:
        service: type
        if operation.zone:
            service, where = compute_v1.ZoneOperationsClient, {"zone": last(operation.zone)}
        elif operation.region:
            service, where = compute_v1.RegionOperationsClient, {"region": last(operation.region)}
        else:
            service, where = compute_v1.GlobalOperationsClient, {}
        return self.ask(doing, service, "get", failures.is_late, operation=operation.name, **where)

    def _attempts(self, call: Callable[[], T], again: Again) -> T:
        def pause_after(error: Exception) -> float | None:
            if not isinstance(error, failures.LIBRARY_ERRORS) or not again(error):
                return None
            return failures.pause_of(error) or 0.0

        return Patience(self.check).repeat(call, pause_after)

    def shown(self, error: Exception, doing: str) -> ProviderError:
        """Return the error of this project to show."""
        shown = failures.translate(error, doing)
        shown.where = self.id
        return shown

    def wait(self, seconds: float) -> None:
        """Wait, and call ``check`` once a second meanwhile."""
        Patience(self.check).wait(seconds)


def last(url: str) -> str:
    """Return the name at the end of a thing's URL."""
    return url.rsplit("/", 1)[-1]


def open_project(access: Access) -> Project:
    """Open the project that ``access`` calls its cloud, or else that of the credentials.

    Raises CredentialsError.
    """
    try:
        credentials, own = google.auth.default(scopes=_SCOPES)
    except GoogleAuthError as error:
        raise failures.translate(error, "looking for credentials") from error
    project = access.get("cloud") or own
    if project is None:
        raise CredentialsError(
            "the credentials name no project",
            where="provider: gce",
            cure="write provider.project, or set GOOGLE_CLOUD_PROJECT",
        )
    return Project(project, credentials, access.get("uri"))
