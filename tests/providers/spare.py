"""A run on spare capacity of which the cloud takes a VM back while it measures."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

from osmef.providers.base import Access, Provider, Resource
from tests.cli.conftest import Osmef

ENDINGS = ("-receiver-any1-t2", "-receiver-any2-t2", "-vm-4")
"""Of the name of the second cell's receiver, as each cloud has it."""
SCENARIO: dict[str, Any] = {
    "sweep": {"tenancy": ["same-tenant", "different-tenant"]},
    "placement": "any",
    "order": "sequential",
    "repeat": 4,
    "workload": {"kind": "btc", "duration": "1s", "interval": "250ms"},
}
"""Keys of a scenario whose second cell has a receiver that the first one has not."""


def lose_receiver(
    osmef: Osmef, process: subprocess.Popen[str], prepare: Callable[[], Callable[[], object]]
) -> None:
    """Have the second cell's receiver taken back during the first one: what needs it is left.

    ``prepare`` is called when all VMs stand, and returns what takes that one back at once.
    """
    osmef.until(process, "measuring")
    take_back = prepare()
    osmef.until(process, "[1/8]")
    take_back()
    ended = osmef.finish(process)
    trials = osmef.trials
    assert {one["index"] for one in trials} >= {1, 2, 3, 4}, ended.err
    assert len(trials) < 8, ended.err
    assert {one["status"] for one in trials} == {"ok"}, ended.err
    assert "reclaimed, as spot VMs may be" in " ".join(ended.err.split())
    assert f"{8 - len(trials)} of 8 trials could not be measured" in " ".join(ended.err.split())
    assert ended.code == 4
    assert "Traceback" not in ended.err


def last_receiver(provider: type[Provider], access: Access, kind: str) -> Resource:
    """Return the VM that is to be taken back, by the end that its name has or its number."""
    vms = [one for one in provider.owned(access) if one.kind == kind]
    (found,) = (one for one in vms if one.name.endswith(ENDINGS))
    return found
