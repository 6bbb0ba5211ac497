"""What an error of Google's API means to the user, and whether it is worth another try."""

from __future__ import annotations

import re

import requests
from google.api_core.exceptions import GoogleAPICallError
from google.auth.exceptions import GoogleAuthError, TransportError

from osmef.errors import (
    ApiError,
    CapacityError,
    CredentialsError,
    NotFoundError,
    PolicyError,
    ProviderError,
    QuotaError,
)
from osmef.providers.marks import PREFIX
from osmef.units import parse_count

_BUSY = {408, 429, 500, 502, 503, 504}
_PERMISSION = re.compile(r"'(compute\.[A-Za-z.]+|iam\.[A-Za-z.]+)' permission")
USUAL_CURE = (
    "change in the scenario what the cloud calls wrong; if nothing is, try it by the"
    " `gcloud` command"
)
_CURES: dict[type[ProviderError], str] = {
    CredentialsError: "run `gcloud auth application-default login`, or point"
    " GOOGLE_APPLICATION_CREDENTIALS to a file with credentials",
    PolicyError: "grant the role of docs/policies/gce-role.yaml in this project; is its Compute"
    " Engine API enabled?",
    QuotaError: "plan fewer or smaller endpoints, remove what you don't need, or ask for more",
    CapacityError: "use another zone or machine type, or wait until the cloud has room",
    ApiError: "is the cloud's API up? try again later",
    NotFoundError: "was it removed by somebody?",
    ProviderError: USUAL_CURE,
}
_KINDS: dict[str, type[ProviderError]] = {
    "accessnotconfigured": PolicyError,
    "autherror": CredentialsError,
    "forbidden": PolicyError,
    "insufficientpermissions": PolicyError,
    "notfound": NotFoundError,
    "permissionserror": PolicyError,
    "quotaexceeded": QuotaError,
    "resourceexhausted": CapacityError,
    "resourcenotfound": NotFoundError,
    "resourcepoolexhausted": CapacityError,
    "zoneresourcepoolexhausted": CapacityError,
    "zoneresourcepoolexhaustedwithdetails": CapacityError,
}
_BY_STATUS: dict[int | None, type[ProviderError]] = {
    401: CredentialsError,
    403: PolicyError,
    404: NotFoundError,
}
_CALL = re.compile(r"^[A-Z]+ https?://\S+: ")
"""What the library puts before the words of the cloud."""
_NOT_READY = "resourcenotready"
_IN_USE = {"resourceinusebyanotherresource", "resourceinuse", _NOT_READY}
_THERE = {"alreadyexists", "resourcealreadyexists"}
_OURS = re.compile(rf"/(networks|subnetworks|resourcePolicies)/{PREFIX}")


class OperationError(Exception):
    """What an operation of the cloud ended with: its code, message and HTTP status."""

    def __init__(self, code: str, message: str, status: int) -> None:
        super().__init__(message or code)
        self.code = code
        self.status = status


LIBRARY_ERRORS = (GoogleAPICallError, GoogleAuthError, requests.RequestException, OperationError)


def _status_of(error: Exception) -> int | None:
    if isinstance(error, OperationError):
        return error.status
    return int(error.code) if isinstance(error, GoogleAPICallError) and error.code else None


def _reason_of(error: Exception) -> str:
    """Return the reason that the cloud gives, written as in both of its styles of an error."""
    reason = ""
    if isinstance(error, OperationError):
        reason = error.code
    elif isinstance(error, GoogleAPICallError) and error.errors:
        first = error.errors[0]
        reason = str(first.get("reason", "")) if isinstance(first, dict) else ""
    return reason.replace("_", "").lower()


def details_of(error: Exception) -> str:
    """Return what the cloud itself says about an error."""
    said = error.message if isinstance(error, GoogleAPICallError) else str(error)
    return _CALL.sub("", " ".join(str(said).split())) or type(error).__name__


def is_passing(error: Exception) -> bool:
    """Tell whether the API failed at something that it may do when asked again."""
    if isinstance(error, OperationError):
        return False  # it would tell of the same operation
    if isinstance(error, TransportError | requests.ConnectionError | requests.Timeout):
        return True
    return _status_of(error) in _BUSY or "ratelimitexceeded" in _reason_of(error)


def is_late(error: Exception) -> bool:
    """Tell whether something that was just made may not be seen yet, where the call looks at it."""
    return is_gone(error) or _reason_of(error) == _NOT_READY or is_passing(error)


def is_early(error: Exception) -> bool:
    """Tell whether something of ours that a new thing needs was made too shortly before it."""
    if isinstance(error, OperationError):
        return False
    unseen = is_gone(error) and _OURS.search(details_of(error)) is not None
    return unseen or _reason_of(error) == _NOT_READY or is_passing(error)


def is_refusal(error: Exception) -> bool:
    """Tell whether the cloud said no, so that what was asked for has not come about."""
    if isinstance(error, OperationError):
        return True
    return 400 <= (_status_of(error) or 0) < 500 and not is_passing(error)


def is_in_use(error: Exception) -> bool:
    """Tell whether something can't be deleted now, as it may be when others are gone."""
    return _reason_of(error) in _IN_USE or is_passing(error)


def is_there(error: Exception) -> bool:
    """Tell whether something of this name exists."""
    return _status_of(error) == 409 and _reason_of(error) in _THERE


def is_gone(error: Exception) -> bool:
    """Tell whether what was asked for does not exist."""
    return _status_of(error) == 404


def pause_of(error: Exception) -> float | None:
    """Return the seconds that the cloud asks to wait (Retry-After, RFC 9110 10.2.3), if it does."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    return parse_count(str(headers.get("Retry-After", "")))


def translate(error: Exception, doing: str) -> ProviderError:
    """Return the error to show: of the right kind, with a cure, and the permission it lacked."""
    details = details_of(error)
    kind = _kind(error)
    cure = _CURES[kind]
    lacking = _PERMISSION.search(details) if kind is PolicyError else None
    if lacking:
        cure = f"grant {lacking[1]}; docs/policies/gce-role.yaml has all that OSMeF needs"
    return kind(f"{doing}: {details}", cure=cure)


def _kind(error: Exception) -> type[ProviderError]:
    if is_passing(error):
        return ApiError
    if isinstance(error, GoogleAuthError):
        return CredentialsError
    return _KINDS.get(_reason_of(error)) or _BY_STATUS.get(_status_of(error), ProviderError)
