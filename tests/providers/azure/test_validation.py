"""What Azure can't do for a scenario, or can't promise, is told before anything is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmef.errors import InputError
from osmef.providers.azure.provider import AzureProvider
from osmef.scenario.clouds.azure import AzureSettings
from osmef.scenario.load import load_text
from osmef.scenario.study import Cell

USUAL = (
    "kind: azure, region: westeurope, default_flavor: Standard_D2s_v5,"
    " controller_cidr: 192.0.2.1/32"
)
HOSTS = f"{USUAL}, dedicated_host: DSv5-Type1"
ONE_ZONE, TWO_ZONES, ZONE_OR_ANY = (
    f"endpoints: {{sender: {{zone: '1'}}, receiver: {receiver}}}"
    for receiver in ("{zone: '1'}", "{zone: '2'}", "{}")
)
NAMED_ZONES = "endpoints: {sender: {zone: westeurope-az1}, receiver: {zone: westeurope-az2}}"
TWO = "tenants: {a: x, b: y}"


def cell_of(provider: str, rest: str) -> tuple[AzureProvider, Cell]:
    study = load_text(f"name: a\nprovider: {{{provider}}}\n{rest}", Path("a.yaml"))
    settings = study.scenario.provider
    assert isinstance(settings, AzureSettings)
    return AzureProvider(settings), study.cells[0]


@pytest.mark.parametrize(
    ("provider", "rest", "key", "nearest"),
    [
        (USUAL, "placement: same-host", "placement", "proximity"),
        (f"{HOSTS}, {TWO}", "placement: same-host\ntenancy: different-tenant", "placement", "out"),
        (f"{USUAL}, tenants: {{a: x}}", "tenancy: different-tenant", "tenancy", "another"),
        (f'{USUAL}, {TWO}, zone: "1"', "placement: any", "provider.zone", "westeurope-az1"),
        (f"{USUAL}, {TWO}", ONE_ZONE, "endpoints.receiver.zone", "westeurope-az1"),
        (f"{USUAL}, proximity: true", TWO_ZONES, "endpoints", "one zone"),
        (f'{USUAL}, proximity: true, zone: "2"', ZONE_OR_ANY, "endpoints", "one zone"),
        (
            USUAL,
            "endpoints: {sender: {count: 2}, receiver: {}}",
            "placement",
            "dedicated_host",
        ),
        (
            USUAL,
            "placement: any\nendpoints: {sender: {kind: host}, receiver: {}}",
            "endpoints",
            "static",
        ),
    ],
)
def test_an_impossible_request_is_a_problem_with_the_nearest_alternative(
    provider: str, rest: str, key: str, nearest: str
) -> None:
    asked, cell = cell_of(provider, rest)
    found = {where: cure for where, _message, cure in asked.problems(cell)}
    assert nearest in found[key]


@pytest.mark.parametrize(
    ("provider", "rest"),
    [
        (USUAL, "placement: any"),
        (USUAL, "placement: different-host"),
        (HOSTS, "placement: same-host"),
        (f"{HOSTS}, {TWO}", "placement: different-host\ntenancy: different-tenant"),
        (f"{USUAL}, {TWO}, zone: westeurope-az1", "placement: any\ntenancy: different-tenant"),
        (USUAL, "endpoints: {loopback: {}}"),
        (USUAL, "endpoints: {node: {count: 3}}\nplacement: different-host"),
        (f"{USUAL}, proximity: true", f"placement: any\n{ONE_ZONE}"),
        (f"{USUAL}, {TWO}", f"{NAMED_ZONES}\ntenancy: different-tenant"),
    ],
)
def test_a_possible_request_is_no_problem(provider: str, rest: str) -> None:
    asked, cell = cell_of(provider, rest)
    assert asked.problems(cell) == []


@pytest.mark.parametrize(
    ("provider", "rest"),
    [
        (USUAL, "tenancy: different-tenant"),
        (f'{USUAL}, zone: "1"', "placement: different-host"),
        (USUAL, f"on_mismatch: retry 3\n{ONE_ZONE}"),
        (USUAL, ZONE_OR_ANY),
        (f"{USUAL}, spot: true", "placement: different-host"),
    ],
)
def test_indistinguishable_hosts_are_rejected_unless_only_recorded(
    provider: str, rest: str
) -> None:
    asked, cell = cell_of(provider, rest)
    ((where, message, cure),) = asked.problems(cell)
    assert (where, "does not report" in message) == ("placement", True)
    assert "on_mismatch: record" in cure
    lines = [line for line in rest.splitlines() if not line.startswith("on_mismatch")]
    asked, cell = cell_of(provider, "\n".join([*lines, "on_mismatch: record"]))
    assert asked.problems(cell) == []
    assert "left to chance" in asked.warnings(cell)[0]


@pytest.mark.parametrize(
    ("provider", "rest", "warning"),
    [
        (USUAL, "placement: different-host\ntenancy: different-tenant", "across tenants"),
        (f'{USUAL}, zone: "1"', "placement: different-host", "in a zone"),
        (USUAL, ONE_ZONE, "in a zone"),
        (USUAL, ZONE_OR_ANY, "in a zone"),
        (f'{USUAL}, zone: "2"', ZONE_OR_ANY, None),
        (USUAL, TWO_ZONES, None),
        (USUAL, "endpoints: {sender: {zone: '1'}, receiver: {zone: westeurope-az1}}", "in a zone"),
        (f"{USUAL}, {TWO}", f"{NAMED_ZONES}\ntenancy: different-tenant", None),
        (f"{USUAL}, spot: true", "placement: different-host", "spot VMs"),
        (USUAL, "placement: different-host", None),
        (HOSTS, "placement: different-host\ntenancy: different-tenant", None),
        (USUAL, "placement: any", None),
        (USUAL, "endpoints: {loopback: {}}", None),
    ],
)
def test_a_placement_without_guarantee_is_a_warning(
    provider: str, rest: str, warning: str | None
) -> None:
    asked, cell = cell_of(provider, rest)
    told = asked.warnings(cell)
    assert (told == []) if warning is None else (warning in told[0])


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        (
            USUAL.replace("controller_cidr: 192.0.2.1/32", "endpoint_url: http://127.0.0.1:1"),
            "controller_cidr",
        ),
        (f"{HOSTS}, spot: true", "no spare capacity on dedicated hosts"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(provider: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cell_of(provider, "placement: any")


@pytest.mark.parametrize(("provider", "lanes"), [(USUAL, 3), (HOSTS, 1)])
def test_dedicated_hosts_are_shared_by_all_kinds_of_pairs(provider: str, lanes: int) -> None:
    _, cell = cell_of(provider, "placement: any")
    assert cell.scenario.provider.lanes(4, 3) == lanes
