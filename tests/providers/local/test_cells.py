"""What the local cloud says about a scenario before anything is made."""

from __future__ import annotations

import os
from typing import Any

import pytest

from osmef.errors import Problem
from osmef.providers.local.provider import LocalProvider
from osmef.scenario.clouds.local import LocalSettings
from osmef.scenario.model import Scenario
from osmef.scenario.study import Cell

CPUS = len(os.sched_getaffinity(0))


def problem(key: str, message: str, cure: str) -> Problem:
    return Problem(key, 1, 1, message, cure)


def cell(provider: dict[str, Any], **values: Any) -> tuple[LocalProvider, Cell]:
    scenario = Scenario.model_validate(
        {"name": "x", "provider": {"kind": "local", **provider}, **values}
    )
    assert isinstance(scenario.provider, LocalSettings)
    return LocalProvider(scenario.provider), Cell("x", (), scenario, problem)


def pair(sender: object = None, receiver: object = None) -> dict[str, Any]:
    return {"sender": {"flavor": sender}, "receiver": {"flavor": receiver}}


PAIRS = {"endpoints": {"sender": {}, "receiver": {}}, "pairs": 2}
BIG = {"flavors": {"one": {"vcpus": 1}, "big": {"vcpus": CPUS + 1}}}


@pytest.mark.parametrize(
    ("provider", "values", "keys"),
    [
        ({}, {}, []),
        ({}, {"endpoints": pair("nano")}, ["endpoints.sender.flavor"]),
        (
            {},
            {"endpoints": pair("nano", "giant")},
            ["endpoints.sender.flavor", "endpoints.receiver.flavor"],
        ),
        ({}, {"endpoints": {"loopback": {"flavor": "nano"}}}, ["endpoints.loopback.flavor"]),
        ({**BIG, "default_flavor": "big"}, {}, ["provider.default_flavor"] * 2),
        ({"hosts": 1}, {}, ["placement"]),
        ({"hosts": 1}, {"placement": "same-host"}, []),
        ({"hosts": 1}, {"endpoints": {"loopback": {"kind": "host"}}}, []),
        ({"hosts": 3}, {"endpoints": {"node": {"count": 4}}}, ["placement"]),
        ({"hosts": 4}, {"endpoints": {"node": {"count": 4}}}, []),
        ({"hosts": 1}, {"endpoints": {"node": {"count": 4}}, "placement": "same-host"}, []),
        ({}, {"endpoints": {"node": {"count": 2, "flavor": "nano"}}}, ["endpoints.node.flavor"]),
        ({"tenants": 1}, {"tenancy": "different-tenant"}, ["tenancy"]),
        ({"tenants": 1}, {"tenancy": "same-tenant"}, []),
        (BIG, {"endpoints": pair("one", "big")}, ["endpoints.receiver.flavor"]),
        ({**BIG, "cpu_overcommit": True}, {"endpoints": pair("one", "big")}, []),
        ({}, {"endpoints": pair({"vcpus": 1}, {"vcpus": 999})}, ["endpoints.receiver.flavor"]),
        (
            {},
            {"endpoints": pair({"vcpus": 1, "ram": "1024TiB"}, {"vcpus": 1, "ram": "1MiB"})},
            ["endpoints.sender.flavor.ram"],
        ),
        ({"link_rate": "40Gbit/s"}, {}, ["provider.link_rate"]),
        ({"burst": "1MB"}, {"workload": {"kind": "btc", "until": "knee"}, **PAIRS}, ["pairs"]),
        ({"burst": "1MB"}, {"workload": {"kind": "btc", "until": "knee"}}, []),
        ({"burst": "1MB"}, PAIRS, []),
        ({}, {"workload": {"kind": "btc", "until": "knee"}, **PAIRS}, []),
    ],
)
def test_problems_stand_under_the_key_that_is_wrong(
    provider: dict[str, Any], values: dict[str, Any], keys: list[str]
) -> None:
    local, made = cell(provider, **values)
    problems = local.problems(made)
    assert [key for key, _, _ in problems] == keys
    assert all(message and cure for _, message, cure in problems)


def test_an_unknown_flavor_lists_those_that_are() -> None:
    local, made = cell({"flavors": {"a": {"vcpus": 1}, "b": {"vcpus": 1}}}, endpoints=pair("c"))
    assert [cure for _, _, cure in local.problems(made)][:1] == ["choose from: a, b"]


def test_a_need_that_no_flavor_meets_says_what_there_is() -> None:
    flavors = {"a": {"vcpus": 1}, "b": {"vcpus": 2}}
    local, made = cell({"flavors": flavors}, endpoints=pair("a", {"vcpus": 3}))
    assert local.problems(made) == [
        (
            "endpoints.receiver.flavor",
            "the local cloud has no flavor of 3 CPUs",
            "ask for 2 at most, or add one to provider.flavors",
        )
    ]


def test_shared_cpus_are_warned_of() -> None:
    local, made = cell({})
    assert f"({CPUS})" in local.warnings(made)[0]
    local, made = cell({**BIG, "cpu_overcommit": True}, endpoints=pair("one", "big"))
    text = "\n".join(local.warnings(made))
    assert f"a flavor of {CPUS + 1} CPUs gets only the {CPUS}" in text
    assert f"together have {CPUS + 2} CPUs" in text


def test_a_group_needs_room_and_shares_cpus() -> None:
    ends = {"sender": {"count": CPUS + 1}, "receiver": {"count": 1}}
    local, made = cell({}, endpoints=ends)
    assert f"together have {CPUS + 2} CPUs" in "\n".join(local.warnings(made))
    assert local.problems(made) == []
    local, made = cell({}, endpoints={"sender": {"count": 250}, "receiver": {"count": 1}})
    assert [key for key, _, _ in local.problems(made)] == ["endpoints"]
