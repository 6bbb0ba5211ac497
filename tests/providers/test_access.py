"""The way to a cloud that a journal tells: each value as the scenario's settings take it."""

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
def test_what_our_own_journals_say_is_taken(kind: str, access: Access) -> None:
    check_access(kind, access, "journal.jsonl")


@pytest.mark.parametrize(("kind", "access", "key"), BAD)
def test_all_else_is_refused_with_its_place_and_a_cure(kind: str, access: Access, key: str) -> None:
    with pytest.raises(InputError) as raised:
        check_access(kind, access, "journal.jsonl")
    assert raised.value.where == "journal.jsonl"
    assert f"the way to {kind} can't be taken: {key}: " in raised.value.message
    assert raised.value.cure


def test_each_kind_of_cloud_was_thought_of() -> None:
    assert {kind for kind, _ in GOOD} == set(provider_kinds())
    assert {kind for kind, _, _ in BAD} == set(provider_kinds()) - {"local"}


def test_a_part_is_enough_where_the_environment_tells_the_rest() -> None:
    check_access("static", {"uri": "me@lab"}, "--uri", whole=False)
    with pytest.raises(InputError):
        check_access("static", {"uri": "-e"}, "--uri", whole=False)


def test_a_kind_that_is_not_known_is_told() -> None:
    with pytest.raises(ProviderError, match="knows no provider"):
        check_access("cloud-nine", {}, "journal.jsonl")
