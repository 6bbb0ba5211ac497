"""Making things: noted before and after, and never twice."""

from __future__ import annotations

import pytest

from osmef.errors import ApiError, PolicyError, ProviderError
from osmef.providers.cloud.resource_types import Maker
from osmef.providers.marks import Mark
from tests.providers.cloud.fake import Api, Provider, Refused, Shop, maker_for
from tests.providers.conftest import MemoryLedger


@pytest.fixture
def account() -> Shop:
    return Shop(Api())


@pytest.fixture
def maker(ledger: MemoryLedger) -> Maker[Shop, Mark]:
    return maker_for(ledger)


def events(ledger: MemoryLedger) -> list[str]:
    return [event for event, _one in ledger.events]


@pytest.mark.parametrize(
    ("codes", "calls"), [([], 1), (["slow down"], 2), (["busy", "busy"], 3), (["lost"], 1)]
)
def test_a_transient_error_is_retried_and_the_resource_created_once(
    account: Shop, maker: Maker[Shop, Mark], ledger: MemoryLedger, codes: list[str], calls: int
) -> None:
    account.api.faults["create vm"] = list(codes)
    made = maker.make(account, "vm", "one")
    assert list(account.api.things) == [made]
    assert account.api.calls.count("create vm") == calls
    assert events(ledger) == ["intend", "created"]
    assert [one.id for _event, one in ledger.events] == [None, made]


def test_a_created_resource_listed_late_is_not_created_again(
    account: Shop, maker: Maker[Shop, Mark]
) -> None:
    """After the lost answer no list shows it; the cloud refuses another one of its name."""
    account.api.faults = {"create vm": ["lost", "exists", "exists"]}
    account.api.hidden.add("vm-1")
    asked: list[float] = []

    def check() -> None:
        asked.append(0.0)
        if account.api.calls.count("create vm") == 3:
            account.api.hidden.clear()

    account.check = check
    assert maker.make(account, "vm", "one") == "vm-1"
    assert list(account.api.things) == ["vm-1"]


def test_a_refused_creation_is_recorded_as_destroyed(
    account: Shop, maker: Maker[Shop, Mark], ledger: MemoryLedger
) -> None:
    account.api.faults["create vm"] = ["slow down", "denied"]
    with pytest.raises(PolicyError, match="making the vm one"):
        maker.make(account, "vm", "one")
    assert events(ledger) == ["intend", "destroyed"]
    assert maker.made == []


@pytest.mark.parametrize("codes", [["lost", "denied"], ["busy", "denied"]])
def test_a_refusal_after_a_lost_answer_does_not_prove_that_nothing_was_created(
    account: Shop, maker: Maker[Shop, Mark], ledger: MemoryLedger, codes: list[str]
) -> None:
    account.api.faults["create vm"] = list(codes)
    account.api.hidden.add("vm-1")
    with pytest.raises(PolicyError):
        maker.make(account, "vm", "one")
    assert events(ledger) == ["intend"]
    account.api.hidden.clear()
    Provider.tear_down(maker.made, maker.note_destroyed)
    assert account.api.things == {}


def test_an_accepted_creation_of_unknown_outcome_stays_in_the_journal(
    account: Shop, maker: Maker[Shop, Mark], ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request was throttled, the next one taken, and then nobody tells how it ends."""
    codes = ["slow down", ""]

    def create(kind: str, name: str, tags: object) -> str:
        if code := codes.pop(0):
            raise Refused(code)
        raise ApiError(f"the operation for {kind} {name} does not end")

    monkeypatch.setattr(account.api, "create", create)
    with pytest.raises(ApiError):
        maker.make(account, "vm", "one")
    assert events(ledger) == ["intend"]


def test_a_retry_after_beyond_our_limit_is_not_waited_for(account: Shop) -> None:
    def call() -> None:
        raise Refused("slow down", "3600")

    with pytest.raises(ApiError):
        account.do("asking", call)


def test_an_unknown_error_code_has_a_cure_and_is_not_retried(account: Shop) -> None:
    account.api.faults["get"] = ["odd"] * 2
    with pytest.raises(ProviderError, match="asking: the API says odd") as caught:
        account.do("asking", lambda: account.api.get("x"))
    assert caught.value.cure == "look at the manual"
    assert account.api.calls == ["get"]
