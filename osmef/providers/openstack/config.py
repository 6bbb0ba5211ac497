"""Which cloud is meant: what clouds.yaml and the OS_* variables say, and what is wrong with it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import yaml
from keystoneauth1.exceptions import ClientException
from openstack.config import OpenStackConfig
from openstack.config.cloud_region import CloudRegion
from openstack.config.loader import (
    CONFIG_FILES,
    CONFIG_SEARCH_PATH,
    SECURE_FILES,
    VENDOR_FILES,
)
from openstack.exceptions import ConfigException, SDKException

from osmef.errors import CredentialsError
from osmef.named_file import read_text_file
from osmef.providers.base import Access
from osmef.providers.openstack import failures

LIBRARY_ERRORS = (SDKException, ClientException)
# What the SDK runs into where a list or a text stands for a mapping.
_NO_SENSE = (AttributeError, KeyError, TypeError, ValueError)
_BY_PASSWORD = {"password", "v3password"}
_MOST_BYTES = 1 << 20
_PLACES = "clouds.yaml (see OS_CLIENT_CONFIG_FILE)"


def find_region(access: Access) -> CloudRegion:
    """Return the cloud and the region that ``access`` names, or else the environment.

    Raises CredentialsError.
    """
    cloud = access.get("cloud") or os.environ.get("OS_CLOUD")
    if cloud is None and not os.environ.get("OS_AUTH_URL"):
        raise CredentialsError(
            "nothing says which cloud to use",
            where="provider: openstack",
            cure="write provider.cloud, set OS_CLOUD, or load your openrc file",
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
    except LIBRARY_ERRORS as error:
        raise useless(cloud, failures.details_of(error)) from error
    except _NO_SENSE as error:
        raise useless(cloud, f"a part of it is of the wrong kind ({error})") from error
    if lacking is not None:
        raise useless(cloud, lacking)
    return region


def _own(files: list[str]) -> list[str]:
    """Leave out those of the directory that one is in, which may have come with a scenario.

    A clouds.yaml there would be joined with the user's own secure.yaml, whose password would go to
    the address that the former names; and the cache that it asks for runs what is in a file.
    """
    others = CONFIG_SEARCH_PATH[1:]  # which may be the same directory
    return [file for file in files if str(Path(file).parent) in others]


def _lacking(region: CloudRegion) -> str | None:
    """Return what the SDK would stumble over only when it logs in, by errors of no kind."""
    given = region.get_auth_args()
    url = str(given.get("auth_url") or "")
    if url and not url.startswith(("http://", "https://")):
        return f"auth_url is no address like https://keystone.example.org:5000/v3: {url[:60]!r}"
    if str(region.config.get("auth_type")) in _BY_PASSWORD:
        if not (given.get("username") or given.get("user_id")):
            return "it names no user (username)"
        if not given.get("password"):
            return "there is no password (in secure.yaml beside clouds.yaml, or OS_PASSWORD)"
    verify, certificate = region.get_requests_verify_args()
    pair = certificate if isinstance(certificate, tuple) else (certificate,)
    for file in (verify, *pair):
        if isinstance(file, str) and not Path(file).exists():
            return f"there is no file {file} (cacert, cert, key)"
    return None


def _region(config: OpenStackConfig, cloud: str | None, wanted: str | None) -> CloudRegion:
    try:
        return config.get_one(cloud, region_name=wanted)
    except ConfigException:
        if wanted is None:
            raise
        usual = config.get_one(cloud)  # or the region is not what is wrong
        error = wrong_region(wanted, _regions(config, usual), str(cloud))
        error.cure = f"{error.cure}; or list it under `regions` of the cloud in {_PLACES}"
        raise error from None


def _regions(config: OpenStackConfig, one: CloudRegion) -> list[str]:
    """List the regions that the file gives the cloud of this one."""
    with contextlib.suppress(*LIBRARY_ERRORS, *_NO_SENSE):  # of other clouds in the file
        return [str(other.region_name) for other in config.get_all() if other.name == one.name]
    return [str(one.region_name)]


def wrong_region(wanted: str | None, known: list[str], cloud: str) -> CredentialsError:
    """Return the error of a region that a cloud does not have, or that it has to be told."""
    return CredentialsError(
        f"there is no region {wanted!r}" if wanted else "nothing says which region to use",
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


def useless(cloud: str | None, why: str) -> CredentialsError:
    """Return the error of settings that lead to no cloud."""
    if cloud is None:
        cure = "check the OS_* variables; does `openstack token issue` work?"
        return CredentialsError(f"the OS_* variables: {why}", cure=cure)
    return CredentialsError(
        f"the cloud {cloud!r}: {why}",
        where="provider.cloud",
        cure=f"mend its entry in {_PLACES}{_unread()}",
    )


def _unread() -> str:
    """Tell how to have a clouds.yaml of the current directory read, where there is one."""
    own = _own(CONFIG_FILES)
    here = next((file for file in CONFIG_FILES if file not in own and Path(file).exists()), None)
    if here is None:
        return ""
    return f". That of the current directory is not read: export OS_CLIENT_CONFIG_FILE={here}"


def _broken() -> CredentialsError | None:
    """Look for a clouds.yaml that the SDK has passed over because nobody can read it."""
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
                cure="mend the file; does `openstack token issue` work?",
            )
    return None
