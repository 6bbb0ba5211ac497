"""What Azure may answer: refusals, late failures, and groups that are not ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from osmef.errors import PolicyError, QuotaError
from osmef.providers.azure.access import Subscription, open_subscription
from osmef.providers.azure.making import Maker
from osmef.providers.azure.networks import public_ip
from osmef.providers.azure.provider import AzureProvider
from osmef.providers.marks import Mark
from tests.azure.arm import REGION, Arm, Fault
from tests.azure.cloud import serve
from tests.providers.conftest import MemoryLedger

MARK = Mark("lab-1", 1_700_000_000, 4_000_000_000)


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Arm]:
    arm = Arm()
    with serve(arm, tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield arm


@pytest.fixture
def maker() -> Maker:
    return Maker(MARK, MemoryLedger())


@pytest.fixture
def lab(arm: Arm, maker: Maker) -> Subscription:
    found = open_subscription({"uri": arm.url})
    maker.make(found, "resource-group", MARK.name("1"), {"location": REGION})
    return found


def make(maker: Maker, lab: Subscription) -> None:
    maker.make(lab, "public-ip", f"{MARK.name('1')}/a", public_ip(REGION))


def test_throttling_is_waited_for(arm: Arm, maker: Maker, lab: Subscription) -> None:
    arm.faults.append(Fault("PUT .*publicIP", 429, "TooManyRequests", times=2, after_s=0))
    make(maker, lab)
    assert sum(call.startswith("PUT") and "publicIP" in call for call in arm.calls) == 3


def test_a_missing_permission_is_named(arm: Arm, maker: Maker, lab: Subscription) -> None:
    text = "The client does not have authorization to perform action 'Microsoft.Network/x/write'"
    arm.faults.append(Fault("PUT .*publicIP", 403, "AuthorizationFailed", text))
    with pytest.raises(PolicyError) as caught:
        make(maker, lab)
    assert "Microsoft.Network/x/write" in str(caught.value.cure)


def test_a_late_failure_is_told(arm: Arm, maker: Maker, lab: Subscription) -> None:
    arm.faults.append(Fault("PUT .*publicIP", 200, "QuotaExceeded", late=True))
    with pytest.raises(QuotaError):
        make(maker, lab)


def test_only_marked_groups_are_deleted(arm: Arm, maker: Maker, lab: Subscription) -> None:
    make(maker, lab)
    ours = AzureProvider.owned({"uri": arm.url})
    assert {one.kind for one in ours} == {"resource-group", "public-ip"}
    (group,) = (one for one in arm.things.values() if one["type"].endswith("resourceGroups"))
    tags, group["tags"] = group["tags"], {}
    AzureProvider.destroy(ours, lambda _one: None)
    assert len(arm.things) == 2
    group["tags"] = tags
    gone: list[str] = []
    AzureProvider.destroy(ours, lambda one: gone.append(one.kind))
    assert sorted(gone) == ["public-ip", "resource-group"]
    assert arm.things == {}
