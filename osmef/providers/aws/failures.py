"""What an error of EC2 means to the user, and whether it is worth another try."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from botocore import exceptions as sdk
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

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

LIBRARY_ERRORS = (BotoCoreError, ClientError, ResponseParserError)
_NO_ANSWER = (
    sdk.HTTPClientError,
    sdk.EndpointConnectionError,
    sdk.ConnectionError,
    sdk.ResponseStreamingError,
    ResponseParserError,  # a page of a proxy, not an answer
)
_NO_CREDENTIALS = (
    sdk.NoCredentialsError,
    sdk.PartialCredentialsError,
    sdk.CredentialRetrievalError,
    sdk.ProfileNotFound,
    sdk.ConfigParseError,
    sdk.SSOError,
    sdk.TokenRetrievalError,
    sdk.InvalidConfigError,
)
_CREDENTIALS = {
    "AuthFailure",
    "Blocked",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "OptInRequired",
    "PendingVerification",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_POLICY = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
_THROTTLED = re.compile(r"RequestLimitExceeded|Throttl|TooManyRequests|SlowDown")
_CAPACITY = re.compile(r"^Insufficient.*Capacity|^UnfulfillableCapacity$|^Unsupported$|^SpotMaxPr")
_QUOTA = re.compile(r"LimitExceeded$|CountExceeded$|^QuotaExceeded|LimitExceededException$")
_MISSING = re.compile(r"\.NotFound$|\.Malformed$|\.Unknown$|NotFound$|^ParameterNotFound$")
_THERE = re.compile(r"\.Duplicate$|AlreadyExists$")
_IN_USE = re.compile(r"^DependencyViolation$|InUse$|Occupied$|^Incorrect(Instance)?State$")
_BUSY = {500, 502, 503, 504}
_LONG = 300
USUAL_CURE = (
    "change in the scenario what the cloud calls wrong; if nothing is, try it by the `aws` command"
)
_CURES: dict[type[ProviderError], str] = {
    CredentialsError: "does `aws sts get-caller-identity` work with this profile?",
    PolicyError: "attach the policy of docs/policies/aws.json to the user or role",
    QuotaError: "plan fewer or smaller endpoints, remove what you don't need, or ask for more in"
    " Service Quotas",
    CapacityError: "use another zone or instance type, on-demand instead of spot, or wait",
    ApiError: "is EC2 up in this region? try again later",
    NotFoundError: "was it removed by somebody?",
    ProviderError: USUAL_CURE,
}


def code_of(error: Exception) -> str:
    """Return EC2's own code of an error, empty where there was no answer."""
    if not isinstance(error, ClientError):
        return ""
    return str(error.response.get("Error", {}).get("Code", "")).removeprefix("Client.")


def details_of(error: Exception) -> str:
    """Return what EC2 says about an error, without what only EC2 can read."""
    text = str(error)
    if isinstance(error, ClientError):
        text = str(error.response.get("Error", {}).get("Message") or "")
        text = text.partition("Encoded authorization failure message")[0]
    words = " ".join(text.split())
    return words[:_LONG] or code_of(error) or type(error).__name__


def raise_unsuccessful(answer: Mapping[str, Any], action: str) -> None:
    """Raise the first error of an answer that says of each thing whether it went well."""
    for one in answer.get("Unsuccessful", ()):
        raise ClientError({"Error": one["Error"]}, action)


def not_listed_yet(what: str, action: str) -> ClientError:
    """Return the error of something that must be there, and that EC2 does not list."""
    error = {"Code": f"Invalid{what}ID.NotFound", "Message": f"EC2 lists no {what}"}
    return ClientError({"Error": error}, action)


def is_throttled(error: Exception) -> bool:
    """Tell whether EC2 did surely nothing, because there were too many requests."""
    return _THROTTLED.search(code_of(error)) is not None


def is_lacking(error: Exception) -> bool:
    """Tell whether EC2 has no room for what is asked, which it answers like a failure of its."""
    return _CAPACITY.search(code_of(error)) is not None


def is_passing(error: Exception) -> bool:
    """Tell whether EC2 failed at something that it may do when asked again."""
    if is_lacking(error):
        return False
    status = _metadata(error).get("HTTPStatusCode")
    return isinstance(error, _NO_ANSWER) or is_throttled(error) or status in _BUSY


def is_missing(error: Exception) -> bool:
    """Tell whether what a call names is not there, or not there yet."""
    return _MISSING.search(code_of(error)) is not None


def is_there(error: Exception) -> bool:
    """Tell whether there is something of the name already that a call was to make."""
    return _THERE.search(code_of(error)) is not None


def is_not_yet(error: Exception) -> bool:
    """Tell whether a call may work later, when EC2 knows everywhere what it made."""
    return is_passing(error) or is_missing(error)


def is_in_use(error: Exception) -> bool:
    """Tell whether something can't be deleted now, as it may be when others are gone."""
    return is_passing(error) or _IN_USE.search(code_of(error)) is not None


def pause_of(error: Exception) -> float:
    """Return the seconds that EC2 asks to wait (Retry-After, RFC 9110 10.2.3), 0 if it does not."""
    value = str(_metadata(error).get("HTTPHeaders", {}).get("retry-after", ""))
    return float(parse_count(value) or 0)


def _metadata(error: Exception) -> Mapping[str, Any]:
    return error.response.get("ResponseMetadata", {}) if isinstance(error, ClientError) else {}


def translate(error: Exception, doing: str, where: str) -> ProviderError:
    """Return the error to show: of the right kind, with a cure, and with the action it is about."""
    kind = _kind(error)
    message = f"{doing}: {details_of(error)}"
    if kind is PolicyError and isinstance(error, ClientError):
        message = f"{doing}: the policy does not allow {action_of(error)}: {details_of(error)}"
    return kind(message, where=where, cure=_CURES[kind])


def action_of(error: ClientError) -> str:
    """Return the permission that a failing call needs, as a policy names it."""
    found = re.search(r"perform: (\w+:\w+)", str(error))
    if found:
        return found[1]
    # Other services call it AccessDenied.
    ec2 = code_of(error) == "UnauthorizedOperation"
    return f"ec2:{error.operation_name}" if ec2 else str(error.operation_name)


def _kind(error: Exception) -> type[ProviderError]:
    code = code_of(error)
    if isinstance(error, _NO_CREDENTIALS) or code in _CREDENTIALS:
        return CredentialsError
    if code in _POLICY:
        return PolicyError
    if is_lacking(error):
        return CapacityError
    if is_passing(error):
        return ApiError
    if _QUOTA.search(code):
        return QuotaError
    return NotFoundError if is_missing(error) else ProviderError
