"""Faults made for real: what a host, a guest or the way to an API does wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tests.openstack.cloud import Cloud


@contextmanager
def hosts_fail(cloud: Cloud, pattern: str = "") -> Iterator[None]:
    """Have servers fail on the host: nova tries others, then gives the server the state ERROR.

    The pattern is searched in "HOST FLAVOR NAME" of the server.
    """
    with _written(cloud.state / "faults/spawn", pattern):
        yield


@contextmanager
def guests_hang(cloud: Cloud, pattern: str = "") -> Iterator[None]:
    """Have guests panic while they boot: they are ACTIVE and never answer. Pattern as above."""
    with _written(cloud.state / "faults/boot", pattern):
        yield


@contextmanager
def calls_fail(
    cloud: Cloud, service: str, request: str, how: int | Literal["lose"], times: int = 1
) -> Iterator[None]:
    """Have the next calls of a service go wrong before they get there, or their answers get lost.

    The request is a pattern for "METHOD /path?query". How is the status to answer with, or "lose":
    the service does what it is asked to, and the connection breaks before it answers.
    """
    with all_calls_fail(cloud, [(service, request)], how, times):
        yield


@contextmanager
def all_calls_fail(
    cloud: Cloud,
    requests: Iterable[tuple[str, str]],
    how: int | Literal["lose"],
    times: int = 1,
) -> Iterator[None]:
    """Have calls of several services go wrong: each kind of request as often as calls_fail says."""
    rules = [
        {"service": service, "request": request, "how": how, "times": times}
        for service, request in requests
    ]
    with _written(cloud.state / "faults/front", json.dumps(rules)):
        yield


@contextmanager
def _written(path: Path, text: str) -> Iterator[None]:
    """Have the file there, whole at any moment."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)
    try:
        yield
    finally:
        path.unlink()
