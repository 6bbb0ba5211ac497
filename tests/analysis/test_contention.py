"""What others took of the CPUs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.analysis.throughput import contended, contention
from osmef.results.observations import EndpointUse

KINDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq")


def use(elapsed_s: float = 10.0, steal_s: float | None = 0.0, **spent: float) -> EndpointUse:
    told = {f"{kind}_s": spent.get(kind, 0.0) for kind in KINDS}
    return EndpointUse.model_validate(
        {"cpus": 2, "elapsed_s": elapsed_s, "steal_s": steal_s, "guest_s": 0.0, **told}
    )


def test_the_cpu_use_of_the_trial_itself_is_not_attributed_to_others() -> None:
    found = contention([use(user=5.0, nice=4.0, system=9.0)], own_user_s=1.0)
    assert found.others == pytest.approx(100 * 8 / 20)
    assert found.steal == 0


def test_the_endpoint_with_the_most_counts() -> None:
    found = contention([use(user=1.0, steal_s=6.0), use(user=12.0, steal_s=None)], own_user_s=0.0)
    assert found.others == pytest.approx(60)
    assert found.steal == pytest.approx(30)


def test_contention_is_unknown_without_a_sampled_interval() -> None:
    found = contention([use(elapsed_s=0.0, user=1.0), use(steal_s=None)], own_user_s=0.0)
    assert (found.others, found.steal) == (0.0, None)
    two_ticks = contention([use(elapsed_s=0.02, user=0.041)], own_user_s=0.0)
    assert (two_ticks.others, two_ticks.steal) == (None, None)
    assert contention([], 0.0).others is None


@given(st.lists(st.floats(0, 20), min_size=1, max_size=8), st.floats(0, 200))
def test_a_share_is_never_negative(users: list[float], own: float) -> None:
    found = contention([use(user=user) for user in users], own)
    assert found.others is not None
    assert 0 <= found.others <= 100


@pytest.mark.parametrize(
    ("others", "steal", "words"),
    [
        ([], [], ""),
        ([0.5, 2.0, 9.9], [0.0, 4.9], ""),
        ([1.0, 1.0, 90.0], [], ""),  # one busy trial of three
        ([60.0, 1.0, 70.0], [], "other programs used 60 % of an endpoint's CPUs"),
        ([1.0], [12.0], "the hypervisor gave 12 % of an endpoint's CPUs to others"),
    ],
)
def test_contention_is_reported_above_its_limits(
    others: list[float], steal: list[float], words: str
) -> None:
    assert contended(others, steal) == words


def test_cpu_use_by_others_and_steal_are_both_reported() -> None:
    assert " and the hypervisor gave 20 %" in contended([50.0], [20.0])
