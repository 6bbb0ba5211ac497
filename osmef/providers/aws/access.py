"""An account in one region: its clients and calls, and the meaning of EC2's error codes."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import boto3
from botocore import exceptions as sdk
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from osmef.errors import ApiError, CredentialsError, ProviderError
from osmef.providers.base import Access, CancellationCheck, never_cancelled
from osmef.providers.cloud import account as cloud
from osmef.providers.cloud.account import Again, CloudWaits
from osmef.providers.cloud.errors import ErrorTable, Meaning, Row
from osmef.providers.cloud.lookup import known_names
from osmef.providers.parallel import AT_ONCE
from osmef.scenario.clouds.base import is_amazons

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
    sdk.RefreshWithMFAUnsupportedError,  # a session that began with a code is over
    getattr(sdk, "LoginError", sdk.SSOError),  # of `aws login`, which older ones don't know
)
_LONG = 500
_REFUSED = "^(AccessDenied|AccessDeniedException|UnauthorizedOperation)$"
_ROWS = (
    Row(Meaning.CREDENTIALS, raised=_NO_CREDENTIALS),
    Row(
        Meaning.CREDENTIALS,
        "^(AuthFailure|InvalidClientTokenId|UnrecognizedClientException)$",
        cure="does `aws sts get-caller-identity --region REGION` work with this profile and region?"
        " a region that is not enabled for the account answers so, too (aws account enable-region)",
    ),
    Row(
        Meaning.CREDENTIALS,
        r"^(Blocked|ExpiredToken(Exception)?|OptInRequired|PendingVerification|RequestExpired"
        r"|SignatureDoesNotMatch)$",
    ),
    Row(
        Meaning.DENIED,
        _REFUSED,
        words="(service|resource) control polic|permissions boundary",
        cure="no policy of the user or role helps: ask for a change of what denies it, whoever"
        " administers the organization or the permissions boundary",
    ),
    Row(Meaning.DENIED, _REFUSED),
    # Before failures of EC2's, whose status it has.
    Row(
        Meaning.NO_CAPACITY,
        r"^Insufficient.*Capacity|^UnfulfillableCapacity$|^Unsupported$|^SpotMaxPr",
    ),
    Row(Meaning.THROTTLED, "RequestLimitExceeded|Throttl|TooManyRequests|SlowDown"),
    Row(Meaning.TRANSIENT, raised=_NO_ANSWER),
    Row(Meaning.TRANSIENT, statuses={500, 502, 503, 504}),
    Row(Meaning.QUOTA, "LimitExceeded$|CountExceeded$|^QuotaExceeded|LimitExceededException$"),
    Row(Meaning.IN_USE, "^DependencyViolation$|InUse$|Occupied$|^Incorrect(Instance)?State$"),
    Row(Meaning.EXISTS, r"\.Duplicate$|^InvalidSubnet\.Conflict$|AlreadyExists$"),
    Row(Meaning.GONE, r"\.Malformed$|\.Unknown$|NotFound$|^Gateway\.NotAttached$"),
    Row(Meaning.OTHER, statuses={401, 403, 404, 408}),  # its codes say what these mean
)
_CURES = {
    Meaning.CREDENTIALS: "does `aws sts get-caller-identity` work with this profile?",
    Meaning.DENIED: "attach the policy of docs/policies/aws.json to the user or role",
    Meaning.QUOTA: "plan fewer or smaller endpoints, remove what you don't need, or ask for more in"
    " Service Quotas",
    Meaning.NO_CAPACITY: "use another zone or instance type, on-demand instead of spot, or wait",
    Meaning.TRANSIENT: "is EC2 up in this region? try again later",
}


def code_of(error: Exception) -> str:
    """Return EC2's own code of an error, empty where there was no answer."""
    if not isinstance(error, ClientError):
        return ""
    return str(error.response.get("Error", {}).get("Code", "")).removeprefix("Client.")


def details_of(error: Exception) -> str:
    """Return EC2's message of an error, without its encoded part."""
    text = str(error)
    if isinstance(error, ClientError):
        text = str(error.response.get("Error", {}).get("Message") or "")
        text = text.partition("Encoded authorization failure message")[0]
    words = " ".join(text.split())
    return words[:_LONG] or code_of(error) or type(error).__name__


def where(**wanted: str | Sequence[str]) -> list[dict[str, Any]]:
    """Return filters of a list by name, with ``_`` in the place of ``-``: one value or several."""
    return [
        {"Name": name.replace("_", "-"), "Values": [value] if isinstance(value, str) else [*value]}
        for name, value in wanted.items()
    ]


def raise_unsuccessful(answer: Mapping[str, Any], action: str) -> None:
    """Raise the first error of an answer with a result for each resource."""
    for one in answer.get("Unsuccessful", ()):
        raise ClientError({"Error": one["Error"]}, action)


def not_listed_yet(what: str, action: str) -> ClientError:
    """Return the error of an existing resource that EC2 does not list yet."""
    error = {"Code": f"Invalid{what}ID.NotFound", "Message": f"EC2 lists no {what}"}
    return ClientError({"Error": error}, action)


def action_of(error: ClientError) -> str:
    """Return the permission that a failing call needs, as a policy names it."""
    found = re.search(r"perform: (\w+:\w+)", str(error))
    if found:
        return found[1]
    # Other services call it AccessDenied.
    ec2 = code_of(error) == "UnauthorizedOperation"
    return f"ec2:{error.operation_name}" if ec2 else str(error.operation_name)


def address_of(service: str, access: Access) -> str | None:
    """Return the address of a service in an account, None for the usual one.

    That of an access is EC2's. Where it is none of Amazon's own, all services are there.
    """
    url = access.get("uri")
    return None if url and service != "ec2" and is_amazons(url) else url


def _answer(error: Exception) -> Mapping[str, Any]:
    return error.response.get("ResponseMetadata", {}) if isinstance(error, ClientError) else {}


ERRORS = ErrorTable(
    library=(BotoCoreError, ClientError, ResponseParserError),
    rows=_ROWS,
    cures=_CURES,
    tool="aws",
    code_of=code_of,
    status_of=lambda error: _answer(error).get("HTTPStatusCode"),
    details_of=details_of,
    headers_of=lambda error: _answer(error).get("HTTPHeaders", {}),
)


Answer = Mapping[str, Any]
ENDED = {"shutting-down", "terminated", "stopping", "stopped"}
"""States of an instance that ran and does so no more."""

USUAL = CloudWaits()
_ANSWER_S = 60
_CONNECT_S = 10
# The SDK would repeat each request, also one that creates a second resource.
_CONFIG = Config(
    connect_timeout=_CONNECT_S,
    read_timeout=_ANSWER_S,
    max_pool_connections=2 * AT_ONCE,
    retries={"mode": "standard", "total_max_attempts": 1},
    user_agent_extra="osmef",
)


class Account(cloud.Account):
    """One account in one region, by one profile's credentials. Thread-safe."""

    provider = "aws"
    errors = ERRORS
    look_at = "look at it in the EC2 console"

    def __init__(
        self, access: Access, waits: CloudWaits = USUAL, check: CancellationCheck = never_cancelled
    ) -> None:
        super().__init__(access, " ".join(["aws", *access.values()]), waits, check)
        self._lock = threading.Lock()
        self._clients: dict[str, Any] = {}
        try:
            self._session = boto3.Session(
                profile_name=access.get("cloud"), region_name=access.get("region")
            )
        except ERRORS.library as error:
            raise self.shown(error, "reading the AWS configuration") from error
        if self._session.region_name is None:
            raise CredentialsError(
                "no region is configured",
                where=self.name,
                cure="write provider.region (for reap --region), or set AWS_DEFAULT_REGION",
            )
        self.region = str(self._session.region_name)
        self.id = self._log_in()

    def _log_in(self) -> str:
        """Return the account's id. Raises ProviderError."""
        try:
            return str(self.read("get_caller_identity", "logging in", service="sts")["Account"])
        except ApiError as error:
            known = self._known_regions()
            if address_of("sts", self.access) is not None or self.region in known:
                raise
            cure = f"is the region {self.region!r} right? {known_names(known, self.region)}"
            raise ApiError(error.message, where=error.where, cure=cure) from error

    def _known_regions(self) -> list[str]:
        """List the regions that the SDK knows: newer ones it may not."""
        session = self._session
        partitions = session.get_available_partitions()
        return [one for part in partitions for one in session.get_available_regions("ec2", part)]

    def shown(self, error: Exception, doing: str) -> ProviderError:
        """Return the error to show, with the permission that a policy lacks."""
        if isinstance(error, ClientError) and ERRORS.meaning_of(error) is Meaning.DENIED:
            doing = f"{doing}: the policy does not allow {action_of(error)}"
        return super().shown(error, doing)

    def may_create_later(self, error: Exception) -> bool:
        """Return whether a creation may succeed later: EC2 is eventually consistent."""
        return ERRORS.is_not_yet(error)

    def _client(self, service: str) -> Any:
        with self._lock:  # making one is not safe for several threads
            if service not in self._clients:
                url = address_of(service, self.access)
                self._clients[service] = self._session.client(
                    service, config=_CONFIG, endpoint_url=url
                )
            return self._clients[service]

    def read(
        self,
        action: str,
        doing: str,
        *,
        service: str = "ec2",
        again: Again | None = None,
        **request: Any,
    ) -> Answer:
        """Make an idempotent call: reading, changing, deleting. Raises ProviderError."""
        return self.do(doing, lambda: self.ask(action, service=service, **request), again)

    def ask(self, action: str, *, service: str = "ec2", **request: Any) -> Answer:
        """Make a call once, all pages of it. Raises what the SDK does."""
        client = self._client(service)
        if not client.can_paginate(action):
            answer: Answer = getattr(client, action)(**request)
            return answer
        pages: Answer = client.get_paginator(action).paginate(**request).build_full_result()
        return pages

    def list_instances(
        self, doing: str = "listing instances", again: Again | None = None, **which: Any
    ) -> list[Answer]:
        """List instances in one call. Raises ProviderError."""
        answer = self.read("describe_instances", doing, again=again, **which)
        return [one for some in answer["Reservations"] for one in some["Instances"]]
