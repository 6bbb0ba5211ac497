"""A project of a cloud: its selection, login and calls, and the meaning of errors."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import yaml
from keystoneauth1 import exceptions as auth
from keystoneauth1.access import AccessInfoV3
from keystoneauth1.identity.base import BaseIdentityPlugin
from openstack import exceptions as sdk
from openstack.config import OpenStackConfig
from openstack.config.cloud_region import CloudRegion
from openstack.config.loader import (
    CONFIG_FILES,
    CONFIG_SEARCH_PATH,
    SECURE_FILES,
    VENDOR_FILES,
)
from openstack.connection import Connection
from openstack.identity.v3._proxy import Proxy as IdentityV3

from osmef.errors import CredentialsError
from osmef.files import exists, read_text_file
from osmef.providers.base import Access, CancellationCheck, never_cancelled
from osmef.providers.cloud import account as cloud
from osmef.providers.cloud.account import Again, CloudWaits
from osmef.providers.cloud.errors import ErrorTable, Meaning, Row
from osmef.providers.parallel import AT_ONCE

T = TypeVar("T")

FLOATING_AT_ONCE = 1
"""Floating addresses at once: each changes their router, so that several only collide there, and
neutron restarts those: 12 at once took 38 s each, 2 took 10 s, and one by one 1.3 s."""
_ANSWER_S = 60.0
_LOOK_S = 0.5
# What the SDK runs into where a list or a text is in the place of a mapping.
_NO_SENSE = (AttributeError, KeyError, TypeError, ValueError)
_BY_PASSWORD = {"password", "v3password"}
_MOST_BYTES = 1 << 20
_VERSIONS = {"compute": "2", "network": "2", "image": "12", "block-storage": "23"}
"""Major versions that the SDK knows. With another it finds none, as of a service that is down."""
_ALIASES = {"block-storage": ("volumev3", "volumev2", "volume", "block_store")}
"""Earlier names of services, in the order in which the SDK looks for their settings."""
_PLACES = "clouds.yaml (see OS_CLIENT_CONFIG_FILE)"
USUAL = CloudWaits(delete_retry_s=60.0, no_progress_s=180.0, at_once=AT_ONCE)

_QUOTA_WORDS = "quota|maximum number of|limit exceeded"
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
_TLS_CURE = "is auth_url right? name the cloud's CA: cacert in clouds.yaml, or OS_CACERT"
_CURES = {
    Meaning.CREDENTIALS: "check the cloud's entry in clouds.yaml, or the OS_* variables; does"
    " `openstack token issue` work?",
    Meaning.DENIED: "ask the cloud's administrator for the right, or do without (see"
    " docs/providers/openstack.md)",
    Meaning.NO_CAPACITY: "use a smaller flavor, another placement, or wait until the cloud has"
    " room",
}


def status_of(error: Exception) -> int | None:
    """Return the HTTP status of an error, None where there was no answer."""
    if isinstance(error, sdk.HttpException):
        return error.status_code
    if isinstance(error, auth.HttpError):
        return int(error.http_status)
    return None


def details_of(error: Exception) -> str:
    """Return the service's message of an error."""
    details = getattr(error, "details", None) or getattr(error, "message", None) or str(error)
    return " ".join(str(details).split()) or type(error).__name__


def is_tls(error: BaseException | None) -> bool:
    """Return whether TLS failed, also as the cause of another error: a retry is useless."""
    if error is None or isinstance(error, auth.SSLError):
        return error is not None
    return is_tls(error.__cause__ or error.__context__)


def is_login_refused(error: Exception) -> bool:
    """Return whether keystone refused the login: also by 404, as of a token that has expired."""
    login = isinstance(error, auth.HttpError) and str(error.url).endswith("/auth/tokens")
    return login and status_of(error) in {401, 404}


_ROWS = (
    Row(Meaning.CREDENTIALS, when=is_tls, cure=_TLS_CURE),
    Row(Meaning.CREDENTIALS, raised=_NO_CREDENTIALS),
    Row(Meaning.CREDENTIALS, when=is_login_refused),
    Row(
        Meaning.CREDENTIALS,
        raised=(auth.DiscoveryFailure,),
        words="^Cannot use v2 authentication",
        cure="write an auth_url that ends with /v3, in clouds.yaml or OS_AUTH_URL",
    ),
    Row(
        Meaning.QUOTA,
        statuses={403, 409, 413},
        words=rf"(?is)^(?!.*(policy doesn't allow|disallowed by policy)).*({_QUOTA_WORDS})",
    ),
    Row(Meaning.TRANSIENT, raised=_NO_ANSWER),
    Row(Meaning.NO_SERVICE, raised=(auth.CatalogException, sdk.EndpointNotFound)),
    # Cinder answers 400 about a volume that is still being detached.
    Row(Meaning.IN_USE, statuses={400}, words="status must be"),
    Row(Meaning.IN_USE, statuses={409}),
)
ERRORS = ErrorTable(
    library=(sdk.SDKException, auth.ClientException),
    rows=_ROWS,
    cures=_CURES,
    tool="openstack",
    status_of=status_of,
    details_of=details_of,
)


def meaning_of_fault(message: str) -> Meaning | None:
    """Return the meaning of a server's fault; None for an unspecific one."""
    if _NO_HOST.search(message):
        return Meaning.NO_CAPACITY
    return Meaning.QUOTA if re.search(_QUOTA_WORDS, message, re.IGNORECASE) else None


class Cloud(cloud.Account):
    """One project in one region of a cloud. Thread-safe."""

    provider = "openstack"
    errors = ERRORS
    look_at = "look at it with the cloud's own tools"
    lists_lag = False

    def __init__(
        self,
        region: CloudRegion,
        access: Access,
        check: CancellationCheck = never_cancelled,
        waits: CloudWaits = USUAL,
    ) -> None:
        named = {key: access[key] for key in ("cloud", "region", "project") if access.get(key)}
        name = "/".join(named.values()) or "the cloud of OS_* variables"
        super().__init__(access, name, waits, check)
        self._region = region
        self._discovery: dict[str, Any] = {}
        self._idle: deque[Connection] = deque()
        self.user_id = ""
        self.region: str | None = None
        """Which one of which cloud: ``NAME at KEYSTONE``, as several clouds may use one name."""
        self.id = self.ask("logging in", self._watched_login)
        at = {"region": region.region_name, "auth_url": region.get_auth_args().get("auth_url")}
        known = {key: str(value) for key, value in at.items() if value}
        self.access = {**known, "home": self.id, **access}
        """How to reach it again; ``home`` is the project that the credentials are for."""

    def _watched_login(self, connection: Connection) -> str:
        """Log in, interruptibly: a wait for a silent service ends when ``check`` raises.

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
            raise _wrong_region(wanted, sorted(there), self.name)
        region, keystone = wanted or next(iter(there), None), self._region.get_auth_args()
        if region is not None:
            self.region = f"{region} at {urlsplit(str(keystone.get('auth_url'))).netloc}"
        self._find_keystone(connection)
        return str(project)

    def _find_keystone(self, connection: Connection) -> None:
        """Use the identity service of another region where ours has none of its own."""
        there = sorted(_regions_of(connection, "identity"))
        if there and self._region.get_region_name("identity") not in there:
            for config in (self._region.config, connection.config.config):
                config["identity_region_name"] = there[0]

    def _connect(self) -> Connection:
        """Open a connection; all share one token and the discovered endpoints."""
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
        region = self.ask(
            "changing the project",
            lambda c: c.connect_as(project_id=project_id, project_name=None).config,
        )
        return Cloud(region, {**self.access, "project": project_id}, self.check, self.waits)

    def ask(self, doing: str, call: Callable[[Connection], T], again: Again | None = None) -> T:
        """Make an idempotent call: reading, changing, deleting. Raises ProviderError."""
        return self.do(doing, lambda: self.connected(call), again)

    def make(
        self,
        doing: str,
        call: Callable[[Connection], T],
        find: Callable[[Connection], T | None],
    ) -> T:
        """Create a resource, never twice. ``find`` looks for it after a lost answer.

        Raises ProviderError.
        """
        return self.create(doing, lambda: self.connected(call), lambda: self.connected(find))

    def connected(self, call: Callable[[Connection], T]) -> T:
        """Return a call's result, without retry. Raises as the SDK."""
        # One that failed is not used again: it may have found no version of a service that was
        # just not there.
        connection = self._idle.pop() if self._idle else self._connect()
        try:
            result = call(connection)
        except ERRORS.library:
            connection.close()
            raise
        self._idle.append(connection)
        return result


_PROJECT_CURE = "give project_name or project_id in clouds.yaml, or OS_PROJECT_NAME"


def open_cloud(
    access: Access, waits: CloudWaits = USUAL, check: CancellationCheck = never_cancelled
) -> Cloud:
    """Log into the cloud that ``access`` names, or else the environment.

    ``check`` is called at least once a second in every wait, and may raise.

    Raises CredentialsError, also where the project is not the one that ``access`` was noted of:
    nothing would be found there, and so all would seem to be gone. Raises ProviderError.
    """
    region = _find_region(access)
    try:
        found = Cloud(region, {k: v for k, v in access.items() if k != "project"}, check, waits)
    except (TypeError, ValueError) as error:  # only what logs in reads all of the settings
        raise _useless(access.get("cloud"), f"a part of it makes no sense ({error})") from error
    home = access.get("home", found.id)
    if found.id != home:
        raise CredentialsError(
            f"the credentials are those of the project {found.id}, and what is looked for"
            f" is in the project {home} at {access.get('auth_url', 'another cloud')}",
            where=found.name,
            cure="load the credentials that the run was started with: its OS_* variables, or the"
            " same entry of clouds.yaml (see OS_CLIENT_CONFIG_FILE); then try again",
        )
    project = access.get("project")
    return found if project in {None, found.id} else found.of_project(str(project))


def login_of(connection: Connection) -> AccessInfoV3:
    """Return the identity service's answer to the login."""
    plugin = cast("BaseIdentityPlugin", connection.session.auth)
    return cast("AccessInfoV3", plugin.get_access(connection.session))


def _regions_of(connection: Connection, kind: str) -> set[str]:
    """Return the regions with a service of this type, by the catalog."""
    catalog = login_of(connection).service_catalog.normalize_catalog()
    ends = (end for one in catalog if one["type"] == kind for end in one["endpoints"])
    return {str(end["region_name"]) for end in ends if end["region_name"]}


def identity(connection: Connection) -> IdentityV3:
    """Return the identity service, version 3."""
    return cast("IdentityV3", connection.identity)


def _find_region(access: Access) -> CloudRegion:
    """Return the cloud and the region that ``access`` names, or else the environment.

    Raises CredentialsError.
    """
    cloud = access.get("cloud") or os.environ.get("OS_CLOUD")
    if cloud is None and not os.environ.get("OS_AUTH_URL"):
        raise CredentialsError(
            "no cloud is configured",
            where="provider: openstack",
            cure="write provider.cloud (for reap --cloud), set OS_CLOUD, or load your openrc file",
        )
    try:
        # With both at work a clouds.yaml in reach would silently win over OS_* variables.
        config = OpenStackConfig(
            load_yaml_config=cloud is not None,
            config_files=_own(CONFIG_FILES),
            secure_files=_own(SECURE_FILES),
            vendor_files=_own(VENDOR_FILES),
        )
        if cloud is not None and cloud not in config.get_cloud_names():
            raise _unknown(cloud, sorted(set(config.get_cloud_names()) - {"defaults", "envvars"}))
        region = _region(config, cloud, access.get("region"))
        lacking = _lacking(region)
    except ERRORS.library as error:
        raise _useless(cloud, details_of(error)) from error
    except _NO_SENSE as error:
        raise _useless(cloud, f"a part of it is of the wrong kind ({error})") from error
    if lacking is not None:
        raise _useless(cloud, lacking)
    return region


def _own(files: list[str]) -> list[str]:
    """Drop files of the working directory, which may have come with a scenario.

    A clouds.yaml there would be joined with the user's own secure.yaml, whose password would go to
    the address that the former names; and the cache that it asks for runs what is in a file.
    """
    others = CONFIG_SEARCH_PATH[1:]  # which may be the same directory
    return [file for file in files if str(Path(file).parent) in others]


def _lacking(region: CloudRegion) -> str | None:
    """Return what the SDK needs at login and would report only by a generic error."""
    given = region.get_auth_args()
    url = str(given.get("auth_url") or "")
    if url and not url.startswith(("http://", "https://")):
        return f"auth_url is no address like https://keystone.example.org:5000/v3: {url[:60]!r}"
    if str(region.config.get("auth_type")) in _BY_PASSWORD:
        if not (given.get("username") or given.get("user_id")):
            return "it names no user (username)"
        if not given.get("password"):
            return "there is no password (in secure.yaml beside clouds.yaml, or OS_PASSWORD)"
    for kind, known in _VERSIONS.items():
        version = region.get_api_version(kind) or known[0]
        if version.partition(".")[0] not in set(known):
            names = (kind.replace("-", "_"), *_ALIASES.get(kind, ()))
            keys = [f"{name}_api_version" for name in names]
            key = next((one for one in keys if region.config.get(one) is not None), keys[0])
            return f"{key} is {version}, and must be {' or '.join(known)}, or be left out"
    verify, certificate = region.get_requests_verify_args()
    pair = certificate if isinstance(certificate, tuple) else (certificate,)
    for file in (verify, *pair):
        if isinstance(file, str) and not exists(Path(file)):
            return f"there is no file {file} (cacert, cert, key)"
    return None


def _region(config: OpenStackConfig, cloud: str | None, wanted: str | None) -> CloudRegion:
    try:
        return config.get_one(cloud, region_name=wanted)
    except sdk.ConfigException:
        if wanted is None:
            raise
        usual = config.get_one(cloud)  # or the region is not what is wrong
        error = _wrong_region(wanted, _regions(config, usual), str(cloud))
        error.cure = f"{error.cure}; or list it under `regions` of the cloud in {_PLACES}"
        raise error from None


def _regions(config: OpenStackConfig, one: CloudRegion) -> list[str]:
    """List the regions of this cloud in the file."""
    with contextlib.suppress(*ERRORS.library, *_NO_SENSE):  # of other clouds in the file
        return [str(other.region_name) for other in config.get_all() if other.name == one.name]
    return [str(one.region_name)]


def _wrong_region(wanted: str | None, known: list[str], cloud: str) -> CredentialsError:
    """Return the error of an unknown region, or of a missing one."""
    return CredentialsError(
        f"there is no region {wanted!r}" if wanted else "no region is configured",
        where=cloud,
        cure=f"name one of: {', '.join(known)}; as provider.region, for reap as --region",
    )


def _unknown(cloud: str, known: list[str]) -> CredentialsError:
    broken = _broken()
    if broken is not None:
        return broken
    clouds = ", ".join(known) or f"none; is there a {_PLACES}?"
    return CredentialsError(
        f"the cloud {cloud!r} is not known",
        where="provider.cloud",
        cure=f"clouds that are known: {clouds}{_unread()}",
    )


def _useless(cloud: str | None, why: str) -> CredentialsError:
    """Return the error of settings without a cloud."""
    if cloud is None:
        cure = "check the OS_* variables; does `openstack token issue` work?"
        return CredentialsError(f"the OS_* variables: {why}", cure=cure)
    return CredentialsError(
        f"the cloud {cloud!r}: {why}",
        where="provider.cloud",
        cure=f"fix its entry in {_PLACES}{_unread()}",
    )


def _unread() -> str:
    """Return the cure for an ignored clouds.yaml in the working directory."""
    own = _own(CONFIG_FILES)
    here = next((file for file in CONFIG_FILES if file not in own and exists(Path(file))), None)
    if here is None:
        return ""
    return f". That of the current directory is not read: export OS_CLIENT_CONFIG_FILE={here}"


def _broken() -> CredentialsError | None:
    """Find an unreadable clouds.yaml that the SDK has skipped."""
    named = os.environ.get("OS_CLIENT_CONFIG_FILE")
    for path in map(Path, ([named] if named else []) + _own(CONFIG_FILES)):
        try:
            yaml.safe_load(read_text_file(path, _MOST_BYTES))
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            return CredentialsError(
                f"can't read it: {' '.join(str(error).split())}",
                where=str(path),
                cure="fix the file; does `openstack token issue` work?",
            )
    return None
