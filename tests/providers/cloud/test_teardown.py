"""Teardown: in order, again after a while, what is stuck, and nothing that is not ours."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from osmef.errors import Interrupted, PolicyError, ProviderError
from osmef.providers.base import Resource
from osmef.providers.cloud import teardown
from osmef.providers.cloud.resource_types import Found
from osmef.providers.marks import Mark
from tests.providers.cloud.fake import TYPES, Api, Provider, Shop, Thing, Type, maker_for
from tests.providers.conftest import MemoryLedger

MARK = Mark("a-run", 1, 2)


@dataclass
class Lab:
    """An account with things of a run."""

    api: Api = field(default_factory=Api)
    ledger: MemoryLedger = field(default_factory=MemoryLedger)

    def __post_init__(self) -> None:
        self.account = Shop(self.api)
        self.maker = maker_for(self.ledger)

    def make(self, *kinds: str) -> list[str]:
        """Make things of these types, each by the name of its number."""
        return [self.maker.make(self.account, kind, f"{kind}-{n}") for n, kind in enumerate(kinds)]

    def close(self) -> None:
        """Destroy all that was made."""
        Provider.tear_down(list(self.maker.made), self.maker.note_destroyed)

    @property
    def left(self) -> list[str]:
        """The types of what was made and is not known to be gone."""
        return [one.kind for one, _account in self.maker.made]

    def deletions(self) -> list[str]:
        return [one.removeprefix("delete ") for one in self.api.calls if "delete" in one]


@pytest.fixture
def lab() -> Lab:
    return Lab()


def test_stages_go_one_after_the_other(lab: Lab) -> None:
    lab.make("net", "project", "vm", "rule", "vm")
    lab.close()
    assert lab.deletions() == ["vm", "vm", "rule", "net", "project"]
    assert (lab.api.things, lab.left) == ({}, [])
    lab.close()


@pytest.mark.parametrize("codes", [["in use"] * 3, ["busy"], ["slow down"], ["lost"], ["gone"]])
def test_a_resource_in_use_or_failing_temporarily_is_deleted_later(
    lab: Lab, codes: list[str]
) -> None:
    lab.make("net", "rule")
    lab.api.faults["delete net"] = list(codes)
    lab.close()
    assert lab.left == []


def test_a_resource_that_remains_is_reported_and_what_it_uses_is_not_waited_for(lab: Lab) -> None:
    lab.make("project", "net", "rule", "vm")
    lab.api.faults = {"delete rule": ["odd"], "delete net": ["in use"] * 2}
    with pytest.raises(ProviderError, match="the API says odd") as caught:
        lab.close()
    assert caught.value.cure == "look at it in the shop, then: osmef reap --provider shop"
    assert lab.deletions() == ["vm", "rule", "net"]  # and the project not at all
    assert lab.left == ["project", "net", "rule"]
    lab.close()
    assert lab.left == []


def test_a_denied_deletion_is_reported_as_such(lab: Lab) -> None:
    lab.make("net")
    lab.api.faults["delete net"] = ["denied"]
    with pytest.raises(PolicyError) as caught:
        lab.close()
    assert caught.value.cure == "ask for the right"


def test_a_resource_not_yet_listed_is_deleted_by_its_id(lab: Lab) -> None:
    (net,) = lab.make("net")
    lab.api.hidden.add(net)
    lab.close()
    assert lab.api.things == {}


def test_a_resource_of_an_unanswered_request_is_looked_for_twice(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes about while the teardown waits."""
    intended = MARK.resource("shop", "vm", "late", lab.account.access)
    gone: list[Resource] = []

    def wait(_seconds: float) -> None:
        lab.api.things.setdefault("vm-9", Thing("vm", "late", MARK.tags))

    monkeypatch.setattr(lab.account, "wait", wait)
    Provider.tear_down([(intended, lab.account)], gone.append)
    assert (gone, lab.api.things) == ([intended], {})


def test_two_resources_of_one_name_are_both_deleted(lab: Lab) -> None:
    (net,) = lab.make("net")
    lab.api.things["net-twin"] = replace(lab.api.things[net])
    lab.close()
    assert (lab.left, lab.api.things) == ([], {})


def test_a_name_is_recorded_as_deleted_only_if_all_its_resources_are(lab: Lab) -> None:
    (net,) = lab.make("net")
    lab.api.things["net-twin"] = replace(lab.api.things[net])
    lab.api.faults["delete net"] = ["denied"]
    with pytest.raises(PolicyError):
        lab.close()
    assert lab.left == ["net"]


@pytest.mark.parametrize("tags", [{}, Mark("another-run", 1, 2).tags])
def test_resources_with_another_mark_or_none_are_not_deleted(
    lab: Lab, tags: dict[str, str]
) -> None:
    (net,) = lab.make("net")
    lab.api.things[net] = Thing("net", "net-0", tags)
    lab.close()
    assert lab.deletions() == []
    assert lab.left == []


def test_a_deletion_that_the_cloud_ignored_is_repeated(lab: Lab) -> None:
    vm, _ = lab.make("vm", "vm")
    lab.api.dropped.add(vm)
    lab.close()
    assert lab.deletions() == ["vm"] * 3
    assert lab.left == []


def test_slow_deletions_are_some_at_a_time() -> None:
    lab = Lab()
    lab.account.waits = replace(lab.account.waits, at_once=2, delete_retry_s=60.0)
    lab.make(*["vm"] * 5)
    lab.close()
    firsts = [n for n, call in enumerate(lab.api.calls) if call == "delete vm"]
    lists = [n for n, call in enumerate(lab.api.calls) if call == "list vm"]
    assert len(firsts) == 5
    assert sum(n < lists[1] for n in firsts) == 2
    assert lab.left == []


@pytest.mark.parametrize("name", ["stuck", "vm"])
def test_a_resource_that_is_never_deleted_is_reported(lab: Lab, name: str) -> None:
    """The cloud says so, or nothing happens for long."""
    lab.maker.make(lab.account, "vm", name)
    lab.maker.make(lab.account, "net", "net")
    vm, _net = lab.api.things
    if name == "vm":
        lab.api.dropped.add(vm)
        lab.account.waits = replace(lab.account.waits, delete_retry_s=60.0)
    with pytest.raises(ProviderError, match=r"is stuck|does not go away") as caught:
        lab.close()
    assert "osmef reap --provider shop" in str(caught.value.cure)
    assert list(lab.api.things) == [vm]
    assert lab.left == ["vm"]


def test_a_failed_listing_does_not_block_other_deletions(lab: Lab) -> None:
    lab.make("net", "rule")
    lab.api.faults["list rule"] = ["denied"]
    with pytest.raises(PolicyError):
        lab.close()
    assert lab.left == ["rule"]


def test_a_request_to_stop_ends_the_waits(lab: Lab) -> None:
    lab.make("net")
    lab.api.faults["delete net"] = ["in use"] * 9

    def stop() -> None:
        raise Interrupted("stopped")

    lab.account.check = stop
    with pytest.raises(Interrupted):
        lab.close()
    assert lab.left == ["net"]


@dataclass(frozen=True)
class Box(Type):
    """What is deleted with all that is in it, by their names."""

    def holds(self, holder: Resource, other: Resource) -> bool:
        """Return whether another is in it."""
        return other.name.startswith(f"{holder.name}/")

    def inside(self, found: Found[Shop]) -> list[Found[Shop]]:
        """List what is in it."""
        there = [one for type_ in BOXED.values() for one in type_.owned(found.account, None)]
        return [one for one in there if self.holds(found.resource, one.resource)]

    def delete(self, found: Found[Shop]) -> None:
        """Delete it with all in it."""
        super().delete(found)
        for one in self.inside(found):
            del found.account.api.things[one.id]


BOXED = {**TYPES, "box": Box("box", 4, is_last=True, holds_others=True)}


@pytest.fixture
def boxes(lab: Lab) -> Lab:
    """Two boxes with a VM and a rule in each, and a rule in none."""
    lab.maker.types = BOXED
    for box in ("one", "two"):
        lab.maker.make(lab.account, "box", box)
        lab.maker.make(lab.account, "vm", f"{box}/vm")
        lab.maker.make(lab.account, "rule", f"{box}/rule")
    lab.maker.make(lab.account, "rule", "free")
    return lab


def clear(lab: Lab) -> tuple[list[str], list[str]]:
    """Destroy all that was made, and return the deletions, and what is gone."""
    gone: list[str] = []
    lab.api.calls.clear()
    try:
        teardown.destroy(BOXED, lab.maker.made, lambda one: gone.append(one.name), at_once=1)
    finally:
        deleted = [call for call in lab.api.calls if call.startswith("delete ")]
    return deleted, gone


ALL = ["free", "one", "one/rule", "one/vm", "two", "two/rule", "two/vm"]


def test_a_container_resource_is_deleted_with_its_contents_in_one_call(boxes: Lab) -> None:
    deleted, gone = clear(boxes)
    assert deleted == ["delete box", "delete box", "delete rule"]
    assert sorted(gone) == ALL
    assert boxes.api.things == {}


def test_contents_of_an_undeletable_container_are_deleted_first_even_if_unknown(boxes: Lab) -> None:
    boxes.api.create("vm", "one/late", MARK.tags)
    boxes.api.faults["delete box"] = ["in use"]
    deleted, gone = clear(boxes)
    assert deleted[:2] == ["delete box", "delete box"]
    assert sorted(deleted[2:-1]) == ["delete rule", "delete rule", "delete vm", "delete vm"]
    assert deleted[-1] == "delete box"
    assert sorted(gone) == ALL
    assert boxes.api.things == {}


@pytest.mark.parametrize("codes", [[], ["in use"]])
def test_an_unreadable_container_does_not_block_deleting_others(
    boxes: Lab, codes: list[str]
) -> None:
    """Also one that does not go at once, and in which something is in use for a while."""
    boxes.api.faults = {"list box": ["denied"], "delete box": codes, "delete rule": codes * 2}
    gone: list[str] = []
    with pytest.raises(PolicyError):
        teardown.destroy(BOXED, boxes.maker.made, lambda one: gone.append(one.name), at_once=1)
    assert sorted(gone) == ["free", "two", "two/rule", "two/vm"]
    assert {one.name for one in boxes.api.things.values()} == {"one", "one/rule", "one/vm"}


def test_a_container_that_is_never_deleted_is_reported_and_its_contents_are_deleted(
    boxes: Lab,
) -> None:
    boxes.api.faults["delete box"] = ["denied", "", "denied"]
    with pytest.raises(PolicyError):
        clear(boxes)
    assert {one.name for one in boxes.api.things.values()} == {"one"}
