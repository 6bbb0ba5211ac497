"""A project of a cloud: connections for several threads, and repeating what it may fail at."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from keystoneauth1.access import AccessInfoV3
from keystoneauth1.identity.base import BaseIdentityPlugin
from openstack.config.cloud_region import CloudRegion
from openstack.connection import Connection
from openstack.identity.v3._proxy import Proxy as IdentityV3

from osmef.errors import CredentialsError, ProviderError
from osmef.providers.base import Access, Check, go_on
from osmef.providers.openstack import failures
from osmef.providers.openstack.config import (
    LIBRARY_ERRORS,
    find_region,
    useless,
    wrong_region,
)

T = TypeVar("T")
S = TypeVar("S")

FLOATING_AT_ONCE = 1
"""Floating addresses at once: each changes their router, so that several only collide there, and
neutron begins those anew: 12 at once took 38 s each, 2 took 10 s, and one by one 1.3 s."""
_ANSWER_S = 60.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 8.0
_LOOK_S = 0.5


@dataclass(frozen=True)
class Waits:
    """How many seconds to wait for a cloud.

    ``patience_s`` is for a call that it fails at and that may work yet: one answer that never
    comes, and another try. ``look_s`` lies between two looks at one thing that is on its way;
    ``again_s`` later a deletion is asked for again, which it seems to have dropped.
    """

    patience_s: float = 150.0
    look_s: float = 1.0
    again_s: float = 60.0

    def pause_for(self, things: int, unchanged_s: float) -> float:
        """Return the seconds until the next look at so many things, unchanged for so long.

        It costs the cloud more the more there are, and a tenth of the time that they take is soon
        enough.
        """
        return self.look_s * max(1.0, 0.05 * things, min(0.1 * unchanged_s, 5.0))


USUAL = Waits()


class Cloud:
    """One project in one region of a cloud. Safe to use from several threads."""

    def __init__(
        self, region: CloudRegion, access: Access, check: Check = go_on, waits: Waits = USUAL
    ) -> None:
        self.waits = waits
        self.check = check
        """Called at least once a second in every wait; may raise."""
        self._region = region
        self._discovery: dict[str, Any] = {}
        self._idle: deque[Connection] = deque()
        named = {key: access[key] for key in ("cloud", "region", "project") if access.get(key)}
        self.name = "/".join(named.values()) or "the cloud of OS_* variables"
        """What to call it in messages."""
        self.user_id = ""
        self.region: str | None = None
        """Which one of which cloud: ``NAME at KEYSTONE``, as several clouds may use one name."""
        self.project_id: str = self.do("logging in", self._watched_login)
        at = {"region": region.region_name, "auth_url": region.get_auth_args().get("auth_url")}
        known = {key: str(value) for key, value in at.items() if value}
        self.access: Access = {**known, "home": self.project_id, **access}
        """How to reach it again; ``home`` is the project that the credentials are for."""

    def _watched_login(self, connection: Connection) -> str:
        """Log in; where nothing answers, waiting for it ends as soon as ``check`` raises.

        A login makes nothing, so it may go on alone.
        """
        answer: Future[str] = Future()

        def log_in() -> None:
            try:
                answer.set_result(self._log_in(connection))
            except BaseException as error:  # raised where it is waited for
                answer.set_exception(error)

        threading.Thread(target=log_in, name="openstack-login", daemon=True).start()
        while not wait([answer], _LOOK_S).done:
            self.check()
        return answer.result()

    def _log_in(self, connection: Connection) -> str:
        project = connection.session.get_project_id()
        if project is None:
            raise CredentialsError(
                "the credentials name no project", where=self.name, cure=_PROJECT_CURE
            )
        self.user_id = str(login_of(connection).user_id)
        wanted = self._region.get_region_name("compute")
        there = _regions_of(connection, "compute")
        if wanted not in there and len(there) > (0 if wanted else 1):
            raise wrong_region(wanted, sorted(there), self.name)
        region, keystone = wanted or next(iter(there), None), self._region.get_auth_args()
        if region is not None:
            self.region = f"{region} at {urlsplit(str(keystone.get('auth_url'))).netloc}"
        self._find_keystone(connection)
        return str(project)

    def _find_keystone(self, connection: Connection) -> None:
        """Take the identity service of another region where ours has none of its own."""
        there = sorted(_regions_of(connection, "identity"))
        if there and self._region.get_region_name("identity") not in there:
            for config in (self._region.config, connection.config.config):
                config["identity_region_name"] = there[0]

    def _connect(self) -> Connection:
        """Make a connection; all share one token and what was discovered of the services."""
        region = self._region
        config = {**region.config, "api_timeout": region.config.get("api_timeout") or _ANSWER_S}
        return Connection(
            config=CloudRegion(
                name=region.name,
                region_name=region.region_name,
                config=config,
                force_ipv4=region.force_ipv4,
                auth_plugin=region.get_auth(),
                discovery_cache=self._discovery,
            )
        )

    def of_project(self, project_id: str) -> Cloud:
        """Return another project of the same cloud, for the same user. Raises ProviderError."""
        region = self.do(
            "changing the project",
            lambda c: c.connect_as(project_id=project_id, project_name=None).config,
        )
        return Cloud(region, {**self.access, "project": project_id}, self.check, self.waits)

    def do(
        self,
        doing: str,
        call: Callable[[Connection], T],
        again: Callable[[Exception], bool] = failures.is_passing,
    ) -> T:
        """Make a call that may be repeated: reading, changing, deleting. Raises ProviderError."""
        return self._repeat(doing, call, again)

    def create(
        self,
        doing: str,
        call: Callable[[Connection], T],
        find: Callable[[Connection], T | None],
    ) -> T:
        """Make a thing, never twice. ``find`` looks for it by its mark after a lost answer.

        Raises ProviderError.
        """
        lost = False

        def attempt(connection: Connection) -> T:
            nonlocal lost
            found = find(connection) if lost else None
            if found is not None:
                return found
            try:
                return call(connection)
            except LIBRARY_ERRORS as error:
                lost = lost or not failures.is_refused(error)
                raise

        return self._repeat(doing, attempt, failures.is_passing)

    def _repeat(
        self, doing: str, call: Callable[[Connection], T], again: Callable[[Exception], bool]
    ) -> T:
        end = time.monotonic() + self.waits.patience_s
        pause = _FIRST_PAUSE_S
        while True:
            # One that failed is not used again: it may have found no version of a service that
            # was just not there.
            connection = self._idle.pop() if self._idle else self._connect()
            try:
                result = call(connection)
            except LIBRARY_ERRORS as error:
                connection.close()
                rest = failures.pause_of(error) or pause * random.uniform(0.75, 1.25)  # noqa: S311
                if not again(error) or time.monotonic() + rest > end:
                    raise self._shown(error, doing) from error
            else:
                self._idle.append(connection)
                return result
            self.wait(rest)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _shown(self, error: Exception, doing: str) -> ProviderError:
        shown = failures.translate(error, doing)
        shown.where = self.name
        return shown

    def wait(self, seconds: float) -> None:
        """Wait, and call ``check`` once a second meanwhile."""
        end = time.monotonic() + seconds
        while True:
            self.check()
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 1.0))


_PROJECT_CURE = "give project_name or project_id in clouds.yaml, or OS_PROJECT_NAME"


def open_cloud(access: Access, check: Check = go_on, waits: Waits = USUAL) -> Cloud:
    """Log into the cloud that ``access`` names, or else the environment.

    ``check`` is called at least once a second in every wait, and may raise.

    Raises CredentialsError, also where the project is not the one that ``access`` was noted of:
    nothing would be found there, and so all would seem to be gone. Raises ProviderError.
    """
    region = find_region(access)
    try:
        found = Cloud(region, {k: v for k, v in access.items() if k != "project"}, check, waits)
    except (TypeError, ValueError) as error:  # only what logs in reads all of the settings
        raise useless(access.get("cloud"), f"a part of it makes no sense ({error})") from error
    home = access.get("home", found.project_id)
    if found.project_id != home:
        raise CredentialsError(
            f"the credentials are those of the project {found.project_id}, and what is looked for"
            f" is in the project {home} at {access.get('auth_url', 'another cloud')}",
            where=found.name,
            cure="load the credentials that the run was started with: its OS_* variables, or the"
            " same entry of clouds.yaml (see OS_CLIENT_CONFIG_FILE); then try again",
        )
    project = access.get("project")
    return found if project in {None, found.project_id} else found.of_project(str(project))


def login_of(connection: Connection) -> AccessInfoV3:
    """Return what the identity service said when it let us in."""
    plugin = cast("BaseIdentityPlugin", connection.session.auth)
    return cast("AccessInfoV3", plugin.get_access(connection.session))


def _regions_of(connection: Connection, kind: str) -> set[str]:
    """Return the regions that have a service of this kind; none where the catalog tells of none."""
    catalog = login_of(connection).service_catalog.normalize_catalog()
    ends = (end for one in catalog if one["type"] == kind for end in one["endpoints"])
    return {str(end["region_name"]) for end in ends if end["region_name"]}


def identity(connection: Connection) -> IdentityV3:
    """Return the identity service; no cloud has its version 2 any more."""
    return cast("IdentityV3", connection.identity)
