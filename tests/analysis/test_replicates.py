from __future__ import annotations

import pandas as pd
import pytest

from osmef.analysis.replication import independent, platform_columns, platform_names, settled


def trials(**columns: list[object]) -> pd.DataFrame:
    count = max(map(len, columns.values()))
    fixed: dict[str, list[object]] = {
        "run": ["r"], "scenario": ["s"], "cell": ["all"], "provider": ["aws"], "session": [None],
    }  # fmt: skip
    every = {**fixed, **columns}
    return pd.DataFrame({k: v * (count if len(v) == 1 else 1) for k, v in every.items()})


def test_trials_are_independent_where_there_are_no_sessions() -> None:
    frame = trials(x=[3.0, float("nan"), 1.0])
    assert independent(frame, "x") == [3, 1]
    assert independent(frame, "y") == []


def test_a_session_is_the_median_of_its_trials_and_a_run_without_one_is_a_session() -> None:
    frame = trials(
        run=["a", "a", "a", "b", "b", "c", "c"],
        session=["mon", "mon", "mon", "mon", "tue", None, None],
        x=[1.0, 2.0, 9.0, 4.0, 5.0, 6.0, 8.0],
    )
    assert independent(frame, "x") == [2, 4, 5, 7]
    assert independent(frame.dropna(subset="session"), "x", by_session=False) == [1, 2, 9, 4, 5]
    assert independent(trials(run=["a", "a", "b"], x=[1.0, 3.0, 5.0]), "x", by_session=True) == [
        2,
        5,
    ]


@pytest.mark.parametrize(
    ("columns", "told", "names"),
    [
        ({"x": [1.0, 2.0]}, [], ["", ""]),
        ({"provider": ["aws", "gce"]}, ["provider"], ["aws", "gce"]),
        ({"provider": ["aws", "gce"], "cell": ["one", "two"]}, [], ["", ""]),
        ({"scenario": ["s", "t"], "cell": ["one", "two"]}, ["scenario"], ["s", "t"]),
        ({"provider": ["aws", None]}, ["provider"], ["aws", "unknown"]),
        (
            {"sender_flavors": ["big", "small"], "receiver_flavors": ["big", "small"]},
            ["sender_flavors"],
            ["big", "small"],
        ),
        (
            {"platform": ["s.yaml aws", "s.yaml gce"], "provider": ["aws", "gce"]},
            ["platform"],
            ["s.yaml aws", "s.yaml gce"],
        ),
    ],
)
def test_what_tells_platforms_apart(
    columns: dict[str, list[object]], told: list[str], names: list[str]
) -> None:
    frame = trials(**columns)
    assert platform_columns(frame) == told
    assert platform_names(frame, told) == names


def test_what_one_of_two_frames_does_not_know_tells_nothing() -> None:
    several = trials(provider=["aws", "gce"])
    assert platform_columns(several, trials(provider=["aws"])) == ["provider"]
    assert platform_columns(several, trials(provider=[None])) == []


def test_a_trial_that_failed_early_is_of_the_platform_of_its_like() -> None:
    frame = trials(
        run=["a", "a", "b", "c", "d"],
        provider=["aws", "aws", "aws", "gce", None],
        sender_flavors=["m5", None, None, "n2", None],
        status=["ok", "failed", "failed", "ok", "failed"],
    )
    found = settled(frame)
    assert found["sender_flavors"].tolist()[:4] == ["m5", "m5", "m5", "n2"]
    assert found[["provider", "sender_flavors"]].iloc[4].isna().all()  # it may be either
    assert platform_columns(found.iloc[:3]) == []
    assert frame["sender_flavors"].isna().sum() == 3


def test_a_trial_that_went_well_keeps_what_it_does_not_know() -> None:
    frame = trials(
        run=["a", "b"], provider=["aws", None], sender_flavors=["m5", None], status=["ok", "ok"]
    )
    assert settled(frame)[["provider", "sender_flavors"]].iloc[1].isna().all()
    other = frame.assign(status=["ok", "failed"])  # of another run, and so of any provider
    assert settled(other)["provider"].isna().tolist() == [False, True]
