"""A subscription of Azure: clients, calls, interruptible waits, and the meaning of errors.

Sources: Microsoft's "Troubleshoot common Azure deployment errors" and "Troubleshoot allocation
failures", and the error contract of Azure Resource Manager (error.code, error.message).
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, TypeVar

from azure.core import PipelineClient
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.core.pipeline.policies import RetryPolicy
from azure.core.pipeline.transport import RequestsTransport
from azure.core.polling import LROPoller
from azure.core.rest import HttpRequest
from azure.identity import DefaultAzureCredential
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.compute import models as compute_models
from azure.mgmt.network import NetworkManagementClient
from azure.mgmt.network import models as network_models
from azure.mgmt.resource.resources import ResourceManagementClient
from azure.mgmt.resource.subscriptions import SubscriptionClient

from osmef.errors import ApiError, CredentialsError
from osmef.providers.base import Access, CancellationCheck, never_cancelled
from osmef.providers.cloud import account as cloud
from osmef.providers.cloud.account import Again, CloudWaits
from osmef.providers.cloud.errors import ErrorTable, Meaning, Row
from osmef.providers.cloud_init import MOST_CONSOLE
from osmef.providers.retry import LIMIT_S

_NOT_IN_REGION = re.compile("LocationNotAvailableForResourceType|NoRegisteredProviderFound")
_ACTION = r"perform action(?:\(s\))? '([^']+)'"
_ASSIGN = "have a role assigned that allows {}: docs/policies/azure-role.json"
_NO_SUBSCRIPTION = "SubscriptionNotFound|InvalidSubscriptionId"
_WHICH = "is it the right id, of the directory that you are logged into? az account list"
_ROWS = (
    Row(Meaning.TRANSIENT, raised=(ServiceRequestError, ServiceResponseError)),
    Row(Meaning.CREDENTIALS, _NO_SUBSCRIPTION, raised=(ClientAuthenticationError,), cure=_WHICH),
    Row(Meaning.CREDENTIALS, raised=(ClientAuthenticationError,)),
    Row(
        Meaning.NO_CAPACITY,
        "AllocationFailed|SkuNotAvailable|OverconstrainedAllocation|OverconstrainedZonalAllocation"
        "|DedicatedHostCapacity|NotEnoughCapacity",
    ),
    Row(Meaning.QUOTA, "Quota|LimitReached|LimitExceeded"),
    Row(Meaning.QUOTA, words=r"(?is)exceeding approved .* quota|quota limit"),
    Row(
        Meaning.DENIED,
        "ScopeLocked",
        cure="remove the lock: az lock list; then: osmef reap --provider azure",
    ),
    Row(
        Meaning.DENIED,
        "RequestDisallowedByPolicy",
        cure="no role helps: do as that Azure Policy wants, or ask its owner for an exemption",
    ),
    Row(
        Meaning.DENIED,
        "RequestDisallowedByAzure",
        cure="use another region: Microsoft does not let this subscription use this one",
    ),
    # Of something that is referred to, the action that is missing is named last.
    Row(
        Meaning.DENIED,
        "AuthorizationFailed|Forbidden|ReadOnlyDisabled",
        named=_ACTION,
        naming=_ASSIGN,
    ),
    Row(Meaning.GONE, _NO_SUBSCRIPTION, {404}, cure=_WHICH),
    Row(Meaning.OTHER, _NO_SUBSCRIPTION, cure=_WHICH),
    Row(
        Meaning.OTHER,
        "MissingSubscriptionRegistration",
        cure="az provider register --namespace NAMESPACE",
        named=r"namespace '([\w.]+)'",
        naming="az provider register --namespace {}",
    ),
    Row(
        Meaning.IN_USE,
        "InUse|CannotBeDeleted|CannotDelete|ResourceGroupDeletion|DeletionFailed|CannotBeRemoved",
    ),
    Row(Meaning.IN_USE, "OperationNotAllowed", words="(?i)cannot be deleted|in use by"),
    Row(
        Meaning.NOT_READY,
        "AnotherOperationInProgress|RetryableError|ResourceNotReady|OperationPreempted"
        "|CanceledAndSuperseded|ResourceGroupBeingDeleted|ReferencedResourceNotProvisioned"
        "|ReservedForAnotherVm",
    ),
    Row(Meaning.DENIED, statuses={403}, named=_ACTION, naming=_ASSIGN),
    Row(Meaning.GONE, statuses={404}),
    Row(
        Meaning.NOT_READY,
        "ResourceGroupNotFound|ResourceNotFound|ParentResourceNotFound|InvalidResourceReference"
        "|^NotFound$",
    ),
    Row(Meaning.THROTTLED, statuses={429}),
    Row(Meaning.TRANSIENT, statuses=range(500, 600)),
)
_CURES = {
    Meaning.CREDENTIALS: "log in with `az login`, or set AZURE_TENANT_ID, AZURE_CLIENT_ID and"
    " AZURE_CLIENT_SECRET; does `az account show` work?",
    Meaning.DENIED: "have a role assigned that allows it: docs/policies/azure-role.json",
    Meaning.QUOTA: "plan fewer or smaller endpoints, use another region, or ask for more (portal:"
    " Quotas)",
    Meaning.NO_CAPACITY: "use another size, zone or region, or wait until Azure has capacity",
    Meaning.TRANSIENT: "is Azure well? (azure.status.microsoft) try again later",
}


def code_of(error: Exception) -> str:
    """Return Azure's code of an error, of the innermost detail that has one; else nothing."""
    reported = getattr(error, "error", None)
    code = str(getattr(reported, "code", None) or "")
    for detail in getattr(reported, "details", None) or ():
        if getattr(detail, "code", None):
            code = f"{code}/{detail.code}"
    return code


_TRIED = re.compile(r"^\t(\w+): (.+)$", re.MULTILINE)
_ABSENT = re.compile(
    r"^(\w+ authentication|\w+Credential|Shared token cache) unavailable"
    "|not found on path|not installed|could not be found|requires the|No managed identity endpoint"
)


def _of_credentials(message: str) -> str:
    """Return which credentials of the SDK's chain failed; most of the chain is not configured."""
    if "Attempted credentials:" not in message:
        return message
    tried = _TRIED.findall(message)
    failed = [f"{kind}: {why}" for kind, why in tried if not _ABSENT.search(why)]
    return "; ".join(failed) or "no credentials were found"


def details_of(error: Exception) -> str:
    """Return Azure's message of an error."""
    reported = getattr(error, "error", None)
    message = getattr(error, "message", None) or str(error)
    texts = [getattr(reported, "message", None) or _of_credentials(message)]
    texts += [
        getattr(detail, "message", None) for detail in getattr(reported, "details", None) or ()
    ]
    whole = " ".join(" ".join(dict.fromkeys(text for text in texts if text)).split())
    code = code_of(error)
    return f"{code}: {whole}" if code and code not in whole else whole or type(error).__name__


def is_not_in_region(error: BaseException | None) -> bool:
    """Return whether a region lacks a resource type."""
    return isinstance(error, Exception) and bool(_NOT_IN_REGION.search(code_of(error)))


ERRORS = ErrorTable(
    library=(AzureError,),
    rows=_ROWS,
    cures=_CURES,
    tool="az",
    code_of=code_of,
    status_of=lambda error: getattr(error, "status_code", None),
    details_of=details_of,
    headers_of=lambda _error: {},  # the SDK waits as Azure asks to
)


_REGIONAL = re.compile(
    r"(?i)(?<=^https://)[a-z0-9-]+\.(?=management\.(azure\.com|usgovcloudapi\.net|chinacloudapi\.cn))"
)


def scope_of(address: str) -> str:
    """Return the scope of a token for an API: Azure's regional ones take that of the whole."""
    return f"{_REGIONAL.sub('', address)}/.default"


T = TypeVar("T")

_NOT_YET_S = 200.0
"""How long something that was made may stay unseen elsewhere in Azure, or an interface that a VM
was refused with stay reserved for it (180 s)."""
USUAL = CloudWaits(retry_s=_NOT_YET_S, in_use_s=300.0)
"""An interface is kept for its VM up to 180 s after that is gone."""
_ANSWER_S, _CONNECT_S = 60.0, 10.0
_POLL_S = 1.0
"""How often to ask after a long operation, where Azure itself says nothing (Retry-After)."""
_RETRIES = {"retry_total": 8, "retry_status": 8, "retry_connect": 5, "retry_read": 5}


_PREPARING = threading.Lock()


@cache
def _prepare_models() -> None:
    """Instantiate each model of answers once.

    A class of the SDK (azure-mgmt-compute 39.0) looks its fields up when its first object is made.
    Where two threads do that at once, one of them may get plain dictionaries instead of objects.
    """
    for models in (compute_models, network_models):
        for name in models.__all__:
            if getattr(getattr(models, name), "_is_model", False):
                getattr(models, name)({})


class _Transport(RequestsTransport):  # type: ignore[misc] # azure-core loads it without a type
    """HTTP transport whose pauses between retries and polls are interruptible."""

    def __init__(self, wait: Callable[[float], None]) -> None:
        super().__init__(connection_timeout=_CONNECT_S, read_timeout=_ANSWER_S)
        self._wait = wait

    def send(self, request: Any, **keys: Any) -> Any:
        """Return a fully read answer, so that no connection stays open."""
        return super().send(request, **{**keys, "stream": False})

    def sleep(self, duration: float) -> None:
        """Wait, within a limit. Raises ApiError, and what interrupts the wait."""
        if duration > LIMIT_S:
            raise ApiError(
                f"Azure asks to wait {duration:.0f} s (Retry-After)",
                cure="too many requests were made in this subscription: try again after that time",
            )
        self._wait(duration)


class Subscription(cloud.Account):
    """One subscription, by default that of the environment. Thread-safe.

    Logs in, and looks whether it is there. Raises CredentialsError where nothing names one,
    ProviderError.
    """

    provider = "azure"
    errors = ERRORS
    look_at = "look at it: az resource list --tag osmef_run"
    is_idempotent = True  # a request to create names the thing
    refusal_leaves_nothing = False  # a VM that could not be allocated is there all the same

    def __init__(
        self, access: Access, waits: CloudWaits = USUAL, check: CancellationCheck = never_cancelled
    ) -> None:
        id_ = access.get("cloud") or os.environ.get("AZURE_SUBSCRIPTION_ID")
        if not id_:
            raise CredentialsError(
                "no subscription is configured",
                where="provider: azure",
                cure="set AZURE_SUBSCRIPTION_ID, or write provider.tenants: {NAME: ID} (for reap"
                " --cloud ID)",
            )
        super().__init__({**access, "cloud": id_}, f"subscription {id_}", waits, check)
        self.id = id_
        with _PREPARING:
            _prepare_models()
        url = access.get("uri")
        # Another address is another cloud, whose authority Microsoft's own can't vouch for.
        self._credential = DefaultAzureCredential(disable_instance_discovery=url is not None)
        self._transport = _Transport(self.wait)
        self._options: dict[str, Any] = {
            "transport": self._transport,
            "polling_interval": _POLL_S,
            **_RETRIES,
            "retry_backoff_factor": 0.5,
            "retry_backoff_max": 8,
        }
        if url is not None:
            address = url.rstrip("/")
            self._options |= {"base_url": address, "credential_scopes": [scope_of(address)]}
        self.do("logging in", lambda: self.subscriptions.subscriptions.get(id_))

    @cached_property
    def compute(self) -> ComputeManagementClient:
        """Microsoft.Compute."""
        return ComputeManagementClient(self._credential, self.id, **self._options)

    @cached_property
    def network(self) -> NetworkManagementClient:
        """Microsoft.Network."""
        return NetworkManagementClient(self._credential, self.id, **self._options)

    @cached_property
    def resources(self) -> ResourceManagementClient:
        """Microsoft.Resources."""
        return ResourceManagementClient(self._credential, self.id, **self._options)

    @cached_property
    def subscriptions(self) -> SubscriptionClient:
        """Subscriptions and their regions."""
        return SubscriptionClient(self._credential, **self._options)

    def fetch(self, link: str) -> str:
        """Return the tail of a document at a link, without sending our token."""

        def get() -> str:
            retries = RetryPolicy(
                **_RETRIES
            )  # no further policies: a log would show the signed link
            client: Any = PipelineClient(link, transport=self._transport, policies=[retries])
            with client.send_request(HttpRequest("GET", link), stream=True) as answer:
                answer.raise_for_status()
                data = bytearray()
                for part in answer.iter_bytes():
                    data += part
                    del data[:-MOST_CONSOLE]
            return data.decode(errors="replace")

        return self.do("reading a file of Azure's", get)

    def may_create_later(self, error: Exception) -> bool:
        """Return whether a creation may succeed later."""
        return ERRORS.is_not_yet(error) and "Image" not in code_of(error)

    def repeat(
        self, call: Callable[[], T], again: Again | None = None, limit_s: float | None = None
    ) -> T:
        """Return a call's result, of a long-running operation at its end.

        The SDK itself retries transient errors, such as 429, 503 and broken connections, which is
        safe also for a PUT, as it names the resource. Only the other errors of ``again`` are
        retried here.
        """

        def attempt() -> T:
            found: Any = call()
            ended: T = found.result() if isinstance(found, LROPoller) else found
            return ended

        def may_do(error: Exception) -> bool:
            return again is not None and again(error) and not ERRORS.is_transient(error)

        return super().repeat(attempt, may_do, limit_s)


def word(value: Any) -> str | None:
    """Return an enum's value as in the API."""
    return None if value is None else str(getattr(value, "value", value))
