"""What a conductor knows of the sessions that run."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from osmef.campaigns.conductor.dispatch import RunningSessions
from osmef.campaigns.executors.session import SessionResult
from osmef.campaigns.state.rows import SessionRow, SessionState

NOW = datetime(2026, 3, 16, tzinfo=UTC)


def session(number: int, cloud: str) -> SessionRow:
    return SessionRow(
        id=number,
        slot="monday",
        window="peak",
        opens=NOW,
        closes=NOW,
        due=NOW,
        place=0,
        scenario=f"pair-{number % 3}.yaml",
        provider="north",
        instance_class="",
        cloud=cloud,
        state=SessionState.RUNNING,
        attempts=1,
        directory=None,
        holder=None,
        started_at=None,
        ended_at=None,
        trials_ok=0,
        trials_failed=0,
        cost=None,
        currency=None,
        why=None,
    )


CLOUDS = st.lists(st.sampled_from(["north", "south", "north\nsouth"]), max_size=8)


@given(CLOUDS, st.data())
def test_the_bookkeeping_of_running_sessions_equals_a_full_scan(
    clouds: list[str], data: st.DataObject
) -> None:
    running = RunningSessions()
    left: dict[Future[SessionResult], SessionRow] = {}
    for number, cloud in enumerate(clouds):
        future: Future[SessionResult] = Future()
        left[future] = session(number, cloud)
        running.add(future, left[future])
    order = data.draw(st.permutations(list(left)))
    ended = order[: data.draw(st.integers(0, len(order)))]
    for future in ended:
        future.set_result(SessionResult(SessionState.DONE))
    assert running.wake.is_set() == bool(ended)
    assert [future for future, _ in running.ended] == ended
    for future, one in running.ended:
        assert running.remove(future) is one is left.pop(future)
        assert list(running) == list(left.values())
        assert len(running) == len(left)
        assert running.ids == {one.id for one in left.values()}
        assert set(running.platforms) == {one.platform for one in left.values()}
        assert set(running.exclusive_resources) == {
            name for one in left.values() for name in one.exclusive_resources
        }
    assert running.ended == []
