"""What no public cloud can have, refused where it is written: zones, tenants that are one."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmef.errors import InputError
from osmef.scenario.load import load_text

HEAD = "name: z\nprovider:\n  kind: {kind}\n  region: {region}\n  controller_cidr: 192.0.2.1/32\n"
FLAVOR = "  default_flavor: f\n"
ENDS = "endpoints:\n  sender: {}\n  receiver:\n    zone: "
AWS, GCE, AZURE = ("aws", "us-east-1"), ("gce", "us-east1"), ("azure", "eastus")


def problems(cloud: tuple[str, str], rest: str) -> list[tuple[int, str, str]]:
    """Return line, message and cure of what is wrong with a scenario at a cloud and region."""
    head = HEAD.format(kind=cloud[0], region=cloud[1]) + FLAVOR
    try:
        load_text(f"{head}{rest}\n", Path("file.yaml"))
    except InputError as error:
        return [(one.line, one.message, one.cure) for one in error.problems]
    return []


@pytest.mark.parametrize(
    ("cloud", "zone", "form"),
    [
        (AWS, "us-west-2a", "us-east-1a, or by an id such as use1-az1"),
        (AWS, "us-east-1", "us-east-1a"),
        (AWS, "us-east-1-bos-1a", "us-east-1a"),  # a Local Zone
        (GCE, "us-east1", "us-east1-a"),
        (GCE, "US-EAST1-B", "us-east1-a"),
        (AZURE, "us-east-1a", "'1', or eastus-az1"),
        (AZURE, "westeurope-az1", "'1', or eastus-az1"),
    ],
)
def test_an_invalid_zone_is_rejected_at_its_line(
    cloud: tuple[str, str], zone: str, form: str
) -> None:
    for line, rest in ((7, f"  zone: {zone}"), (10, f"{ENDS}{zone}")):
        ((at, message, cure),) = problems(cloud, rest)
        assert (at, message) == (line, f"there is no zone {zone!r} here")
        assert cure.startswith(f"write it like {form}")


@pytest.mark.parametrize(
    ("cloud", "zone"),
    [
        (AWS, "us-east-1f"),
        (AWS, "use1-az4"),
        (GCE, "us-east1-b"),
        (AZURE, "'1'"),
        (AZURE, "eastus-az3"),
    ],
)
def test_a_valid_zone_form_is_accepted(cloud: tuple[str, str], zone: str) -> None:
    assert problems(cloud, f"  zone: {zone}\n{ENDS}{zone}") == []


def test_an_end_on_google_may_be_in_a_zone_of_another_region() -> None:
    assert problems(GCE, f"{ENDS}europe-west3-a") == []


@pytest.mark.parametrize("cloud", [AWS, GCE, AZURE])
def test_two_tenants_are_not_one_and_the_same(cloud: tuple[str, str]) -> None:
    ((line, message, cure),) = problems(cloud, "  tenants: {red: a, blue: a}")
    assert (line, message) == (7, "two tenants are one and the same")
    assert "leave tenants out" in cure
    assert problems(cloud, "  tenants: {red: a, blue: b}") == []
