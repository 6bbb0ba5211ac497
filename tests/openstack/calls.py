"""The calls that clients made to the cloud's APIs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.openstack.cloud import Cloud


@dataclass(frozen=True)
class Call:
    """One call. Status 0: the service broke off; lost: the client saw no answer."""

    service: str
    method: str
    path: str
    status: int
    seconds: float
    lost: bool


@contextmanager
def recorded(cloud: Cloud) -> Iterator[list[Call]]:
    """Hand out a list that has all calls of the block when the block has ended."""
    path = cloud.state / "log/calls.jsonl"
    calls: list[Call] = []
    with path.open() as file:
        file.seek(0, 2)
        yield calls
        calls += [Call(**json.loads(line)) for line in file]
