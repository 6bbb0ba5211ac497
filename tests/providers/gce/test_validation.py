from __future__ import annotations

from pathlib import Path

import pytest

from osmef.providers.gce.provider import GceProvider
from osmef.scenario.clouds.gce import GceSettings
from osmef.scenario.load import load_text
from osmef.scenario.study import Cell

USUAL = "kind: gce, region: here-1, controller_cidr: 203.0.113.7/32"
NODES = f"{USUAL}, node_group: nodes, zone: here-1-a"
TWO = f"{USUAL}, tenants: {{red: a, blue: b}}"
SEVERAL = "endpoints: {sender: {count: 2}, receiver: {}}"
ONE_ZONE, TWO_ZONES, ZONE_OR_ANY = (
    f"endpoints: {{sender: {{zone: here-1-a}}, receiver: {receiver}}}"
    for receiver in ("{zone: here-1-a}", "{zone: here-1-b}", "{}")
)
OTHER_TENANT = "tenancy: different-tenant"


def cell_of(provider: str, rest: str = "") -> tuple[GceProvider, Cell]:
    study = load_text(f"name: a\nprovider: {{{provider}}}\n{rest}", Path("a.yaml"))
    settings = study.scenario.provider
    assert isinstance(settings, GceSettings)
    return GceProvider(settings), study.cells[0]


@pytest.mark.parametrize(
    ("provider", "rest", "key", "nearest"),
    [
        (USUAL, "placement: same-host", "placement", "provider.compact"),
        (USUAL, f"placement: different-host\n{SEVERAL}", "placement", "provider.node_group"),
        (f"{USUAL}, tenants: {{a: x}}", OTHER_TENANT, "tenancy", "another project"),
        (f"{TWO}, node_group: n, zone: here-1-a", OTHER_TENANT, "tenancy", "leave"),
        (USUAL, "endpoints: {sender: {kind: host}, receiver: {}}", "endpoints", "static"),
        (TWO, f"{OTHER_TENANT}\nplacement: different-host", "placement", "placement: any"),
        (TWO, f"{OTHER_TENANT}\n{ONE_ZONE}", "placement", "placement: any"),
        (TWO, f"{OTHER_TENANT}\n{ZONE_OR_ANY}", "placement", "placement: any"),
        (NODES, TWO_ZONES, "endpoints", "provider.node_group"),
        (f"{USUAL}, compact: true", TWO_ZONES, "endpoints", "one zone"),
        (f"{USUAL}, compact: true", ZONE_OR_ANY, "endpoints", "one zone"),
    ],
)
def test_an_impossible_request_is_a_problem_that_names_the_nearest_setting(
    provider: str, rest: str, key: str, nearest: str
) -> None:
    asked, cell = cell_of(provider, rest)
    ((where, _message, cure),) = asked.problems(cell)
    assert where == key
    assert nearest in cure


@pytest.mark.parametrize(
    ("provider", "rest"),
    [
        (USUAL, "placement: different-host"),
        (USUAL, f"placement: any\n{SEVERAL}"),
        (NODES, "placement: same-host"),
        (NODES, f"placement: different-host\n{SEVERAL}"),
        (USUAL, OTHER_TENANT),
        (TWO, f"{OTHER_TENANT}\nplacement: any"),
        (TWO, f"{OTHER_TENANT}\non_mismatch: record"),
        (TWO, f"{OTHER_TENANT}\n{TWO_ZONES}"),
        (f"{TWO}, zone: here-1-b", f"{OTHER_TENANT}\n{ZONE_OR_ANY}"),
        (NODES, ONE_ZONE),
        (f"{USUAL}, compact: true", ONE_ZONE),
        (USUAL, "endpoints: {loopback: {}}"),
        (USUAL, "endpoints: {node: {count: 3}}\nplacement: different-host"),
    ],
)
def test_a_possible_request_is_no_problem(provider: str, rest: str) -> None:
    asked, cell = cell_of(provider, rest)
    assert asked.problems(cell) == []


@pytest.mark.parametrize(
    ("provider", "rest", "warning"),
    [
        (TWO, f"{OTHER_TENANT}\nplacement: different-host", "do not reach across projects"),
        (f"{USUAL}, compact: true", "placement: different-host", "near each other"),
    ],
)
def test_a_placement_without_guarantee_is_a_warning(provider: str, rest: str, warning: str) -> None:
    asked, cell = cell_of(provider, rest)
    (text,) = asked.warnings(cell)
    assert warning in text


@pytest.mark.parametrize(
    ("provider", "rest"),
    [
        (USUAL, "placement: different-host"),
        (USUAL, "placement: any"),
        (TWO, f"{OTHER_TENANT}\n{TWO_ZONES}"),
        (NODES, "placement: different-host"),
        (USUAL, "endpoints: {loopback: {}}"),
    ],
)
def test_a_guaranteed_placement_gives_no_warning(provider: str, rest: str) -> None:
    asked, cell = cell_of(provider, rest)
    assert asked.warnings(cell) == []
