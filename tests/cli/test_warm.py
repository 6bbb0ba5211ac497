"""Where commands begin that a server of the tests runs."""

from __future__ import annotations

import pytest

from tests.cli.warm import HERE, entered


@pytest.mark.parametrize(
    ("prefix", "namespaces"),
    [
        ((), 0),
        (("nsenter", "--target=1", "--net", "--mount", "--"), 2),
        (("nsenter", "--net=/proc/1/ns/net", "--", "env", "-u", "HOME", "A=b"), 1),
    ],
)
def test_a_namespace_prefix_is_entered(prefix: tuple[str, ...], namespaces: int) -> None:
    found = entered(prefix)
    assert found is not None
    assert len(found.namespaces) == namespaces
    assert (found == HERE) == (not prefix)


@pytest.mark.parametrize(
    "prefix",
    [
        ("setpriv", "--reuid=1000"),
        ("nsenter", "--net=/proc/1/ns/net", "--", "unshare", "--mount", "--pid", "--fork", "sh"),
        ("nsenter", "--net=/proc/1/ns/net", "--", "env", "PYTHONPATH=/here"),
    ],
)
def test_other_command_prefixes_are_run_as_programs(prefix: tuple[str, ...]) -> None:
    assert entered(prefix) is None
