"""What an error of Azure means to the user, and whether it is worth another try.

Sources: Microsoft's "Troubleshoot common Azure deployment errors" and "Troubleshoot allocation
failures", and the error contract of Azure Resource Manager (error.code, error.message).
"""

from __future__ import annotations

import re

from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)

from osmef.errors import (
    ApiError,
    CapacityError,
    CredentialsError,
    NotFoundError,
    PolicyError,
    ProviderError,
    QuotaError,
)

_CAPACITY = re.compile(
    "AllocationFailed|SkuNotAvailable|OverconstrainedAllocation|OverconstrainedZonalAllocation|"
    "DedicatedHostCapacity|NotEnoughCapacity"
)
_QUOTA_CODE = re.compile("Quota|LimitReached|LimitExceeded")
_QUOTA_TEXT = re.compile(r"exceeding approved .* quota|quota limit", re.IGNORECASE | re.DOTALL)
_POLICY = re.compile("AuthorizationFailed|RequestDisallowed|Forbidden|ReadOnlyDisabled|ScopeLocked")
_NOT_YET = re.compile(
    "ResourceGroupNotFound|ResourceNotFound|ParentResourceNotFound|InvalidResourceReference|"
    "ReferencedResourceNotProvisioned|^NotFound$"
)
_BUSY = re.compile(
    "AnotherOperationInProgress|RetryableError|ResourceNotReady|OperationPreempted|"
    "CanceledAndSuperseded|ResourceGroupBeingDeleted|ReferencedResourceNotProvisioned|"
    "ReservedForAnotherVm"
)
_IN_USE = re.compile(
    "InUse|CannotBeDeleted|CannotDelete|ResourceGroupDeletion|DeletionFailed|CannotBeRemoved"
)
_IN_USE_TEXT = re.compile("cannot be deleted|in use by", re.IGNORECASE)
_ACTION = re.compile(r"perform action(?:\(s\))? '([^']+)'")
_LOCKED = re.compile("ScopeLocked")
_NOT_IN_REGION = re.compile("LocationNotAvailableForResourceType|NoRegisteredProviderFound")
_UNREGISTERED = re.compile("MissingSubscriptionRegistration")
_NAMESPACE = re.compile(r"namespace '([\w.]+)'")
_UNKNOWN_SUBSCRIPTION = re.compile("SubscriptionNotFound|InvalidSubscriptionId")
USUAL_CURE = (
    "change in the scenario what the cloud calls wrong; if nothing is, try it by the `az` command"
)
_CURES: dict[type[ProviderError], str] = {
    CredentialsError: "log in with `az login`, or set AZURE_TENANT_ID, AZURE_CLIENT_ID and"
    " AZURE_CLIENT_SECRET; does `az account show` work?",
    PolicyError: "have a role assigned that allows it: docs/policies/azure-role.json",
    QuotaError: "plan fewer or smaller endpoints, use another region, or ask for more (portal:"
    " Quotas)",
    CapacityError: "use another size, zone or region, or wait until Azure has room",
    ApiError: "is Azure well? (azure.status.microsoft) try again later",
    NotFoundError: "was it removed by somebody?",
    ProviderError: USUAL_CURE,
}


def code_of(error: Exception) -> str:
    """Return Azure's code of an error, of the innermost detail that has one; else nothing."""
    told = getattr(error, "error", None)
    code = str(getattr(told, "code", None) or "")
    for detail in getattr(told, "details", None) or ():
        if getattr(detail, "code", None):
            code = f"{code}/{detail.code}"
    return code


def details_of(error: Exception) -> str:
    """Return what Azure itself says about an error."""
    told = getattr(error, "error", None)
    texts = [getattr(told, "message", None) or getattr(error, "message", None) or str(error)]
    texts += [getattr(detail, "message", None) for detail in getattr(told, "details", None) or ()]
    whole = " ".join(" ".join(dict.fromkeys(text for text in texts if text)).split())
    code = code_of(error)
    return f"{code}: {whole}" if code and code not in whole else whole or type(error).__name__


def is_gone(error: Exception) -> bool:
    """Tell whether a thing is not there."""
    return isinstance(error, HttpResponseError) and error.status_code == 404


def is_not_yet(error: Exception) -> bool:
    """Tell whether a thing that was made is not seen everywhere yet, or is still being changed."""
    code = code_of(error)
    if "Image" in code:  # nobody makes one here
        return False
    return is_gone(error) or bool(_NOT_YET.search(code) or _BUSY.search(code))


def is_not_in_region(error: BaseException | None) -> bool:
    """Tell whether a region does not have a type of things."""
    return isinstance(error, Exception) and bool(_NOT_IN_REGION.search(code_of(error)))


def is_in_use(error: Exception) -> bool:
    """Tell whether something can't be deleted now, as it may be when others are gone."""
    code = code_of(error)
    if _IN_USE.search(code) or _BUSY.search(code):
        return True
    return "OperationNotAllowed" in code and bool(_IN_USE_TEXT.search(details_of(error)))


def kind_of(error: Exception) -> type[ProviderError]:
    """Return the kind of error to show."""
    code, details = code_of(error), details_of(error)
    if isinstance(error, ServiceRequestError | ServiceResponseError):
        return ApiError
    if isinstance(error, ClientAuthenticationError):
        return CredentialsError
    patterns: tuple[tuple[re.Pattern[str], str, type[ProviderError]], ...] = (
        (_CAPACITY, code, CapacityError),
        (_QUOTA_CODE, code, QuotaError),
        (_QUOTA_TEXT, details, QuotaError),
        (_POLICY, code, PolicyError),
    )
    for pattern, text, kind in patterns:
        if pattern.search(text):
            return kind
    status = getattr(error, "status_code", None) or 0
    by_status = {401: CredentialsError, 403: PolicyError, 404: NotFoundError, 429: ApiError}
    return by_status.get(status, ApiError if status >= 500 else ProviderError)


def translate(error: Exception, doing: str) -> ProviderError:
    """Return the error to show: of the right kind, with a cure."""
    kind, details = kind_of(error), details_of(error)
    return kind(f"{doing}: {details}", cure=_cure(kind, code_of(error), details))


def _cure(kind: type[ProviderError], code: str, details: str) -> str:
    if _LOCKED.search(code):
        return "remove the lock: az lock list; then: osmef reap --provider azure"
    if _UNKNOWN_SUBSCRIPTION.search(code):
        return "is it the right id, of the directory that you are logged into? az account list"
    if _UNREGISTERED.search(code):
        found = _NAMESPACE.search(details)
        return f"az provider register --namespace {found[1] if found else 'NAMESPACE'}"
    # Of something that is referred to, the action that is missing is named last.
    actions = _ACTION.findall(details)
    if kind is PolicyError and actions:
        return f"have a role assigned that allows {actions[-1]}: docs/policies/azure-role.json"
    return _CURES[kind]
