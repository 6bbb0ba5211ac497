"""An account in one region: its clients, and repeating what EC2 may fail at."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import boto3
from botocore.config import Config

from osmef.errors import CredentialsError, ProviderError
from osmef.providers.aws import failures
from osmef.providers.base import Access
from osmef.providers.parallel import AT_ONCE
from osmef.providers.patience import Patience
from osmef.scenario.clouds.aws import AwsSettings

T = TypeVar("T")

Answer = Mapping[str, Any]
Again = Callable[[Exception], bool]

_ANSWER_S = 60
_CONNECT_S = 10
# The SDK would repeat each request, also one that makes a thing which nothing tells from the first.
_CONFIG = Config(
    connect_timeout=_CONNECT_S,
    read_timeout=_ANSWER_S,
    max_pool_connections=2 * AT_ONCE,
    retries={"mode": "standard", "total_max_attempts": 1},
    user_agent_extra="osmef",
)


@dataclass(frozen=True)
class Waits:
    """How many seconds to wait for EC2.

    ``look_s`` lies between two looks at instances that are on their way. What was asked for just
    before a controller was killed has come about after ``late_s``. An instance that ran a moment
    ago, and is not known for ``gone_s``, was taken back.
    """

    look_s: float = 1.0
    late_s: float = 5.0
    gone_s: float = 10.0


USUAL = Waits()


class Account:
    """One account in one region, as one profile's credentials see it. Safe for several threads."""

    def __init__(self, access: Access, waits: Waits = USUAL) -> None:
        self.access = access
        self.waits = waits
        self.patience = Patience()
        self._lock = threading.Lock()
        self._clients: dict[str, Any] = {}
        try:
            self._session = boto3.Session(
                profile_name=access.get("cloud"), region_name=access.get("region")
            )
        except failures.LIBRARY_ERRORS as error:
            raise failures.translate(error, "reading the AWS configuration", self.name) from error
        if self._session.region_name is None:
            raise CredentialsError(
                "nothing says which region to use",
                where=self.name,
                cure="write a region into the profile, or set AWS_DEFAULT_REGION",
            )
        self.region = str(self._session.region_name)
        self.id = str(self.read("get_caller_identity", "logging in", service="sts")["Account"])

    @property
    def name(self) -> str:
        """What to call it in messages."""
        return " ".join(["aws", *self.access.values()])

    def _client(self, service: str) -> Any:
        with self._lock:  # making one is not safe for several threads
            if service not in self._clients:
                self._clients[service] = self._session.client(
                    service, config=_CONFIG, endpoint_url=self.access.get("uri")
                )
            return self._clients[service]

    def read(
        self,
        action: str,
        doing: str,
        *,
        service: str = "ec2",
        again: Again = failures.is_passing,
        **request: Any,
    ) -> Answer:
        """Make a call that may be repeated: reading, changing, deleting. Raises ProviderError."""
        return self.do(lambda: self.ask(action, service=service, **request), doing, again)

    def ask(self, action: str, *, service: str = "ec2", **request: Any) -> Answer:
        """Make a call once, all pages of it. Raises what the SDK does."""
        client = self._client(service)
        if not client.can_paginate(action):
            answer: Answer = getattr(client, action)(**request)
            return answer
        pages: Answer = client.get_paginator(action).paginate(**request).build_full_result()
        return pages

    def do(self, call: Callable[[], T], doing: str, again: Again = failures.is_passing) -> T:
        """Return what a call returns, repeated as long as that may help. Raises ProviderError."""
        try:
            return self.patience.repeat(
                call, lambda error: failures.pause_of(error) if again(error) else None
            )
        except failures.LIBRARY_ERRORS as error:
            raise failures.translate(error, doing, self.name) from error

    def create(
        self,
        call: Callable[[], T],
        doing: str,
        find: Callable[[], T | None],
        refused: Callable[[], None] = lambda: None,
    ) -> T:
        """Make a thing, never twice. ``find`` looks for it by its mark after a lost answer.

        What it is made in may not be known everywhere yet. ``refused`` is called where it surely
        was not made. Raises ProviderError.
        """
        lost = False

        def attempt() -> T:
            nonlocal lost
            found = find() if lost else None
            if found is not None:
                return found
            try:
                return call()
            except failures.LIBRARY_ERRORS as error:
                surely = failures.is_throttled(error) or not failures.is_passing(error)
                lost = lost or not surely
                raise

        def again(error: Exception) -> bool:
            # What a lost request made may be listed only later.
            return failures.is_not_yet(error) or (lost and failures.is_there(error))

        try:
            return self.do(attempt, doing, again)
        except ProviderError:
            if not lost:
                refused()
            raise


def access_of(settings: AwsSettings, profile: str | None = None) -> Access:
    """Return how to reach an account: by its profile, or the settings' own, in their region."""
    wanted = {
        "cloud": profile or settings.profile,
        "region": settings.region,
        "uri": settings.endpoint_url,
    }
    return {key: value for key, value in wanted.items() if value is not None}
