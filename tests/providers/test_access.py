"""The access to a cloud in a journal: each value as the scenario's settings take it."""

from __future__ import annotations

import pytest

from osmef.engine.reap import check_access
from osmef.errors import InputError, ProviderError
from osmef.providers import provider_kinds
from osmef.providers.base import Access

STATIC = {"host": "one", "ssh": "me@10.0.0.7:2222"}
GOOD: list[tuple[str, Access]] = [
    ("local", {}),
    ("aws", {"cloud": "profile", "region": "us-east-1", "uri": "http://127.0.0.1:5000"}),
    ("azure", {"cloud": "0000-1", "uri": "https://management.azure.com"}),
    ("gce", {"cloud": "project-1", "uri": "https://compute.googleapis.com"}),
    ("libvirt", {"uri": "qemu+ssh://me@lab/system?keyfile=/home/me/key"}),
    (
        "openstack",
        {
            "cloud": "lab",
            "region": "r",
            "auth_url": "http://keystone:5000/v3",
            "home": "p",
            "project": "q",
        },
    ),
    ("static", STATIC),
    ("static", {**STATIC, "identity": "~/.ssh/lab", "jump": "a,b", "known_hosts": "/k"}),
    ("gce", {"cloud": "project-1", "what a newer version says": "more"}),
]
BAD: list[tuple[str, Access, str]] = [
    ("aws", {"uri": "https://example.org"}, "uri"),
    ("aws", {"cloud": "x" * 300}, "cloud"),
    ("aws", {"region": ""}, "region"),
    ("azure", {"cloud": "0000-1", "uri": "http://management.azure.com"}, "uri"),
    ("gce", {"uri": "http://10.0.0.1"}, "uri"),
    ("libvirt", {"uri": "test:///tmp/x.xml"}, "uri"),
    ("libvirt", {"uri": ""}, "uri"),
    ("libvirt", {}, "uri"),
    ("openstack", {"cloud": ""}, "cloud"),
    ("static", {**STATIC, "ssh": "-e"}, "ssh"),
    ("static", {**STATIC, "ssh": "a b"}, "ssh"),
    ("static", {**STATIC, "jump": "a,-oProxyCommand"}, "jump"),
    ("static", {**STATIC, "identity": "key"}, "identity"),
    ("static", {**STATIC, "known_hosts": "hosts"}, "known_hosts"),
    ("static", {"host": "one"}, "ssh"),
    ("static", {**STATIC, "uri": "-e"}, "uri"),
]


@pytest.mark.parametrize(("kind", "access"), GOOD)
def test_access_values_of_our_own_journals_are_accepted(kind: str, access: Access) -> None:
    check_access(kind, access, "journal.jsonl")


@pytest.mark.parametrize(("kind", "access", "key"), BAD)
def test_other_access_values_are_rejected_with_position_and_cure(
    kind: str, access: Access, key: str
) -> None:
    with pytest.raises(InputError) as raised:
        check_access(kind, access, "journal.jsonl")
    assert raised.value.where == "journal.jsonl"
    assert f"the access to {kind} is invalid: {key}: " in raised.value.message
    assert raised.value.cure


def test_access_checks_are_tested_for_every_provider_kind() -> None:
    assert {kind for kind, _ in GOOD} == set(provider_kinds())
    assert {kind for kind, _, _ in BAD} == set(provider_kinds()) - {"local"}


def test_a_partial_uri_is_accepted_when_the_environment_provides_the_rest() -> None:
    check_access("static", {"uri": "me@lab"}, "--uri", whole=False)
    with pytest.raises(InputError):
        check_access("static", {"uri": "-e"}, "--uri", whole=False)


def test_an_unknown_provider_kind_is_reported() -> None:
    with pytest.raises(ProviderError, match="knows no provider"):
        check_access("cloud-nine", {}, "journal.jsonl")
