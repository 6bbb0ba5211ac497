"""Models of an ``access`` in a journal: values of settings, validated as these are.

A run directory may have come from somebody else. What it says is used only as far as a scenario
could say it as well.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from osmef.scenario.clouds.api_url import AwsUrl, AzureUrl, GoogleUrl
from osmef.scenario.clouds.base import Text
from osmef.scenario.clouds.inventory import Destination, Destinations
from osmef.scenario.clouds.libvirt import Uri
from osmef.scenario.fields import HomePath


class CloudAccess(BaseModel):
    """Access to a place in a cloud. Keys of newer versions are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    cloud: Text | None = None
    region: Text | None = None


class AwsAccess(CloudAccess):
    """An account; ``cloud`` is a profile."""

    uri: AwsUrl | None = None


class AzureAccess(CloudAccess):
    """A subscription; ``cloud`` is its id."""

    uri: AzureUrl | None = None


class GceAccess(CloudAccess):
    """A project; ``cloud`` is its id."""

    uri: GoogleUrl | None = None


class LibvirtAccess(CloudAccess):
    """A host."""

    uri: Uri


class OpenStackAccess(CloudAccess):
    """A project; ``cloud`` is one of clouds.yaml, and ``home`` the project of its credentials.

    ``auth_url`` only tells the user which keystone it was: nothing is sent there.
    """

    auth_url: Text | None = None
    home: Text | None = None
    project: Text | None = None


class StaticAccess(CloudAccess):
    """A machine of an inventory; ``uri`` is its ssh destination for reap."""

    uri: Destination | None = None
    host: Text
    ssh: Destination
    identity: HomePath | None = None
    jump: Destinations | None = None
    known_hosts: HomePath | None = None
