from __future__ import annotations

from pathlib import Path

import pytest

from osmef.providers.openstack.provider import OpenStackProvider
from osmef.scenario.clouds.openstack import OpenStackSettings
from osmef.scenario.load import load_text
from osmef.scenario.study import Cell

USUAL = "kind: openstack, boot: {image: debian}, default_flavor: m1.small"


def cell_of(provider: str, rest: str = "") -> tuple[OpenStackProvider, Cell]:
    study = load_text(f"name: a\nprovider: {{{provider}}}\n{rest}", Path("a.yaml"))
    settings = study.scenario.provider
    assert isinstance(settings, OpenStackSettings)
    return OpenStackProvider(settings), study.cells[0]


@pytest.mark.parametrize(
    ("provider", "rest", "key"),
    [
        ("kind: openstack, boot: {image: debian}", "", "endpoints.sender"),
        (USUAL, "tenancy: different-tenant", "tenancy"),
        (f"{USUAL}, projects: {{a: x}}", "tenancy: different-tenant", "tenancy"),
        (f"{USUAL}, placement_by: zone, zones: [az1]", "", "placement"),
        (f"{USUAL}, placement_by: host, compute_hosts: [c1]", "", "placement"),
        (f"{USUAL}, userdata: /nowhere/at/all", "", "provider.userdata"),
        (f"{USUAL}, userdata: ~no-such-user/at/all", "", "provider.userdata"),
        (USUAL, "endpoints: {sender: {kind: host}, receiver: {}}", "provider.hosts"),
    ],
)
def test_an_impossible_request_is_a_problem_with_a_cure(provider: str, rest: str, key: str) -> None:
    asked, cell = cell_of(provider, rest)
    assert key in {where for where, _message, _cure in asked.problems(cell)}
    assert all(cure for _key, _message, cure in asked.problems(cell))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"apt: {}\n", "does not say what it is"),
        (b"#!/bin/sh\n\xff", "can't read"),
        (b"#!/bin/sh\n" + b"#" * 65000, "too long"),
    ],
)
def test_userdata_that_no_server_would_take_is_a_problem_of_the_file(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "userdata"
    path.write_bytes(content)
    asked, cell = cell_of(f"{USUAL}, userdata: {path}")
    ((key, said, cure),) = asked.problems(cell)
    assert key == "provider.userdata"
    assert message in said
    assert cure
    path.write_text("#!/bin/sh\ntrue\n")
    assert asked.problems(cell) == []


@pytest.mark.parametrize(
    ("provider", "rest"),
    [
        (USUAL, ""),
        (f"{USUAL}, projects: made", "tenancy: different-tenant"),
        (f"{USUAL}, projects: {{a: x, b: y}}", "tenancy: different-tenant"),
        (f"{USUAL}, placement_by: zone, zones: [az1]", "placement: same-host"),
        (
            f"{USUAL}, hosts: {{h: {{ssh: me@198.51.100.7}}}}",
            "endpoints: {sender: {kind: host}, receiver: {}}",
        ),
    ],
)
def test_a_possible_request_is_no_problem(provider: str, rest: str) -> None:
    asked, cell = cell_of(provider, rest)
    assert asked.problems(cell) == []


@pytest.mark.parametrize(
    ("provider", "rest", "warning"),
    [
        (f"{USUAL}, soft: true", "", "only if the cloud can"),
        (f"{USUAL}, projects: made", "tenancy: different-tenant", "do not reach across"),
        (f"{USUAL}, projects: made", "tenancy: different-tenant", "compute_hosts"),
        (f"{USUAL}, placement_by: zone, zones: [a, b]", "placement: same-host", "several hosts"),
        (USUAL, "endpoints: {sender: {count: 2}, receiver: {}}", "hosts differ"),
    ],
)
def test_a_placement_without_guarantee_is_a_warning(provider: str, rest: str, warning: str) -> None:
    asked, cell = cell_of(provider, rest)
    assert any(warning in text for text in asked.warnings(cell))


@pytest.mark.parametrize(
    ("provider", "rest"),
    [
        (USUAL, ""),
        (f"{USUAL}, projects: made, placement_by: host", "tenancy: different-tenant"),
        (USUAL, "endpoints: {loopback: {}}"),
        (USUAL, "endpoints: {node: {count: 3}}\nplacement: different-host"),
    ],
)
def test_a_guaranteed_placement_gives_no_warning(provider: str, rest: str) -> None:
    asked, cell = cell_of(provider, rest)
    assert asked.warnings(cell) == []


@pytest.mark.parametrize(
    ("settings", "kinds", "lanes"),
    [
        ("", 4, 4),
        (", placement_by: host", 4, 1),
        (", placement_by: host, compute_hosts: [a, b, c, d]", 4, 2),
        (", placement_by: zone, zones: [a, b]", 4, 1),
    ],
)
def test_a_server_group_holds_one_kind_of_pair(settings: str, kinds: int, lanes: int) -> None:
    study = load_text(f"name: a\nprovider: {{{USUAL}{settings}}}", Path("a.yaml"))
    assert study.scenario.provider.lanes(parallel=3, kinds=kinds) == lanes
