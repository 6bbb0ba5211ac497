"""A project of Google Cloud: clients, calls and operations, and the meaning of errors."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import google.auth
import requests
from google.api_core.exceptions import GoogleAPICallError
from google.auth import environment_vars
from google.auth.exceptions import GoogleAuthError, TransportError
from google.cloud import compute_v1

from osmef.errors import ApiError, CredentialsError, NotFoundError
from osmef.providers.base import Access, CancellationCheck, never_cancelled
from osmef.providers.cloud import account as cloud
from osmef.providers.cloud.account import Again, CloudWaits, access_with
from osmef.providers.cloud.errors import AGAIN, ErrorTable, Meaning, Row
from osmef.providers.marks import PREFIX

_GRANT = "grant {}; docs/policies/gce-role.yaml has all that OSMeF needs"
_PERMISSION = r"'(compute\.[A-Za-z.]+|iam\.[A-Za-z.]+)' permission"
_API = (GoogleAPICallError,)
_ROWS = (
    Row(Meaning.TRANSIENT, raised=(TransportError, requests.ConnectionError, requests.Timeout)),
    # Not of operations: a failed one fails again.
    Row(Meaning.THROTTLED, "ratelimitexceeded", raised=_API),
    Row(Meaning.THROTTLED, statuses={429}, raised=_API),
    Row(Meaning.TRANSIENT, statuses=AGAIN, raised=_API),
    Row(Meaning.CREDENTIALS, raised=(GoogleAuthError,)),
    Row(Meaning.NOT_READY, "^resourcenotready$"),
    Row(Meaning.IN_USE, "^resourceinuse(byanotherresource)?$"),
    Row(Meaning.EXISTS, "^(resource)?alreadyexists$", statuses={409}),
    Row(Meaning.CREDENTIALS, "^autherror$"),
    Row(
        Meaning.DENIED,
        words="onstraints/.+ violated|violates constraint|denied by (custom )?org polic",
        cure="no role helps: have this project excepted from that policy of the organization",
        named=r"(?:constraints|customConstraints)/[\w.]+",
        naming="no role helps: have this project excepted from the organization policy {}",
    ),
    Row(
        Meaning.DENIED,
        "^(accessnotconfigured|forbidden|insufficientpermissions|permissionserror)$",
        named=_PERMISSION,
        naming=_GRANT,
    ),
    Row(Meaning.QUOTA, "^quotaexceeded$"),
    Row(
        Meaning.NO_CAPACITY,
        "^(resourceexhausted|resourcepoolexhausted|zoneresourcepoolexhausted(withdetails)?)$",
    ),
    Row(
        Meaning.GONE,
        statuses={404},
        words=r"^The resource 'projects/[^/']+' was not found",
        cure="is this the id of a project that these credentials may see? gcloud projects list",
    ),
    Row(Meaning.GONE, "^(resource)?notfound$"),
    Row(Meaning.DENIED, statuses={403}, named=_PERMISSION, naming=_GRANT),
    Row(Meaning.OTHER, statuses=AGAIN, when=lambda error: isinstance(error, OperationError)),
)
_CURES = {
    Meaning.CREDENTIALS: "run `gcloud auth application-default login`, or point"
    " GOOGLE_APPLICATION_CREDENTIALS to a file with credentials",
    Meaning.DENIED: "grant the role of docs/policies/gce-role.yaml in this project; is its Compute"
    " Engine API enabled?",
    Meaning.NO_CAPACITY: "use another zone or machine type, or wait until the cloud has capacity",
}
_CALL = re.compile(r"^[A-Z]+ https?://\S+: ")
"""What the library puts before the words of the cloud."""
_OURS = re.compile(rf"/(networks|subnetworks|resourcePolicies)/{PREFIX}")


class OperationError(Exception):
    """The error of an operation: its code, message and HTTP status."""

    def __init__(self, code: str, message: str, status: int) -> None:
        super().__init__(message or code)
        self.code = code
        self.status = status


def _status_of(error: Exception) -> int | None:
    if isinstance(error, OperationError):
        return error.status
    return int(error.code) if isinstance(error, GoogleAPICallError) and error.code else None


def _reason_of(error: Exception) -> str:
    """Return the reason in an error, in either of the API's styles."""
    reason = ""
    if isinstance(error, OperationError):
        reason = error.code
    elif isinstance(error, GoogleAPICallError) and error.errors:
        first = error.errors[0]
        reason = str(first.get("reason", "")) if isinstance(first, dict) else ""
    return reason.replace("_", "").lower()


def details_of(error: Exception) -> str:
    """Return the cloud's message of an error."""
    said = error.message if isinstance(error, GoogleAPICallError) else str(error)
    if isinstance(error, GoogleAuthError):  # some have their cause beside their message
        said = ": ".join(str(one).removesuffix(".") for one in error.args)
    return _CALL.sub("", " ".join(str(said).split())) or type(error).__name__


ERRORS = ErrorTable(
    library=(GoogleAPICallError, GoogleAuthError, requests.RequestException, OperationError),
    rows=_ROWS,
    cures=_CURES,
    tool="gcloud",
    code_of=_reason_of,
    status_of=_status_of,
    details_of=details_of,
)


def is_early(error: Exception) -> bool:
    """Return whether a dependency of a new resource was created too recently."""
    if isinstance(error, OperationError):
        return False
    ours = _OURS.search(details_of(error)) is not None
    return ERRORS.is_not_yet(error) and (ours or not ERRORS.is_gone(error))


USUAL = CloudWaits()
AT_ONCE = 8
"""Requests on their way at once; the connections of one client are ten."""
_ANSWER_S = 60.0
_OPERATION_S = 600.0
_POLL_S = 1.0
_OPERATIONS: Mapping[str, type] = {
    "zone": compute_v1.ZoneOperationsClient,
    "region": compute_v1.RegionOperationsClient,
    "": compute_v1.GlobalOperationsClient,
}
"""Who knows of operations, by what they are in."""
_SCOPES = ("https://www.googleapis.com/auth/compute",)


_LOOKING = "looking for credentials"


def _find_credentials() -> tuple[Any, str | None]:
    """Return the credentials of Google's chain, and their project. Raises CredentialsError."""
    try:
        return google.auth.default(scopes=_SCOPES)
    except GoogleAuthError as error:
        raise ERRORS.translate(error, _LOOKING) from error
    # The library checks little of a file before it reads it.
    except (OSError, AttributeError, LookupError, TypeError, ValueError) as error:
        file = os.environ.get(environment_vars.CREDENTIALS) or "the file of gcloud"
        what = f"{_LOOKING}: {file} holds no credentials that can be used: {error}"
        raise CredentialsError(what, cure=ERRORS.cure_of(Meaning.CREDENTIALS)) from error


class Project(cloud.Account):
    """One project, by default that of the credentials. Thread-safe.

    Raises CredentialsError where there are none, or name no project.
    """

    provider = "gce"
    errors = ERRORS
    look_at = "look at it with gcloud"
    is_idempotent = True  # a request keeps its id when it is repeated

    def __init__(
        self, access: Access, waits: CloudWaits = USUAL, check: CancellationCheck = never_cancelled
    ) -> None:
        self._credentials, own = _find_credentials()
        project, url = access.get("cloud") or own, access.get("uri")
        if project is None:
            raise CredentialsError(
                "the credentials name no project",
                where="provider: gce",
                cure="write provider.project (for reap --cloud), or set GOOGLE_CLOUD_PROJECT",
            )
        super().__init__(access_with(cloud=project, uri=url), project, waits, check)
        self.id = project
        self._options = {"api_endpoint": url} if url else None
        self._clients: dict[type, Any] = {}
        self._lock = threading.Lock()

    def may_create_later(self, error: Exception) -> bool:
        """Return whether a creation may succeed later, by eventual consistency."""
        return is_early(error)

    def ask(
        self,
        doing: str,
        service: type,
        method: str,
        again: Again | None = None,
        /,
        **fields: Any,
    ) -> Any:
        """Make a reading call; ``fields`` are the request's, without the project.

        Raises ProviderError.
        """
        return self.do(doing, self._call(service, method, fields), again)

    def find(self, doing: str, service: type, method: str = "get", **fields: Any) -> Any | None:
        """Make a call that reads one thing; None where there is none. Raises ProviderError."""
        try:
            return self.ask(doing, service, method, **fields)
        except NotFoundError:
            return None

    def every(self, doing: str, service: type, method: str = "list", **fields: Any) -> list[Any]:
        """Return all pages of a list. Raises ProviderError."""
        call = self._call(service, method, fields)
        return self.do(doing, lambda: list(call()))

    def change(self, doing: str, service: type, method: str, **fields: Any) -> None:
        """Make a changing call once, and wait for its operation.

        Raises as the SDK, OperationError, and ProviderError where the operation can't be followed.
        """
        self._finish(doing, self._call(service, method, fields)())

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
        scope = next((one for one in ("zone", "region") if getattr(operation, one)), "")
        named = {scope: last(getattr(operation, scope))} if scope else {}
        named["operation"] = operation.name
        return self.ask(doing, _OPERATIONS[scope], "get", ERRORS.is_not_yet, **named)


def last(url: str) -> str:
    """Return the name at the end of a resource's URL."""
    return url.rsplit("/", 1)[-1]
