from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from osmef.errors import InputError
from osmef.scenario.clouds.gce import GceSettings
from osmef.scenario.load import load_text

USUAL = {"region": "here-1", "controller_cidr": "203.0.113.7/32"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"controller_cidr": None}, "controller_cidr"),
        ({"controller_cidr": "203.0.113.7/24"}, "no block"),
        ({"controller_cidr": "0.0.0.0/0"}, "is every address"),
        ({"region": ""}, "region"),
        ({"tier_1": True, "nic": "virtio"}, "needs gvnic"),
        ({"zone": "there-1-a"}, "there-1-a is not in the region here-1"),
        ({"node_group": "n"}, "in one zone"),
        ({"node_group": "n", "zone": "here-1-a", "compact": True}, "no compact"),
        ({"node_group": "n", "zone": "here-1-a", "spot": True}, "no spot"),
        ({"mtu": 9000}, "8896"),
        ({"maxDistance": 1}, "maxDistance"),
    ],
)
def test_settings_that_contradict_each_other(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        GceSettings(**{**USUAL, **settings})


def test_a_missing_key_is_described_as_that_of_its_kind() -> None:
    """On other clouds it has a default."""
    with pytest.raises(InputError) as caught:
        load_text("name: a\nprovider: {kind: gce, region: here-1}\n", Path("a.yaml"))
    (problem,) = caught.value.problems
    assert problem.message == "the key 'controller_cidr' is missing"
    assert "by default" not in problem.cure


def test_usual_settings() -> None:
    found = GceSettings(**USUAL)
    assert (found.usual_flavor, found.priced_region(None)) == ("n2-standard-4", "here-1")
    assert found.priced_region("there-2-b") == "there-2"
    assert found.on_demand
    assert not GceSettings(**USUAL, spot=True).on_demand
    assert found.lanes(parallel=1, kinds=3) == 3
