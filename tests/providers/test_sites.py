"""Several clouds in one scenario: what each is asked for, and what is told of it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from osmef.engine.check import check_study, warnings_of
from osmef.engine.cost import cost_of
from osmef.engine.plan import Plan, make_plan
from osmef.errors import CapacityError, InputError, Interrupted, NotFoundError, ProviderError
from osmef.providers.base import (
    CancellationCheck,
    Endpoint,
    EndpointRequest,
    RunContext,
    never_cancelled,
)
from osmef.providers.local.provider import LocalProvider
from osmef.providers.marks import Mark
from osmef.providers.sites import Sites, sites_of
from osmef.remote.login import HostKeys, KeyPair, Login
from osmef.scenario.fields import Family, ProviderNetwork
from osmef.scenario.load import load_text
from osmef.scenario.location import Location
from tests.providers.conftest import MemoryLedger

LOCAL = "name: test\nsites: {here: local, there: {kind: local, hosts: 1}}\n"
STATIC = """\
name: test
sites:
  here: {kind: static, hosts: {a: {ssh: a, kind: vm}, b: {ssh: b, kind: vm}}}
  there: {kind: static, hosts: {c: {ssh: c, kind: vm, location: {host: x}}}}
"""
BETWEEN = "endpoints: {sender: {site: here}, receiver: {site: there}}\n"
INSIDE = "endpoints: {sender: {}, receiver: {}}\nsweep: {site: [here, there]}\n"


UNREACHED = "endpoints of the provider local can't be reached from another site at all"
NO_FIT = (
    "no hosts of the inventory fit. Needed: any host with 1 VM of flavor big of tenant-1."
    " Available: the unknown host of a with 1 VM; the unknown host of b with 1 VM"
)


def plan_of(text: str) -> Plan:
    return make_plan(load_text(text, Path("test.yaml")))


def problems_of(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        check_study(load_text(text, Path("test.yaml")))
    return [f"{p.line}:{p.column}: {p.message}" for p in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            LOCAL + BETWEEN,
            [f"3:28: {UNREACHED}", f"3:52: {UNREACHED}"],
        ),
        (
            LOCAL + INSIDE,
            ["1:1: there: different-host needs two hosts"],
        ),
        (
            LOCAL + "endpoints: {loopback: {zone: z}}\nsweep: {site: [here, there]}\n",
            ["3:30: endpoints of the provider local can't name a zone"],
        ),
        (
            STATIC + "endpoints: {sender: {site: here, flavor: big}, receiver: {site: there}}\n",
            [f"3:31: here: {NO_FIT}"],
        ),
        (
            STATIC + "endpoints: {sender: {site: there}, receiver: {site: there}}\n"
            "sweep: {endpoints.sender.site: [here, there]}\n",
            ["4:32: there: 2 VMs are needed, and the inventory has 1"],
        ),
    ],
    ids=["out of reach", "too small", "no zones", "no flavor", "too few"],
)
def test_a_request_that_a_site_cannot_fulfil_is_reported_at_its_position(
    text: str, expected: list[str]
) -> None:
    assert problems_of(text) == expected


def test_a_cure_names_the_settings_of_the_site() -> None:
    with pytest.raises(InputError, match=r"set sites\.there\.hosts to 2 or more"):
        check_study(load_text(LOCAL + INSIDE, Path("test.yaml")))


def test_an_end_alone_needs_neither_a_named_host_nor_a_second_one() -> None:
    study = load_text(STATIC + BETWEEN, Path("test.yaml"))
    check_study(study)
    assert [note for note in warnings_of(study) if "inventory" in note] == [
        "here: the hosts of the VMs are as the inventory says, and were not verified",
        "there: the hosts of the VMs are as the inventory says, and were not verified",
    ]


def test_a_group_at_one_of_two_sites_needs_no_declared_tenant() -> None:
    group = "endpoints: {sender: {site: here, count: 2}, receiver: {site: there}}\n"
    check_study(load_text(STATIC + group, Path("test.yaml")))


def test_ends_at_two_sites_may_stand_anywhere_and_are_far_apart() -> None:
    (cell,) = plan_of(STATIC + BETWEEN).cells
    assert [end.name for end in cell.endpoints] == ["here-sender-any1-t1", "there-receiver-any1-t1"]
    assert [(end.site, end.host) for end in cell.endpoints] == [("here", None), ("there", None)]
    assert cell.distance == 4


def test_a_zone_is_part_of_the_request_and_its_name() -> None:
    plan = plan_of("name: test\nendpoints: {sender: {zone: z-1}, receiver: {}}\n")
    assert [(end.name, end.zone) for end in plan.endpoints] == [
        ("sender-z-1.h1-t1", "z-1"),
        ("receiver-h2-t1", None),
    ]


PRICES = """\
prices:
  - {provider: local, flavor: small, per_hour: 1 USD, date: 2026-01-01, source: us}
  - {provider: static, flavor: c, per_hour: 2 USD, date: 2026-01-01, source: us}
classes: {tiny: {vcpus: 1, flavors: {local: small, static: c}}}
"""


def test_classes_and_prices_are_those_of_the_endpoint_s_site() -> None:
    plan = plan_of(
        "name: test\nsites: {here: local, there: {kind: static, hosts: {c: {ssh: c, kind: vm}}}}\n"
        "endpoints: {sender: {site: here, flavor: class:tiny},"
        " receiver: {site: there, flavor: class:tiny}}\n" + PRICES
    )
    assert [end.flavor for end in plan.endpoints] == ["small", "c"]
    cost = cost_of(plan)
    assert cost.per_hour is not None
    assert (cost.per_hour.amount, cost.unknown) == (3.0, ())


# --- two clouds of names alone, each with a firewall


@dataclass
class Walled(LocalProvider):
    """A cloud whose firewall lets in whom it is told to; without room it makes nothing."""

    net: str
    full: bool = False
    waits: threading.Event | None = None
    made: int = 0
    planned: list[str] = field(default_factory=list)
    admitted: dict[str, set[str]] = field(default_factory=dict)
    closed: int = 0

    def check(
        self,
        requests: Sequence[EndpointRequest],  # noqa: ARG002
        check_cancelled: CancellationCheck = never_cancelled,  # noqa: ARG002
    ) -> None:
        raise NotFoundError(
            "no such network", where="provider.network", cure="set provider.network"
        )

    def _make(self, request: EndpointRequest) -> Endpoint:
        self.made += 1
        login = Login(request.name, "u", "nowhere", HostKeys(()), KeyPair.generate("test"))
        return Endpoint(
            *(request, str(self.made), login, f"10.0.0.{self.made}", None, None),
            public_address=f"{self.net}.{self.made}",
        )

    def create(self, context: RunContext) -> list[Endpoint]:
        context.progress("making all")
        self.planned = [request.name for request in context.all_requests]
        if self.full:
            raise CapacityError("no room")
        while self.waits is not None:
            context.check()
            self.waits.wait(0.01)
        return [self._make(request) for request in context.requests]

    def describe(self, endpoints: Sequence[Endpoint]) -> list[Location]:
        return [Location(host=end.data_address) for end in endpoints]

    def replace(self, endpoint: Endpoint, context: RunContext) -> Endpoint:  # noqa: ARG002
        return self._make(endpoint.request)

    def data_address(
        self,
        receiver: Endpoint,
        sender: Endpoint,  # noqa: ARG002
        layer: ProviderNetwork,  # noqa: ARG002
        family: Family,  # noqa: ARG002
    ) -> str:
        return f"inside {receiver.data_address}"

    def admit(self, endpoints: Sequence[Endpoint], peers: Sequence[str]) -> None:
        for endpoint in endpoints:
            self.admitted[endpoint.resource_id] = set(peers)

    def close(self) -> None:
        self.closed += 1
        if self.full:
            raise ProviderError("it does not answer", where="provider")


def context(plan: Plan, lines: list[str] | None = None) -> RunContext:
    key = KeyPair.generate("test")
    told = [] if lines is None else lines
    return RunContext("run", plan.endpoints, key, MemoryLedger(), 0.0, progress=told.append)


TRIANGLE = plan_of(
    LOCAL + "endpoints: {sender: {site: here}, receiver: {}}\nplacement: any\n"
    "sweep: {endpoints.receiver.site: [here, there]}\n"
)


def test_each_site_admits_only_the_endpoints_of_the_other() -> None:
    here, there, lines = Walled("1.1.1"), Walled("2.2.2"), list[str]()
    sites = Sites({"here": here, "there": there})
    sender, near, far = sites.create(context(TRIANGLE, lines))
    assert (here.admitted, there.admitted) == (
        {"1": {"2.2.2.1"}, "2": {"2.2.2.1"}},
        {"1": {"1.1.1.1", "1.1.1.2"}},
    )
    assert sorted(lines) == ["here: making all", "there: making all"]
    path = (ProviderNetwork.BARE, Family.IPV4)
    assert sites.data_address(far, sender, *path) == "2.2.2.1"
    assert sites.listen_address(far, sender, *path) == "10.0.0.1"
    assert sites.data_address(near, sender, *path) == "inside 10.0.0.2"
    assert [place.site for place in sites.describe([far, sender])] == ["there", "here"]
    assert [place.host for place in sites.describe([far, near])] == ["10.0.0.1", "10.0.0.2"]
    with pytest.raises(ProviderError, match="no address of ipv6") as refused:
        sites.data_address(far, sender, ProviderNetwork.BARE, Family.IPV6)
    assert "data_address6 or interface in the inventory" in str(refused.value.cure)


@pytest.mark.parametrize("returned", [None, 3, [], ["a", "b"]])
@pytest.mark.parametrize(("method", "kind"), [("create", "Endpoint"), ("describe", "Location")])
def test_a_cloud_that_returns_something_else_than_endpoints_is_reported(
    monkeypatch: pytest.MonkeyPatch, method: str, kind: str, returned: object
) -> None:
    plan = plan_of("name: test\n")
    sites = Sites({None: Walled("1.1.1")})
    ends = sites.create(context(plan))
    monkeypatch.setattr(Walled, method, lambda *_: returned)
    one_each = f"a list of {kind}, one for each of sender-h1-t1, receiver-h2-t1"
    with pytest.raises(ProviderError) as caught:
        sites.create(context(plan)) if method == "create" else sites.describe(ends)
    assert caught.value.message == (
        f"{method}() of local returned {returned!r}, and must return {one_each}"
    )


@pytest.mark.parametrize(("method", "kind"), [("problems", "tuple"), ("warnings", "str")])
def test_a_cloud_that_forgets_to_return_a_list_is_reported(
    monkeypatch: pytest.MonkeyPatch, method: str, kind: str
) -> None:
    monkeypatch.setattr(Walled, method, lambda *_: None)
    (cell,) = plan_of("name: test\n").study.cells
    with pytest.raises(ProviderError) as caught:
        getattr(Sites({None: Walled("1.1.1")}), method)(cell)
    assert caught.value.message == (
        f"{method}() of local returned None, and must return a list of {kind}"
    )


def test_a_site_gets_all_of_its_planned_endpoints_including_those_not_created_now() -> None:
    here, there = Walled("1.1.1"), Walled("2.2.2")
    sender, near, far = TRIANGLE.endpoints
    whole = context(TRIANGLE)
    Sites({"here": here, "there": there}).create(
        replace(whole, requests=[sender, far], planned=whole.requests)
    )
    assert (here.planned, there.planned) == ([sender.name, near.name], [far.name])
    assert (here.made, there.made) == (1, 1)


def test_a_peer_elsewhere_arrives_where_nat_translates_to() -> None:
    sites = Sites({"here": Walled("1.1.1"), "there": Walled("2.2.2")})
    sender, _, far = sites.create(context(TRIANGLE))
    behind = replace(far, listen_address="192.168.0.1")
    path = (ProviderNetwork.BARE, Family.IPV4)
    assert sites.data_address(behind, sender, *path) == "2.2.2.1"
    assert sites.listen_address(behind, sender, *path) == "192.168.0.1"


def test_a_plan_names_the_machines_of_all_sites() -> None:
    plan = plan_of(STATIC + BETWEEN)
    sites = sites_of(plan.study.scenario)
    assert list(sites.machines(plan.endpoints).values()) == ["a", "c"]
    with pytest.raises(CapacityError, match="2 VMs are needed") as caught:
        sites.machines([*plan.endpoints, replace(plan.endpoints[1], name="more")])
    assert caught.value.where == "sites.there"


def test_a_recreated_endpoint_is_admitted_by_and_admits_its_peers() -> None:
    here, there = Walled("1.1.1"), Walled("2.2.2")
    sites = Sites({"here": here, "there": there})
    what = context(TRIANGLE)
    *_, far = sites.create(what)
    sites.replace(far, what)
    assert here.admitted["1"] == {"2.2.2.2"}  # the first one's address may be somebody else's now
    assert there.admitted["2"] == {"1.1.1.1", "1.1.1.2"}


def test_when_one_site_fails_the_others_are_stopped_and_all_closed() -> None:
    full, slow = Walled("1.1.1", full=True), Walled("2.2.2", waits=threading.Event())
    sites = Sites({"here": full, "there": slow})
    with pytest.raises(CapacityError, match="no room") as caught:
        sites.create(context(TRIANGLE))
    assert caught.value.where == "sites.here"
    with pytest.raises(ProviderError, match="does not answer"):
        sites.close()
    assert (full.closed, slow.closed) == (1, 1)


def test_a_stop_is_no_failure_of_a_site() -> None:
    def stop() -> None:
        raise Interrupted("stopped by the test")

    here, there = (Walled("1.1.1", waits=threading.Event()) for _ in range(2))
    with pytest.raises(Interrupted, match="stopped by the test"):
        Sites({"here": here, "there": there}).create(replace(context(TRIANGLE), check=stop))


def test_things_of_two_sites_in_one_account_have_two_names() -> None:
    marks = [Mark.of(replace(context(TRIANGLE), site=number)) for number in (None, 1, 2)]
    assert [mark.name("net-1") for mark in marks] == [
        "osmef-run-net-1",
        "osmef-run-s1-net-1",
        "osmef-run-s2-net-1",
    ]


def test_errors_name_the_settings_of_the_site() -> None:
    sites = Sites({"here": Walled("1.1.1"), "there": Walled("2.2.2")})
    with pytest.raises(NotFoundError) as caught:
        sites.check([end for end in TRIANGLE.endpoints if end.site == "there"])
    assert caught.value.where == "sites.there.network"
    assert caught.value.cure == "set sites.there.network"
