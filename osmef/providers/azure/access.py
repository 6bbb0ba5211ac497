"""A subscription of Azure: its clients, waits that can be ended, and repeating what may pass."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

from azure.core import PipelineClient
from azure.core.exceptions import AzureError
from azure.core.pipeline.policies import RetryPolicy
from azure.core.pipeline.transport import RequestsTransport
from azure.core.polling import LROPoller
from azure.core.rest import HttpRequest
from azure.identity import DefaultAzureCredential
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.network import NetworkManagementClient
from azure.mgmt.resource.resources import ResourceManagementClient
from azure.mgmt.resource.subscriptions import SubscriptionClient

from osmef.errors import ApiError, CredentialsError
from osmef.providers.azure import failures
from osmef.providers.base import Access
from osmef.providers.cloud_init import MOST_CONSOLE
from osmef.providers.patience import PATIENCE_S, Patience
from osmef.scenario.clouds.azure import AzureSettings

T = TypeVar("T")

NOT_YET_S = 200.0
"""How long something that was made may stay unseen elsewhere in Azure, or an interface that a VM
was refused with stay reserved for it (180 s)."""
_ANSWER_S, _CONNECT_S = 60.0, 10.0
_POLL_S = 1.0
"""How often to ask after a long operation, where Azure itself says nothing (Retry-After)."""
_RETRIES = {"retry_total": 8, "retry_status": 8, "retry_connect": 5, "retry_read": 5}


class _Transport(RequestsTransport):  # type: ignore[misc] # azure-core loads it without a type
    """HTTP whose pauses, between repetitions and polls, can be ended."""

    def __init__(self, wait: Callable[[float], None]) -> None:
        super().__init__(connection_timeout=_CONNECT_S, read_timeout=_ANSWER_S)
        self._wait = wait

    def send(self, request: Any, **keys: Any) -> Any:
        """Return an answer that is here as a whole, so that no connection waits to be read."""
        return super().send(request, **{**keys, "stream": False})

    def sleep(self, duration: float) -> None:
        """Wait, unless Azure asks for too long. Raises ApiError, and what ends the wait."""
        if duration > PATIENCE_S:
            raise ApiError(
                f"Azure asks to wait {duration:.0f} s (Retry-After)",
                cure="too many requests were made in this subscription: try again after that time",
            )
        self._wait(duration)


class Subscription:
    """One subscription. Safe to use from several threads."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.id = access["cloud"]
        self.check: Callable[[], None] = lambda: None
        """Called at least once a second in every wait; may raise."""
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
            self._options |= {"base_url": address, "credential_scopes": [f"{address}/.default"]}

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
        """Return the end of what is at a link that needs no token of ours, none must go there."""

        def get() -> str:
            retries = RetryPolicy(**_RETRIES)  # and no more: a log would show the signed link
            client: Any = PipelineClient(link, transport=self._transport, policies=[retries])
            with client.send_request(HttpRequest("GET", link), stream=True) as answer:
                answer.raise_for_status()
                data = bytearray()
                for part in answer.iter_bytes():
                    data += part
                    del data[:-MOST_CONSOLE]
            return data.decode(errors="replace")

        return self.do("reading a file of Azure's", get)

    @property
    def name(self) -> str:
        """What to call it in messages."""
        return f"subscription {self.id}"

    def wait(self, seconds: float) -> None:
        """Wait, and call ``check`` once a second meanwhile."""
        Patience(self.check).wait(seconds)

    def do(
        self,
        doing: str,
        call: Callable[[], T],
        again: Callable[[Exception], bool] = lambda _error: False,
        limit_s: float = NOT_YET_S,
    ) -> T:
        """Make a call, repeated while ``again`` says so of its error. Raises ProviderError.

        What passes by itself, such as 429, 503 and broken connections, the SDK repeats; of a PUT
        that is safe, as it names the thing. A long operation is waited for.
        """

        def attempt() -> Any:
            found = call()
            return found.result() if isinstance(found, LROPoller) else found

        def pause_after(error: Exception) -> float | None:
            return 0.0 if isinstance(error, AzureError) and again(error) else None

        try:
            result: T = Patience(self.check, limit_s).repeat(attempt, pause_after)
        except AzureError as error:
            shown = failures.translate(error, doing)
            shown.where = self.name
            raise shown from error
        return result


def word(value: Any) -> str | None:
    """Return a word of the API as it stands on the wire; the SDK makes enums of those it knows."""
    return None if value is None else str(getattr(value, "value", value))


def access_of(settings: AzureSettings, subscription: str | None = None) -> Access:
    """Return how to reach a subscription, by default that of the environment.

    Raises CredentialsError where nothing names one.
    """
    access = {} if subscription is None else {"cloud": subscription}
    return _complete(access | ({"uri": settings.endpoint_url} if settings.endpoint_url else {}))


def _complete(access: Access) -> Access:
    found = access.get("cloud") or os.environ.get("AZURE_SUBSCRIPTION_ID")
    if not found:
        raise CredentialsError(
            "nothing says which subscription to use",
            where="provider: azure",
            cure="set AZURE_SUBSCRIPTION_ID, or write provider.tenants: {NAME: SUBSCRIPTION-ID}",
        )
    return {**access, "cloud": found}


def open_subscription(access: Access) -> Subscription:
    """Log in, and look whether the subscription is there. Raises ProviderError."""
    subscription = Subscription(_complete(access))
    subscription.do(
        "logging in", lambda: subscription.subscriptions.subscriptions.get(subscription.id)
    )
    return subscription
