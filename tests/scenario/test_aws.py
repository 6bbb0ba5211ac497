"""The settings of EC2, and what it refuses before anything costs money."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmef.engine.check import check_study, warnings_of
from osmef.errors import InputError
from osmef.scenario.load import load_text

HEAD = "name: a\nprovider:\n  kind: aws\n  region: r\n  default_flavor: c5.large\n"


def refused(provider: str, rest: str = "") -> str:
    """Return what is told of a scenario with these lines of its provider, and of its own."""
    lines = "".join(f"  {line}\n" for line in provider.splitlines())
    with pytest.raises(InputError) as raised:
        check_study(load_text(f"{HEAD}{lines}{rest}\n", Path("file.yaml")))
    return "\n".join(str(problem) for problem in raised.value.problems)


@pytest.mark.parametrize(
    ("provider", "rest", "message", "cure"),
    [
        ("spot: true\nplacement_by: dedicated-host", "", "no spare capacity", "remove spot"),
        ("dedicated: true\nplacement_by: spread", "", "of dedicated instances", "partition"),
        ("dedicated: true\nplacement_by: dedicated-host", "", "yours alone", "remove dedicated"),
        ("controller_cidr: anywhere", "", "no block of IPv4 addresses", "198.51.100.7/32"),
        (
            "zone: ra\ntenants: {red: a, blue: b}",
            "",
            "another physical zone in each account",
            "its id",
        ),
        ("", "placement: same-host", "only on a dedicated host", "placement_by: dedicated-host"),
        ("placement_by: cluster", "placement: different-host", "near each other", "partition"),
        (
            "tenants: {red: a, blue: b}",
            "placement: different-host\ntenancy: different-tenant",
            "does not reach across accounts",
            "leave provider.tenants out",
        ),
        (
            "tenants: {red: a, blue: b}\nplacement_by: dedicated-host",
            "placement: same-host\ntenancy: different-tenant",
            "belongs to one account",
            "each tenant is a network",
        ),
        ("tenants: {red: a}", "tenancy: different-tenant", "two accounts", "another profile"),
        (
            "placement_by: spread",
            "placement: different-host\nendpoints: {sender: {count: 2}, receiver: {}}",
            "are spread, too",
            "partition",
        ),
        ("", "endpoints: {sender: {kind: host}, receiver: {}}", "no physical hosts", "leave kind"),
    ],
)
def test_impossible_settings_are_rejected_with_a_cure(
    provider: str, rest: str, message: str, cure: str
) -> None:
    told = refused(provider, rest)
    assert message in told
    assert cure in told


def test_missing_placement_guarantees_and_extra_charges_are_warned_of() -> None:
    ends = "endpoints: {sender: {count: 2}, receiver: {}}"
    text = f"{HEAD}placement: different-host\ntenancy: different-tenant\n{ends}\n"
    told = warnings_of(load_text(text, Path("file.yaml")))
    assert any("share a partition" in line for line in told)
    assert any("Amazon charges for it" in line for line in told)
    nodes = f"{HEAD}placement: different-host\nendpoints: {{node: {{count: 3}}}}\n"
    assert warnings_of(load_text(nodes, Path("file.yaml"))) == []
    (alone,) = warnings_of(load_text(f"{HEAD}  dedicated: true\n", Path("file.yaml")))
    assert "prices of its own" in alone
