"""The settings of an OpenStack cloud."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field, model_validator

from osmef.scenario.base import Model, conflict
from osmef.scenario.clouds.base import Cidr, CloudAccess, HostKeySource, NicSettings
from osmef.scenario.clouds.static import CloudWithHosts, Destination
from osmef.scenario.fields import Duration, Name, Size, Text


class PlacedBy(StrEnum):
    """Means by which the placement of servers is controlled."""

    SERVER_GROUP = "server-group"
    HOST = "host"
    ZONE = "zone"


class Reach(StrEnum):
    """Path on which the controller connects to a server's sshd."""

    AUTO = "auto"
    FLOATING = "floating"
    JUMP = "jump"
    DIRECT = "direct"


class BootSource(Model):
    """Boot source of servers; each gets a disk or a volume of its own."""

    image: Text | None = Field(default=None, description="image, by name or id")
    snapshot: Text | None = Field(default=None, description="snapshot of a volume, by name or id")
    volume: Text | None = Field(
        default=None, description="volume, by name or id: each server boots from a copy of it"
    )
    size: Size | None = Field(
        default=None,
        ge=2**30,
        description="boot from a new volume of this size, in whole GiB; without it an image boots"
        " from the flavor's own disk",
    )

    @model_validator(mode="after")
    def _one_source(self) -> BootSource:
        if sum(source is not None for source in (self.image, self.snapshot, self.volume)) != 1:
            raise conflict(
                "servers boot from one thing",
                "write exactly one of image, snapshot and volume",
                *("image", "snapshot", "volume"),
            )
        return self


class OpenStackSettings(NicSettings, CloudWithHosts):
    """An OpenStack cloud: servers of one or several projects in one region."""

    kind: Literal["openstack"] = Field(default="openstack", description="the kind of cloud")
    cloud: Text | None = Field(
        default=None,
        description="name of the cloud in clouds.yaml; by default that of OS_CLOUD, else what the"
        " OS_* variables say",
    )
    region: Text | None = Field(default=None, description="region, if the cloud has several")
    projects: dict[Name, Text] | Literal["made"] | None = Field(
        default=None,
        description="the tenants: for each a cloud of clouds.yaml, with credentials of its project;"
        " or `made`: projects made for the run, as an admin; without it there is one tenant",
    )
    boot: BootSource = Field(description="what servers boot from")
    user: Text = Field(default="debian", description="account of the image that SSH logs into")
    default_flavor: Text | None = Field(
        default=None, description="flavor of a server that names none, by name or id"
    )
    placement_by: PlacedBy = Field(
        default=PlacedBy.SERVER_GROUP,
        description="what places servers: server groups; compute hosts by name, where the cloud"
        " lets you; or availability zones, one a host",
    )
    soft: bool = Field(
        default=False,
        description="server groups that the cloud keeps only if it can (soft-affinity and"
        " soft-anti-affinity)",
    )
    compute_hosts: list[Text] = Field(
        default_factory=list,
        description="names of compute hosts: those that placement_by: host uses, and those that the"
        " ids are resolved to that users get; by default all that are up, which admins see",
    )
    zones: list[Text] = Field(
        default_factory=list,
        description="availability zones: the first for all servers, or one a host with"
        " placement_by: zone",
    )
    network: Text | None = Field(
        default=None,
        description="network that is there, by name or id, shared by all projects; by default each"
        " project gets one for the run",
    )
    external_network: Text | None = Field(
        default=None,
        description="network of the floating addresses; by default the only external one",
    )
    security_groups: list[Text] = Field(
        default_factory=list,
        description="groups that are there, in each project; by default one is made for the run",
    )
    keypair: Text | None = Field(
        default=None,
        description="key pair that is there, which servers accept beside the run's own key",
    )
    userdata: Text | None = Field(
        default=None, description="file with userdata of your own, beside that of the run"
    )
    config_drive: bool = Field(
        default=False, description="hand the userdata over on a drive, not by the metadata service"
    )
    reach: Reach = Field(
        default=Reach.AUTO,
        description="how SSH gets in: auto is jump where there is a jump host, direct on a network"
        " that is there, else a floating address each",
    )
    jump: Destination | None = Field(
        default=None, description="jump host: an alias of your OpenSSH configuration, or user@host"
    )
    controller_cidr: Cidr | None = Field(
        default=None,
        description="from where SSH is allowed; by default the address from which this machine"
        " talks to the servers, which is wrong behind NAT",
    )
    host_keys: HostKeySource = Field(
        default=HostKeySource.GIVEN,
        description="given: by cloud-init, with the userdata; console: read from the console's log",
    )
    boot_timeout: Duration = Field(
        default=300.0, ge=5, le=7200, description="how long a server may take until SSH answers"
    )

    @model_validator(mode="after")
    def _complete(self) -> OpenStackSettings:
        if self.reach is Reach.JUMP and self.jump is None:
            raise conflict("there is no jump host", "write jump: HOST", "reach")
        if self._jumps and self.controller_cidr is None:
            raise conflict(
                "the address from which the jump host connects can't be known",
                "write controller_cidr: ADDRESS/32, as the servers see the jump host",
                "jump",
            )
        if self.placement_by is PlacedBy.ZONE and not self.zones:
            raise conflict(
                "placement by zone needs zones", "list them: zones: [az1, az2]", "placement_by"
            )
        return self

    @property
    def _jumps(self) -> bool:
        return self.jump is not None and self.reach in {Reach.AUTO, Reach.JUMP}

    @property
    def way_in(self) -> Reach:
        """The resolved ``reach``, never auto."""
        if self.reach is not Reach.AUTO:
            return self.reach
        if self.jump is not None:
            return Reach.JUMP
        return Reach.DIRECT if self.network is not None else Reach.FLOATING

    @property
    def usual_flavor(self) -> str | None:
        """The default flavor."""
        return self.default_flavor

    def priced_region(self, zone: str | None) -> str | None:  # noqa: ARG002
        """Return the region: all its zones have one price list."""
        return self.region

    def lanes(self, parallel: int, kinds: int) -> int:
        """Return one lane for each kind of pairs with server groups: a server has one group.

        Named targets or zones are shared by all kinds, two of them for each trial at once.
        """
        if self.placement_by is PlacedBy.SERVER_GROUP:
            return kinds
        targets = self.zones if self.placement_by is PlacedBy.ZONE else self.compute_hosts
        return max(1, min(parallel, len(targets) // 2))


class OpenStackAccess(CloudAccess):
    """A project; ``cloud`` is one of clouds.yaml, and ``home`` the project of its credentials.

    ``auth_url`` only shows the user which keystone it was: nothing is sent there.
    """

    auth_url: Text | None = None
    home: Text | None = None
    project: Text | None = None
