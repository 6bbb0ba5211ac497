"""The model of a scenario: what to measure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, model_validator

from osmef.kinds import PROVIDERS, WORKLOADS
from osmef.scenario.base import ByKind, Model, conflict
from osmef.scenario.clouds.base import CloudSettings
from osmef.scenario.fields import (
    Duration,
    EndpointKind,
    Expected,
    Family,
    Flavor,
    InstanceClass,
    Name,
    OnMismatch,
    Placement,
    Price,
    ProviderNetwork,
    Sum,
    Tenancy,
    Text,
    TrialOrder,
)
from osmef.scenario.layers import AnyLayer, Stack
from osmef.scenario.workload import (
    AnyBackground,
    AnyPairs,
    AnyWorkload,
    Directions,
    PairsAt,
    Repeat,
    UntilKnown,
    without_background,
)

AnyProvider = Annotated[CloudSettings, ByKind(PROVIDERS, "local")]
"""Any provider's settings, distinguished by ``kind``; ``local`` where that is not written."""


USUAL_KINDS = {"provider": "local", "sites": "local", "workload": "btc", "background": "btc"}
"""Of settings that do not name their kind; each of the sites has one."""


class EndpointSettings(Model):
    """Settings of one end of a measurement."""

    kind: EndpointKind = Field(default=EndpointKind.VM, description="a VM or a physical host")
    flavor: Flavor | None = Field(
        default=None,
        description="the provider's name of the VM's size, `class:NAME`, or what it needs",
    )
    count: int = Field(
        default=1,
        ge=1,
        le=256,
        description="how many of them make a group; every sender sends to every receiver, and"
        " every node to every other one",
    )
    site: Name | None = Field(default=None, description="which of the `sites` it is made at")
    zone: Text | None = Field(
        default=None,
        description="availability zone, by the cloud's name; by default what its settings say",
    )

    nics: int = Field(
        default=0,
        ge=0,
        le=8,
        description="network cards beside the one by which it is reached: free ones, for a layer"
        " such as `bond`",
    )

    address: str | None = Field(
        default=None,
        description="of a receiver: the numeric address of a server that is there already, which"
        " OSMeF does not start; only `port` may be given with it",
    )
    port: int | None = Field(
        default=None, ge=1, le=65535, description="the port of that server, if not the usual one"
    )

    @model_validator(mode="after")
    def _what_only_vms_have(self) -> EndpointSettings:
        if self.kind is EndpointKind.HOST and self.flavor is not None:
            raise conflict(
                "a physical host has no flavor", "remove it, or use kind: vm", "flavor", "kind"
            )
        if self.kind is EndpointKind.HOST and self.zone is not None:
            raise conflict(
                "a physical host is where it is", "remove zone, or use kind: vm", "zone", "kind"
            )
        return self


class Endpoints(Model):
    """Endpoints by role: a sender and a receiver, equal nodes, or a loopback."""

    sender: EndpointSettings | None = Field(default=None, description="the end that sends")
    receiver: EndpointSettings | None = Field(
        default=None, description="the end that receives, where goodput is measured"
    )
    loopback: EndpointSettings | None = Field(
        default=None, description="one endpoint that is both ends, over its loopback interface"
    )
    node: EndpointSettings | None = Field(
        default=None,
        description="`count` endpoints of which each sends to every other one, or which run one"
        " program together; `different-host` gives each a host of its own",
    )

    @property
    def given_ends(self) -> dict[str, EndpointSettings]:
        """The given ends by key."""
        named = {
            "sender": self.sender,
            "receiver": self.receiver,
            "loopback": self.loopback,
            "node": self.node,
        }
        return {key: end for key, end in named.items() if end is not None}

    @model_validator(mode="after")
    def _only_a_receiver_is_there(self) -> Endpoints:
        for name, end in self.given_ends.items():
            for key in ("address", "port"):
                if getattr(end, key) is not None:
                    raise conflict(
                        f"{name} has no {key}: only a receiver with an address is a server that is"
                        " there already",
                        f"remove {key}; addresses of machines of yours are in the inventory",
                        f"{name}.{key}",
                    )
        return self

    @model_validator(mode="after")
    def _pair_or_loopback(self) -> Endpoints:
        alone = [key for key in ("loopback", "node") if key in self.given_ends]
        if alone and len(self.given_ends) > 1:
            what = "both ends at once" if "loopback" in alone else "sender and receiver at once"
            others = " and ".join(key for key in self.given_ends if key != alone[0])
            raise conflict(
                f"{alone[0]} is {what}, and can't be combined with others",
                f"remove {others}, or {alone[0]}",
                *("loopback", "sender", "receiver", "node"),
            )
        if not alone and len(self.given_ends) < 2:
            raise conflict(
                "a measurement needs a sender and a receiver, or loopback or node alone",
                "write both, for example sender: {} and receiver: {}",
                *("sender", "receiver"),
            )
        if self.loopback is not None and self.loopback.count > 1:
            raise conflict(
                "loopback is one endpoint that talks to itself",
                "remove count, or write a sender and a receiver, or node",
                *("loopback.count",),
            )
        return self


class Scenario(Model):
    """What to measure, where, and how often. Without ``sweep`` it is one cell."""

    name: Name = Field(description="lower-case letters, digits and dashes")
    description: str = Field(default="", description="one line for the reader of the results")
    provider: AnyProvider = Field(
        default_factory=ByKind(PROVIDERS, "local").default,
        description="the cloud: its name, or its settings",
    )
    sites: dict[Name, AnyProvider] = Field(
        default_factory=dict,
        min_length=1,
        description="several clouds by names of yours, in the place of `provider`: of each its"
        " kind, or its settings; every endpoint names its `site`",
    )
    endpoints: Endpoints = Field(
        default_factory=lambda: Endpoints(sender=EndpointSettings(), receiver=EndpointSettings()),
        description="who sends to whom",
    )
    pairs: AnyPairs | None = Field(
        default=None,
        description="several pairs of that sender and receiver: how many, or that and when each is"
        " measured",
    )
    placement: Placement = Field(
        default=Placement.DIFFERENT_HOST,
        description="whether both ends share a host; any: the cloud decides",
    )
    tenancy: Tenancy = Field(
        default=Tenancy.SAME_TENANT, description="whether both ends share a tenant"
    )
    layer: AnyLayer = Field(
        default=ProviderNetwork.BARE,
        description="what is between the ends: nothing (`bare`), the provider's `overlay` of"
        " two physical hosts, or what is raised on both ends: a kind, its settings, or a list of"
        " a stack of them, the outermost first",
    )
    family: Family = Field(
        default=Family.IPV4, description="the version of IP between the endpoints"
    )
    workload: AnyWorkload = Field(
        default_factory=ByKind(WORKLOADS, "btc").default,
        description="what is run: its name, or its settings",
    )
    background: AnyBackground | None = Field(
        default=None,
        description="a second workload between the same endpoints, beside the measured one",
    )
    lead: Duration = Field(
        default=1.0,
        ge=0,
        le=3600.0,
        description="how long the background runs before what is measured, and again after it",
    )
    stagger: Duration = Field(
        default=0.0,
        ge=0,
        le=3600.0,
        description="how long after the one before each pair starts that is measured in one trial",
    )
    repeat: Repeat = Field(
        default=6,
        description="trials of each cell, 1 to 100000; a 95 % interval of the median needs 6. Or"
        " `{until: 5 %}`: as many as it takes to know the median. 1 where nothing is written and"
        " the workload has `until: knee`",
    )
    expect: dict[str, Expected] = Field(
        default_factory=dict,
        max_length=100,
        description="what medians are to be in every cell that has the metric, such as"
        " `aggregate_btc_bps: '>= 5 Gbit/s'`; `osmef run` ends with exit code 5 where one is not",
    )
    order: TrialOrder = Field(
        default=TrialOrder.RANDOM,
        description="random: every repetition runs all cells in a new random order;"
        " sequential: all repetitions of a cell, then the next cell",
    )
    seed: int | None = Field(
        default=None,
        ge=0,
        lt=2**63,
        description="of the random order; drawn and recorded if absent",
    )
    pause: Duration = Field(default=0.0, ge=0, le=86400, description="rest before each trial")
    parallel: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="how many trials may run at once; those that share a host never do",
    )
    on_mismatch: OnMismatch = Field(
        default="fail",
        description="what to do when the achieved placement is not the requested one: `fail` the"
        " cell, `record` where it was, or `retry N`: recreate endpoints, at most N times (1 to"
        " 20), and then fail",
    )
    deadline: Duration | None = Field(
        default=None,
        ge=1,
        le=365 * 86400,
        description="how long the run may last from its start, or from when it is resumed: it stops"
        " in time to take away what it made; by default as long as all its timeouts",
    )
    budget: Sum | None = Field(
        default=None,
        description="what the run's VMs may cost by the price list, such as `5 USD`: a run that"
        " would cost more does not start, and it ends before it has",
    )
    prices: list[Price] = Field(
        default_factory=list, description="prices of VMs, on top of those in files"
    )
    classes: dict[Name, InstanceClass] = Field(
        default_factory=dict, description="classes of VMs by name, on top of those in files"
    )
    tags: dict[str, str] = Field(default_factory=dict, description="free text for your own use")

    @model_validator(mode="after")
    def _sites_and_ends(self) -> Scenario:
        check_sites(self)
        return self

    @model_validator(mode="after")
    def _background_lasts_as_long_as_needed(self) -> Scenario:
        if self.background is None:
            return self
        for key in self.background.lasting:
            if key in self.background.model_fields_set:
                raise conflict(
                    "the background runs as long as what is measured needs it",
                    f"remove {key}; lead says how long it runs before and after",
                    f"background.{key}",
                )
        return self

    @model_validator(mode="after")
    def _lead_has_a_background(self) -> Scenario:
        if "lead" in self.model_fields_set and self.background is None:
            raise without_background("lead")
        return self

    @model_validator(mode="after")
    def _workload_agrees(self) -> Scenario:
        for problem in self.workload.problems(self):
            raise problem
        return self

    @model_validator(mode="after")
    def _a_node_has_others(self) -> Scenario:
        node = self.endpoints.node
        if node is not None and node.count < 2 and not self.workload.together:
            raise conflict(
                "one node has no other to send to",
                "write its count: 2 or more, or use loopback",
                *("endpoints.node.count", "endpoints.node"),
            )
        return self

    @model_validator(mode="after")
    def _pairs_have_ends_of_their_own(self) -> Scenario:
        if self.pairs is None:
            return self
        alone = [key for key in ("loopback", "node") if key in self.endpoints.given_ends]
        if alone:
            raise conflict(
                f"pairs are of a sender and a receiver, and {alone[0]} is neither",
                "write both, for example sender: {} and receiver: {}, or remove pairs",
                *("pairs", f"endpoints.{alone[0]}"),
            )
        groups = [key for key, end in self.endpoints.given_ends.items() if end.count > 1]
        if groups:
            raise conflict(
                "in a group every sender sends to every receiver, and in pairs to its own",
                f"remove pairs, or endpoints.{groups[0]}.count",
                *("pairs", f"endpoints.{groups[0]}.count"),
            )
        if self.workload.together:
            raise conflict(
                f"{self.workload.kind} runs on all endpoints as one, and not between pairs",
                "remove pairs, and write endpoints: {node: {count: 4}}",
                *("pairs", "workload"),
            )
        if self.is_until_known and self.trials > 1:
            raise conflict(
                "trials of one pair are more alike than those of others, which the rule of repeat"
                " can't allow for",
                "give repeat a number, or let all pairs run at once",
                *("repeat.until", "pairs"),
            )
        return self

    @model_validator(mode="after")
    def _pairs_are_staggered(self) -> Scenario:
        if self.stagger and self.workload.together:
            raise conflict(
                f"{self.workload.kind} starts on all endpoints as one",
                "remove stagger",
                *("stagger", "workload"),
            )
        return self

    @model_validator(mode="after")
    def _one_endpoint_is_one_tenants(self) -> Scenario:
        if self.tenancy is Tenancy.SAME_TENANT:
            return self
        if self.endpoints.node is not None:
            raise conflict(
                "nodes are of one tenant",
                "use tenancy: same-tenant, or a sender and a receiver",
                *("tenancy", "endpoints.node"),
            )
        if EndpointKind.HOST in {end.kind for end in self.ends}:
            raise conflict(
                "a physical host belongs to no tenant",
                "use tenancy: same-tenant, or VMs",
                *("tenancy", "endpoints.sender.kind", "endpoints.receiver.kind"),
            )
        if self.endpoints.loopback is not None:
            raise conflict(
                "a loopback endpoint belongs to one tenant",
                "use tenancy: same-tenant, or a sender and a receiver",
                *("tenancy", "endpoints.loopback"),
            )
        return self

    @model_validator(mode="after")
    def _layers_join_two_ends(self) -> Scenario:
        if self.stack and self.endpoints.loopback is not None:
            raise conflict(
                "a layer is between two endpoints, and loopback is one",
                "use layer: bare, or a sender and a receiver",
                *("layer", "endpoints.loopback"),
            )
        for layer in self.stack:
            for problem in layer.problems(self):
                raise problem
        return self

    @model_validator(mode="after")
    def _pairs_of_hosts(self) -> Scenario:
        kinds = {end.kind for end in self.ends}
        pair = kinds == {EndpointKind.HOST} and self.endpoints.loopback is None
        if self.layer is ProviderNetwork.OVERLAY and not pair:
            raise conflict(
                "layer: overlay is for a pair of physical hosts",
                "use layer: bare, or kind: host for both ends",
                *("layer", "endpoints.sender.kind", "endpoints.receiver.kind"),
            )
        if self.placement is Placement.SAME_HOST and pair:
            raise conflict(
                "two physical hosts are never on one host",
                "use placement: different-host, or endpoints: {loopback: {kind: host}}",
                *("placement", "endpoints.sender.kind", "endpoints.receiver.kind"),
            )
        return self

    @model_validator(mode="after")
    def _groups_of_hosts(self) -> Scenario:
        if self.placement is not Placement.SAME_HOST or self.endpoints.node is not None:
            return self
        for key, end in self.given_ends.items():
            if end.kind is EndpointKind.HOST and end.count > 1:
                counted = "pairs" if self.pairs else f"endpoints.{key}.count"
                raise conflict(
                    "several physical hosts are never on one host",
                    "use placement: different-host, or kind: vm",
                    *("placement", counted, f"endpoints.{key}.kind"),
                )
        return self

    @property
    def given_ends(self) -> dict[str, EndpointSettings]:
        """The given ends by key, with the number of each."""
        if self.pairs is None:
            return self.endpoints.given_ends
        count = {"count": self.pairs.count}
        return {key: end.model_copy(update=count) for key, end in self.endpoints.given_ends.items()}

    @property
    def ends(self) -> tuple[EndpointSettings, EndpointSettings]:
        """Settings of the sending and the receiving end; the same twice for loopback and nodes."""
        each = list(self.given_ends.values())
        return (each[0], each[-1])

    @property
    def trials(self) -> int:
        """How many trials a repetition has: one, or one per pair."""
        return self.pairs.trials if self.pairs else 1

    @property
    def repetitions(self) -> int:
        """The largest number of trials of a cell."""
        if self.workload.changes_next_trial and "repeat" not in self.model_fields_set:
            return 1
        return self.repeat.most if isinstance(self.repeat, UntilKnown) else self.repeat

    @property
    def is_until_known(self) -> bool:
        """Whether a sequential stopping rule ends a cell's trials."""
        return isinstance(self.repeat, UntilKnown)

    @property
    def stack(self) -> Stack:
        """The layers between the ends, the outermost first."""
        return () if isinstance(self.layer, ProviderNetwork) else self.layer

    @property
    def network(self) -> ProviderNetwork:
        """The network of the provider, below all layers of ours."""
        return self.layer if isinstance(self.layer, ProviderNetwork) else ProviderNetwork.BARE

    @property
    def directions(self) -> Directions:
        """Which ways data goes in a trial; beside a background at once."""
        return self.workload.directions if self.background is None else Directions.AT_ONCE

    @property
    def size(self) -> int:
        """The number of endpoints."""
        return sum(end.count for end in self.given_ends.values())

    @property
    def shares_hosts(self) -> bool:
        """Whether several endpoints of one end share a host."""
        nodes_apart = self.endpoints.node is not None and self.placement is Placement.DIFFERENT_HOST
        pairs_apart = self.pairs is not None and self.pairs.at is not PairsAt.ONCE
        vms = [end for end in self.ends if end.kind is EndpointKind.VM]
        return not (nodes_apart or pairs_apart) and any(end.count > 1 for end in vms)

    @property
    def zones_of_ends(self) -> tuple[str | None, str | None]:
        """The zones of the ends; None where the cloud chooses, or has no zones."""
        sender, receiver = (end.zone or self.clouds[end.site].usual_zone for end in self.ends)
        return (sender, receiver)

    @property
    def clouds(self) -> Mapping[str | None, CloudSettings]:
        """Settings of the sites by name; without sites, of the one cloud under None."""
        one: Mapping[str | None, CloudSettings] = {None: self.provider}
        return one if not self.sites else dict(self.sites.items())

    @property
    def kinds_of_clouds(self) -> str:
        """The kind of the cloud, or the kinds of all sites, such as `aws+gce`."""
        return "+".join(dict.fromkeys(cloud.kind for cloud in self.clouds.values()))

    @property
    def is_between_sites(self) -> bool:
        """Whether the two ends are at two sites."""
        return len({end.site for end in self.ends}) > 1


_ENDS = ("endpoints.sender", "endpoints.receiver")


def check_sites(scenario: Scenario) -> None:
    """Check that every end names a known site, and requests nothing that needs a single one.

    Raises PydanticCustomError.
    """
    if scenario.sites and "provider" in scenario.model_fields_set:
        raise conflict(
            "provider is one cloud, and sites are several",
            "write one of provider and sites",
            *("sites", "provider"),
        )
    if len(scenario.sites) == 1:
        raise conflict("this is one site", "write it as provider, or name another one", "sites")
    for name, end in scenario.endpoints.given_ends.items():
        _check_end(scenario, f"endpoints.{name}", end)
    if scenario.is_between_sites:
        _check_between(scenario)
    if scenario.placement is Placement.SAME_HOST:
        _check_zones(scenario)


def _check_end(scenario: Scenario, key: str, end: EndpointSettings) -> None:
    known = ", ".join(scenario.sites)
    if scenario.sites and end.site is None:
        raise conflict(
            f"{key} names no site", f"write its site: {known}", key, "endpoints", "sites"
        )
    if end.site is not None and not scenario.sites:
        raise conflict(
            f"there is no site {end.site!r}, for the scenario has no sites",
            "remove site, or write sites in the place of provider",
            f"{key}.site",
        )
    if end.site is not None and end.site not in scenario.sites:
        raise conflict(f"there is no site {end.site!r}", f"write one of: {known}", f"{key}.site")
    form = end.zone and scenario.clouds[end.site].written_zone(end.zone)
    if form:
        raise conflict(f"there is no zone {end.zone!r} here", f"write it {form}", f"{key}.zone")


def _check_zones(scenario: Scenario) -> None:
    zones = scenario.zones_of_ends
    if len(set(zones)) < 2:
        return
    raise conflict(
        "two zones share no host"
        if None not in zones
        else "one end is to be in a zone, the other in any, and two zones share no host",
        "write the same zone for both ends, or use placement: different-host",
        *("placement", *(f"{end}.zone" for end in _ENDS)),
    )


def _check_between(scenario: Scenario) -> None:
    sites = tuple(f"{end}.site" for end in _ENDS)
    if scenario.placement is Placement.SAME_HOST:
        raise conflict(
            "two sites share no host",
            "use placement: different-host, or one site for both ends",
            *("placement", *sites),
        )
    if scenario.tenancy is Tenancy.DIFFERENT_TENANT:
        raise conflict(
            "ends at two sites are never of one tenant, so there is nothing to ask for",
            "leave tenancy out, or use one site for both ends",
            *("tenancy", *sites),
        )
    if scenario.layer is ProviderNetwork.OVERLAY:
        raise conflict(
            "there is no overlay between two sites",
            "use layer: bare, or one site for both ends",
            *("layer", *sites),
        )
