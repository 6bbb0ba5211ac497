"""What every cloud's provider does alike, above all when something goes wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from osmef.errors import CapacityError, Interrupted, PolicyError, ProviderError
from osmef.providers.base import Endpoint, Provider, Resource, RunContext
from osmef.remote.login import KeyPair
from osmef.scenario.location import Gone
from tests.providers.conformance.bed import Bed, Journal, Killed, Wrong

RUN = "lab-20260101T000000Z-abcd"
OTHER = "lab-20260101T000000Z-ef01"


@dataclass
class Made:
    """A provider at work."""

    bed: Bed
    provider: Provider
    context: RunContext
    journal: Journal
    endpoints: list[Endpoint] = field(default_factory=list)

    def create(self) -> None:
        """Make the endpoints."""
        self.endpoints = self.bed.here(lambda: self.provider.create(self.context))


MORE = pytest.mark.real("clouds")


@contextmanager
def made(bed: Bed, *names: str, journal: Journal | None = None, run: str = RUN) -> Iterator[Made]:
    """Hand out a provider that has made nothing yet, and see that it leaves nothing.

    Where a name ends in 2, it is of two tenants.
    """
    notes = Journal() if journal is None else journal
    requests = [bed.request(name) for name in names]
    key, deadline = KeyPair.generate("lab"), float(int(time.time()) + 3600)
    provider = bed.tenants() if any(name.endswith("2") for name in names) else bed.provider()
    one = Made(bed, provider, RunContext(run, requests, key, notes, deadline), notes)
    try:
        yield one
    finally:
        one.provider.close()
    assert [one for one in bed.owned() if one.run == run] == []
    assert notes.existing == []


def names_of(some: Sequence[Resource]) -> list[str]:
    return sorted(f"{one.kind} {one.name}" for one in some)


def test_resources_are_recorded_before_and_after_creation_and_deleted(bed: Bed) -> None:
    with made(bed, "a", "b") as lab:
        lab.create()
        assert [one.name for one in lab.endpoints] == ["a", "b"]
        assert len({one.resource_id for one in lab.endpoints}) == 2
        assert all(one.public_address and one.data_address for one in lab.endpoints)
        existing = lab.journal.existing
        assert all(one.id for one in existing)
        assert {*names_of(existing)} <= {*names_of(bed.owned())}
        assert {one.run for one in bed.owned()} == {RUN}
        for number, (event, one) in enumerate(lab.journal.events):
            before = [(what, other.name) for what, other in lab.journal.events[:number]]
            assert event == "intend" or ("intend", one.name) in before
    lab.provider.close()  # again is no error


def test_the_location_of_vms_is_reported_and_a_reclaimed_vm_as_lost(bed: Bed) -> None:
    with made(bed, "a", "b") as lab:
        lab.create()
        first, second = lab.provider.describe(lab.endpoints)
        assert not isinstance(first, Gone)
        assert first.tenant == second.tenant is not None
        taken = next(one for one in bed.vms() if one.id == vm_id(lab, 0))
        type(lab.provider).destroy([taken], lambda _resource: None)
        gone, there = lab.provider.describe(lab.endpoints)
        assert isinstance(gone, Gone)
        assert not isinstance(there, Gone)


def vm_id(lab: Made, number: int) -> str:
    return lab.endpoints[number].resource_id


def test_a_replacement_stands_and_the_old_one_is_gone(bed: Bed) -> None:
    with made(bed, "a", "b") as lab:
        lab.create()
        old = lab.endpoints[0]
        new = bed.here(lambda: lab.provider.replace(old, lab.context))
        ids = {one.id for one in bed.vms()}
        assert ids == {new.resource_id, vm_id(lab, 1)}
        assert new.request == old.request
        events = [(what, one.id) for what, one in lab.journal.events if one.kind == bed.vm]
        gone = [number for number, (what, _) in enumerate(events) if what == "destroyed"]
        assert [events[number][1] for number in gone] == [old.resource_id]
        assert events.index(("created", new.resource_id)) < gone[0]


@pytest.mark.parametrize(
    ("what", "error"), [(Wrong.DENIED, PolicyError), (Wrong.FULL, CapacityError)]
)
def test_a_replacement_that_fails_leaves_the_old_one(
    bed: Bed, what: Wrong, error: type[ProviderError]
) -> None:
    with made(bed, "a") as lab:
        lab.create()
        (old,) = lab.endpoints
        with bed.wrong(what), pytest.raises(error):
            bed.here(lambda: lab.provider.replace(old, lab.context))
        (place,) = lab.provider.describe([old])
        assert not isinstance(place, Gone)
        new = bed.here(lambda: lab.provider.replace(old, lab.context))
        assert new.resource_id != old.resource_id
        assert old.resource_id not in {one.id for one in bed.vms()}


def admitted(bed: Bed, number: int) -> set[str]:
    """Return the addresses that may send data to a tenant."""
    (found,) = (
        some for name, some in bed.allow_ingress().items() if name.endswith(f"net-{number}")
    )
    return found


def test_each_tenant_admits_the_vms_of_others_and_its_peers_alone(bed: Bed) -> None:
    with made(bed, "a", "b2") as lab:
        lab.create()
        one, two = (str(endpoint.public_address) for endpoint in lab.endpoints)
        assert one != two
        assert lab.endpoints[0].request.tenant != lab.endpoints[1].request.tenant
        assert (admitted(bed, 1), admitted(bed, 2)) == ({two}, {one})
        bed.here(lambda: lab.provider.admit(lab.endpoints[:1], ["198.51.100.9"]))
        assert (admitted(bed, 1), admitted(bed, 2)) == ({two, "198.51.100.9"}, {one})
        new = bed.here(lambda: lab.provider.replace(lab.endpoints[1], lab.context))
        assert admitted(bed, 1) == {str(new.public_address), "198.51.100.9"}
        assert admitted(bed, 2) == {one}
        bed.here(lambda: lab.provider.admit(lab.endpoints[:1], []))
        assert admitted(bed, 1) == {str(new.public_address)}


@pytest.mark.parametrize("what", [Wrong.THROTTLED, pytest.param(Wrong.LOST, marks=MORE)])
def test_transient_errors_are_retried_and_nothing_is_created_twice(bed: Bed, what: Wrong) -> None:
    with made(bed, "a", "b") as lab:
        with bed.wrong(what):
            lab.create()
        assert len(bed.vms()) == 2
        assert lab.journal.noted("intend", bed.vm) == lab.journal.noted("created", bed.vm) == 2


@pytest.mark.parametrize(
    ("what", "error"), [(Wrong.DENIED, PolicyError), (Wrong.FULL, CapacityError)]
)
def test_a_permanent_creation_error_is_reported_with_a_cure_and_leaves_nothing(
    bed: Bed, what: Wrong, error: type[ProviderError]
) -> None:
    with made(bed, "a") as lab:
        with bed.wrong(what), pytest.raises(error) as caught:
            lab.create()
        assert caught.value.cure
        # Nova takes a server before it looks for room.
        late = what is Wrong.FULL and bed.vm == "server"
        assert lab.journal.noted("created", bed.vm) == int(late)
        left = [one for one in lab.journal.existing if one.kind == bed.vm]
        # Azure may keep a VM that it refuses: it counts as there until it is looked for.
        assert len(left) == int(late or bed.vm == "vm")


@pytest.mark.parametrize(
    "what",
    [Wrong.IN_USE, *(pytest.param(one, marks=MORE) for one in (Wrong.BUSY, Wrong.UNTOLD))],
)
def test_transient_errors_during_deletion_leave_no_resources(bed: Bed, what: Wrong) -> None:
    with made(bed, "a") as lab:
        lab.create()
        with bed.wrong(what):
            lab.provider.close()
        assert lab.journal.existing == []
        assert bed.vms() == []


def test_an_undeletable_resource_stays_in_the_journal_and_the_rest_is_deleted(bed: Bed) -> None:
    with made(bed, "a") as lab:
        lab.create()
        with bed.wrong(Wrong.KEPT), pytest.raises(PolicyError) as caught:
            lab.provider.close()
        assert caught.value.cure
        left = lab.journal.existing
        assert left
        assert {*names_of(left)} <= {*names_of(bed.owned())}


@pytest.mark.parametrize(
    ("first", "before"),
    [(False, False), *(pytest.param(*one, marks=MORE) for one in ((False, True), (True, False)))],
)
def test_killed_between_intent_and_answer_leaves_what_its_journal_finds(
    bed: Bed, first: bool, before: bool
) -> None:
    """The run knows no id of a VM, or of what is made first: it is found by its mark."""
    journal = Journal(dies_of="" if first else bed.vm, before=before)
    with made(bed, "a", journal=journal) as lab:
        with pytest.raises(Killed):
            lab.create()
        assert len(bed.vms()) == (0 if first or before else 1)
        unknown = {one.kind for one in journal.existing if one.id is None}
        assert unknown
        assert first or unknown == {bed.vm}
        known, gone = journal.existing, list[Resource]()

        def note(one: Resource) -> None:
            gone.append(one)
            journal.destroyed(one)

        type(lab.provider).destroy(known, note)
        assert names_of(gone) == names_of(known)
        assert bed.owned() == []


def test_marked_resources_are_found_and_deleted_without_a_journal(bed: Bed) -> None:
    _, others_is_there = bed.foreign()
    with made(bed, "a") as lab:
        lab.create()
        found = bed.owned()
        assert all(type(lab.provider).recognises(one) for one in found)
        assert {(one.run, one.deadline) for one in found} == {(RUN, lab.context.deadline)}
        gone: list[Resource] = []
        type(lab.provider).destroy(found, gone.append)
        assert names_of(gone) == names_of(found)
        assert bed.owned() == []
        assert others_is_there()


def test_an_unmarked_resource_is_kept_and_recorded_as_destroyed(bed: Bed) -> None:
    foreign, is_there = bed.foreign()
    assert bed.owned() == []
    gone: list[Resource] = []
    type(bed.provider()).destroy([foreign], gone.append)
    assert gone == [foreign]
    assert is_there()


def test_a_resource_of_another_run_is_kept_and_recorded_as_destroyed(bed: Bed) -> None:
    """A journal names what another run has made since: the mark counts."""
    with made(bed, "a", run=OTHER) as other:
        other.create()
        before = bed.owned()
        claimed = [replace(one, run=RUN) for one in other.journal.existing]
        gone: list[Resource] = []
        type(other.provider).destroy(claimed, gone.append)
        assert names_of(gone) == names_of(claimed)
        assert names_of(bed.owned()) == names_of(before)


def test_the_end_of_a_run_leaves_another_one_as_it_is(bed: Bed) -> None:
    with made(bed, "a", run=OTHER) as other:
        other.create()
        with made(bed, "a") as lab:
            lab.create()
            ours = [one for one in bed.owned() if one.run == RUN]
            type(lab.provider).destroy(ours, lab.journal.destroyed)
        (vm,) = bed.vms()
        assert vm.id == other.endpoints[0].resource_id
        assert not isinstance(other.provider.describe(other.endpoints)[0], Gone)


def test_a_stop_request_ends_creation_and_everything_is_deleted(bed: Bed) -> None:
    with made(bed, "a") as lab:

        def check() -> None:
            if lab.journal.noted("intend", bed.vm):
                raise Interrupted("stopped")

        lab.context = replace(lab.context, check=check)
        with bed.wrong(Wrong.LOST), pytest.raises(Interrupted):  # it waits to look again
            lab.create()
