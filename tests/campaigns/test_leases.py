"""Who works on which session, when processes die, sleep, or come at the same time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update

from osmef.campaigns.process_identity import is_gone, process_of, this_process
from osmef.campaigns.state.database import HOLDERS
from osmef.campaigns.state.rows import (
    LEASE,
    CampaignPhase,
    ClaimTerms,
    Refusal,
    SessionRow,
    SessionState,
    is_conducted,
)
from osmef.campaigns.state.store import Store
from tests.campaigns.test_conductor import START, Stage
from tests.postgres import Postgres

NOW = START + timedelta(days=1)
HERE = this_process()
A, B = "host-a boot 1 1", "host-b boot 1 1"
"""Processes of other machines."""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.real("campaigns"))])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = ""
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("postgresql")
        url = server.new_database()
    store = Stage(tmp_path, url=url).store
    yield store
    store.close()


def claimed(store: Store, session: SessionRow, holder: str = HERE) -> SessionRow:
    found = store.claim(session, holder, NOW)
    assert isinstance(found, SessionRow)
    return found


def state_of(store: Store, session: SessionRow) -> tuple[SessionState, str | None]:
    (found,) = [one for one in store.sessions(1) if one.id == session.id]
    return found.state, found.holder


def age(store: Store) -> None:
    """Let as much time pass as a lease lasts, for the leases there are."""
    with store._engine.begin() as connection:
        for row in connection.execute(select(HOLDERS)).all():
            query = update(HOLDERS).where(HOLDERS.c.name == row.name)
            connection.execute(query.values(until=row.until - LEASE))


def test_a_cloud_is_measured_by_one_at_a_time(store: Store) -> None:
    first, second = store.sessions(1)[:2]
    mine = claimed(store, first)
    assert store.claim(second, HERE, NOW) is Refusal.BUSY
    assert isinstance(store.claim(second, HERE, NOW, ClaimTerms(exclusive=False)), SessionRow)
    assert store.resources_in_use(NOW) == dict.fromkeys(first.exclusive_resources, HERE)
    assert store.finish(mine, SessionState.DONE, NOW)
    assert store.resources_in_use(NOW) == {}
    assert store.claim(first, HERE, NOW) is Refusal.TAKEN  # it is done


def test_a_session_on_several_clouds_claims_each_exclusively(tmp_path: Path) -> None:
    vm = "{0}: {{ssh: {0}, kind: vm, location: {{tenant: t}}}}"
    office, rack = (
        f"{{kind: static, hosts: {{{vm.format(a)}, {vm.format(b)}}}}}" for a, b in ("ab", "cd")
    )
    ends = "endpoints: {sender: {site: office}, receiver: {site: rack}}\n"
    both_sites = f"name: both\nsites: {{office: {office}, rack: {rack}}}\n{ends}"
    (tmp_path / "both.yaml").write_text(both_sites)
    (tmp_path / "alone.yaml").write_text(f"name: alone\nprovider: {rack}\nplacement: any\n")
    store = Stage(tmp_path, scenarios="both.yaml, alone.yaml").store
    both, alone = (
        next(one for one in store.sessions(1) if one.scenario == name)
        for name in ("both.yaml", "alone.yaml")
    )
    assert both.exclusive_resources == ["host a", "host b", "host c", "host d"]
    mine = claimed(store, alone)
    assert store.claim(both, HERE, NOW) is Refusal.BUSY
    assert store.finish(mine, SessionState.DONE, NOW)
    claimed(store, both)
    store.close()


def test_a_session_holds_all_its_places(store: Store) -> None:
    first, second, third = (
        replace(one, cloud=cloud)
        for one, cloud in zip(store.sessions(1), ("a\nb", "b\nc", "c"), strict=False)
    )
    mine = claimed(store, first)
    assert store.claim(second, HERE, NOW) is Refusal.BUSY
    assert isinstance(store.claim(third, HERE, NOW), SessionRow)
    assert store.finish(mine, SessionState.DONE, NOW)
    assert store.claim(second, HERE, NOW) is Refusal.BUSY
    assert set(store.resources_in_use(NOW)) == {"c"}


def test_claims_of_a_dead_process_are_released(store: Store) -> None:
    first, second = store.sessions(1)[:2]
    host, boot, pid, started = HERE.split(" ")
    claimed(store, first, f"{host} {boot} {pid} {int(started) - 1}")
    assert isinstance(store.claim(second, A, NOW), SessionRow)
    assert state_of(store, first) == (SessionState.PLANNED, None)
    assert store.recover(1, NOW) == []
    age(store)
    assert [one.id for one in store.recover(1, NOW)] == [second.id]
    assert state_of(store, second) == (SessionState.PLANNED, None)


def test_a_lease_that_is_renewed_holds(store: Store) -> None:
    first, second = store.sessions(1)[:2]
    claimed(store, first, A)
    age(store)
    store.renew(1, A, NOW)
    assert store.claim(second, HERE, NOW) is Refusal.BUSY
    age(store)
    assert isinstance(store.claim(second, HERE, NOW), SessionRow)


def test_a_clock_that_is_fast_takes_nothing_over(tmp_path: Path, postgresql: Postgres) -> None:
    """Of machines that share a server: its clock counts."""
    store = Stage(tmp_path, url=postgresql.new_database()).store
    first, second = store.sessions(1)[:2]
    claimed(store, first, A)
    fast = NOW + 6 * LEASE
    assert store.recover(1, fast) == []
    assert store.claim(second, B, fast) is Refusal.BUSY
    assert set(store.resources_in_use(fast)) == set(first.exclusive_resources)
    store.close()


def test_the_id_of_this_machine_is_not_published() -> None:
    """It is confidential (machine-id(5)), and archives name the machine of a local cloud."""
    secret = Path("/etc/machine-id")
    if not secret.exists() or not secret.read_text().strip():
        pytest.skip("this machine has no id: machine-id(5)")
    assert secret.read_text().strip() not in this_process()


def test_a_clone_of_this_machine_lives_as_long_as_its_lease(store: Store) -> None:
    """Where no other machine has the database, it is this machine before it booted again."""
    first, second = store.sessions(1)[:2]
    host, _, pid, started = HERE.split(" ")
    claimed(store, first, f"{host} other-boot {pid} {started}")
    if store._engine.dialect.name == "postgresql":
        assert store.claim(second, HERE, NOW) is Refusal.BUSY
        age(store)
    assert isinstance(store.claim(second, HERE, NOW), SessionRow)


def test_a_conductor_that_lost_a_session_cannot_write_it(store: Store, tmp_path: Path) -> None:
    """Machine A sleeps for longer than its lease, and comes back while B measures."""
    session = store.sessions(1)[0]
    a = claimed(store, session, A)
    later = NOW + LEASE
    age(store)
    assert [one.id for one in store.recover(1, later)] == [session.id]
    again = store.sessions(1)[0]
    b = store.claim(again, B, later)
    assert isinstance(b, SessionRow)
    assert not store.finish(a, SessionState.DONE, later, trials_ok=1)
    assert not store.locate(a, tmp_path / "a")
    assert store.held(1, A) == {}
    assert state_of(store, session) == (SessionState.RUNNING, B)
    assert set(store.resources_in_use(later)) == set(session.exclusive_resources)
    assert store.claim(a, A, later) is Refusal.BUSY
    assert store.finish(b, SessionState.DONE, later)


def test_a_plan_that_is_out_of_date_begins_nothing(store: Store) -> None:
    """Another conductor has begun the session meanwhile, and it was planned again."""
    session = store.sessions(1)[0]
    mine = claimed(store, session)
    assert store.finish(mine, SessionState.PLANNED, NOW, ended_at=None)
    assert store.claim(session, HERE, NOW) is Refusal.TAKEN


def test_a_claimed_session_that_never_started_is_planned_again(store: Store) -> None:
    first, second = store.sessions(1)[:2]
    claimed(store, first)
    running = store.claim(second, HERE, NOW, ClaimTerms(exclusive=False))
    assert isinstance(running, SessionRow)
    assert [one.id for one in store.release_idle_claims(1, HERE, {running.id})] == [first.id]
    assert store.held(1, HERE) == {running.id: running.token}


def test_two_sessions_never_share_a_directory(store: Store, tmp_path: Path) -> None:
    first, second = (
        store.claim(one, HERE, NOW, ClaimTerms(exclusive=False)) for one in store.sessions(1)[:2]
    )
    assert isinstance(first, SessionRow)
    assert isinstance(second, SessionRow)
    assert store.locate(first, tmp_path / "one")
    assert not store.locate(second, tmp_path / "one")
    assert store.locate(second, tmp_path / "two")


def test_a_budget_counts_what_runs(store: Store) -> None:
    """Eight clouds at one moment, 0.40 each, for 1: two of them begin."""
    terms = ClaimTerms(exclusive=False, budget=1.0, expected=0.4)
    found = [store.claim(one, HERE, NOW, terms) for one in store.sessions(1)]
    begun = [one for one in found if isinstance(one, SessionRow)]
    assert (len(begun), set(found[2:])) == (2, {Refusal.BUDGET})
    assert store.finish(begun[0], SessionState.DONE, NOW, cost=0.1)
    assert store.finish(
        begun[1], SessionState.PLANNED, NOW, cost=0.3, ended_at=None
    )  # failed, and cost
    assert store.spent(1) == pytest.approx(0.4)


def test_a_phase_stays_while_another_machine_conducts(store: Store) -> None:
    store.renew(1, A, NOW)
    store.renew(1, B, NOW)
    store.set_phase(1, CampaignPhase.ACTIVE, B)
    store.leave(1, A, NOW)
    row = store.campaign("test")
    assert (row.phase, row.holder) == (CampaignPhase.ACTIVE, B)
    store.set_phase(1, CampaignPhase.ACTIVE, A)
    store.renew(1, A, NOW)
    store.leave(1, A, NOW)
    assert store.campaign("test").holder == B  # who came first and is still there
    store.leave(1, B, NOW)
    row = store.campaign("test")
    assert (row.phase, row.holder) == (CampaignPhase.ACTIVE, None)
    store.leave(1, B, NOW, ended=True)
    assert store.campaign("test").phase is CampaignPhase.ENDED


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_dead_process_is_recognized_by_its_identity() -> None:
    host, boot, pid, started = HERE.split(" ")
    assert is_gone(HERE) is False
    assert process_of(HERE) == int(pid)
    assert is_gone(f"{host} {boot} {pid} {int(started) - 1}") is True  # the id was given again
    assert is_gone(f"{host} other-boot {pid} {started}") is True
    assert is_gone(f"{host} other-boot {pid} {started}", is_shared=True) is None  # or a clone
    name, machine, namespace = host.split("/")
    for other in (
        f"{name}x/{machine}/{namespace}",
        f"{name}/other/{namespace}",  # of the same name, as `localhost` and clones are
        f"{name}/{machine}/1",  # another container: its process ids are not ours
    ):
        assert is_gone(f"{other} {boot} {pid} {started}") is None
        assert process_of(f"{other} {boot} {pid} {started}") is None


def test_a_conductor_on_another_machine_must_renew_its_lease(store: Store) -> None:
    store.set_phase(1, CampaignPhase.ACTIVE, A)
    store.renew(1, A, NOW)
    row = store.campaign("test")
    assert row.held_until is not None
    assert is_conducted(row, row.held_until - timedelta(seconds=1))
    assert not is_conducted(row, row.held_until)
    store.set_phase(1, CampaignPhase.ACTIVE, HERE)
    assert is_conducted(store.campaign("test"), row.held_until)  # that is known
    store.set_phase(1, CampaignPhase.ACTIVE, B)
    assert not is_conducted(store.campaign("test"), NOW), "the lease is another holder's"
    store.set_phase(1, CampaignPhase.ACTIVE)
    assert not is_conducted(store.campaign("test"), NOW)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_zombie_process_counts_as_dead() -> None:
    host, boot, *_ = HERE.split(" ")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        stat = Path(f"/proc/{process.pid}/stat").read_text()
        started = stat.rpartition(")")[2].split()[19]
        holder = f"{host} {boot} {process.pid} {started}"
        assert is_gone(holder) is False
        process.kill()
        while "Z" not in Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2]:
            pass
        assert is_gone(holder) is True
