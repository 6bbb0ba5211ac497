"""What an error of the cloud means to the user, and whether it is worth another try."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from keystoneauth1 import exceptions as auth
from openstack import exceptions as sdk

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

_QUOTA = re.compile(r"quota|maximum number of|limit exceeded", re.IGNORECASE)
_POLICY = re.compile(r"policy doesn't allow|disallowed by policy", re.IGNORECASE)
_NO_HOST = re.compile(r"no valid host|exceeded maximum number of retries", re.IGNORECASE)
_NO_CREDENTIALS = (
    auth.Unauthorized,
    auth.AuthorizationFailure,
    auth.AuthPluginException,
    auth.MissingAuthMethods,
    sdk.ConfigException,
)
# A service that does not answer has no versions for the SDK.
_NO_ANSWER = (auth.ConnectionError, auth.DiscoveryFailure, sdk.NotSupported)
_BUSY = {429, 500, 502, 503, 504}
_TLS_CURE = "is auth_url right? name the cloud's CA: cacert in clouds.yaml, or OS_CACERT"
_CURES: dict[type[ProviderError], str] = {
    CredentialsError: "check the cloud's entry in clouds.yaml, or the OS_* variables; does"
    " `openstack token issue` work?",
    PolicyError: "ask the cloud's administrator for the right, or do without (see"
    " docs/providers/openstack.md)",
    QuotaError: "plan fewer or smaller endpoints, remove what you don't need, or ask for more",
    CapacityError: "use a smaller flavor, another placement, or wait until the cloud has room",
    ApiError: "is the cloud's API up? try again later",
    NotFoundError: "was it removed by somebody?",
    ProviderError: "change in the scenario what the cloud calls wrong; if nothing is, try it by"
    " the `openstack` command",
}


def status_of(error: Exception) -> int | None:
    """Return the HTTP status of an error, None where there was no answer."""
    if isinstance(error, sdk.HttpException):
        return error.status_code
    if isinstance(error, auth.HttpError):
        return int(error.http_status)
    return None


def details_of(error: Exception) -> str:
    """Return what the service itself says about an error."""
    details = getattr(error, "details", None) or getattr(error, "message", None) or str(error)
    return " ".join(str(details).split()) or type(error).__name__


def is_refused(error: Exception) -> bool:
    """Tell whether the cloud did surely nothing; a connection that broke does not tell."""
    return status_of(error) == 429


def is_passing(error: Exception) -> bool:
    """Tell whether the API failed at something that it may do when asked again."""
    if is_tls(error):
        return False
    return isinstance(error, _NO_ANSWER) or status_of(error) in _BUSY


def is_tls(error: BaseException | None) -> bool:
    """Tell whether TLS failed, also below another error: asking again changes nothing there."""
    if error is None or isinstance(error, auth.SSLError):
        return error is not None
    return is_tls(error.__cause__ or error.__context__)


def is_in_use(error: Exception) -> bool:
    """Tell whether something can't be deleted now, as it may be when others are gone."""
    # Cinder answers 400 about a volume that is still being detached.
    busy = status_of(error) == 400 and "status must be" in details_of(error)
    return busy or is_passing(error) or status_of(error) == 409


def pause_of(error: Exception) -> float | None:
    """Return the seconds that the cloud asks to wait (Retry-After, RFC 9110 10.2.3), if it does.

    It asks by a number of seconds, or by the date when to come again.
    """
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    value = str(headers.get("Retry-After", ""))
    seconds = parse_count(value)
    if seconds is not None:
        return float(seconds)
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)  # "-0000" is UTC, too
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


def translate(error: Exception, doing: str) -> ProviderError:
    """Return the error to show: of the right kind, with a cure."""
    details = details_of(error)
    if is_tls(error):
        return CredentialsError(f"{doing}: {details}", cure=_TLS_CURE)
    kind = _kind(error, details)
    return kind(f"{doing}: {details}", cure=_CURES[kind])


def of_fault(message: str) -> type[ProviderError] | None:
    """Return the kind of error that a server's fault tells of; None if it says nothing special."""
    if _NO_HOST.search(message):
        return CapacityError
    return QuotaError if _QUOTA.search(message) else None


def cure_of(kind: type[ProviderError]) -> str | None:
    """Return what to do about a kind of error."""
    return _CURES.get(kind)


def _kind(error: Exception, details: str) -> type[ProviderError]:
    status = status_of(error)
    if isinstance(error, _NO_CREDENTIALS) or status == 401:
        return CredentialsError
    if status in {403, 409, 413} and _QUOTA.search(details) and not _POLICY.search(details):
        return QuotaError
    if isinstance(error, auth.CatalogException | sdk.EndpointNotFound) or is_passing(error):
        return ApiError
    by_status = {403: PolicyError, 404: NotFoundError}
    return by_status.get(status or 0, ProviderError)
