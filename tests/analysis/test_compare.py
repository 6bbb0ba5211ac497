"""Two sets of trials compared, cell by cell."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from osmef.analysis.compare import DifferenceVerdict, compare, fisher_exact, verdict
from osmef.analysis.quantiles import ConfidenceInterval
from osmef.errors import InputError
from osmef.results.frame import describe_columns
from osmef.results.measure import Better, Measure
from tests.declared import measure, with_measures
from tests.simulate.shapes import SHAPES, normal

BTC, RTT = "aggregate_btc_bps", "rtt_p50_us"


def trials(
    btc: list[float], rtt: list[float] | None = None, other: dict[str, object] | None = None
) -> pd.DataFrame:
    fixed = {"cell": "all", "workload": "btc", "background": None, "distance": 2, "connections": 4}
    values = {BTC: btc, RTT: rtt or [float("nan")] * len(btc)}
    every = {name: [value] * len(btc) for name, value in {**fixed, **(other or {})}.items()}
    return with_measures(pd.DataFrame({**values, **every}))


BASE = [100.0, 101, 99, 100, 102, 98]


def test_each_side_has_the_interval_of_its_median() -> None:
    """That of trials that ended themselves allows for the checks, and needs 8."""
    table = compare(trials(BASE), trials(BASE, other={"repeat_until": 0.05}), [BTC])
    assert table.attrs["intervals"] == [((98.0, 102.0), None)]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-1, 1, DifferenceVerdict.SAME),
        (-5, 5, DifferenceVerdict.SAME),
        (0, 0, DifferenceVerdict.SAME),
        (5.1, 9, DifferenceVerdict.BETTER),
        (-9, -5.1, DifferenceVerdict.WORSE),
        (4, 9, DifferenceVerdict.INCONCLUSIVE),
        (-9, 9, DifferenceVerdict.INCONCLUSIVE),
        (None, None, DifferenceVerdict.INCONCLUSIVE),
    ],
)
def test_a_verdict_follows_from_interval_margin_and_direction(
    low: float | None, high: float | None, expected: DifferenceVerdict
) -> None:
    interval = ConfidenceInterval(low, high, None)
    assert verdict(interval, 5, Better.HIGHER) == expected
    turned = {
        DifferenceVerdict.BETTER: DifferenceVerdict.WORSE,
        DifferenceVerdict.WORSE: DifferenceVerdict.BETTER,
    }
    assert verdict(interval, 5, Better.LOWER) == turned.get(expected, expected)
    sideless = {
        DifferenceVerdict.BETTER: DifferenceVerdict.DIFFERENT,
        DifferenceVerdict.WORSE: DifferenceVerdict.DIFFERENT,
    }
    assert verdict(interval, 5, Better.NEITHER) == sideless.get(expected, expected)


@pytest.mark.parametrize(
    ("factor", "expected"), [(1.0, "same"), (0.8, "worse"), (1.2, "better"), (0.95, "inconclusive")]
)
def test_a_rate_that_falls_is_worse_and_a_time_that_falls_is_better(
    factor: float, expected: str
) -> None:
    b = [factor * x for x in BASE]
    table = compare(trials(BASE, BASE), trials(b, b)).set_index("metric")
    assert table["verdict"][BTC] == expected
    turned = {"better": "worse", "worse": "better"}
    assert table["verdict"][RTT] == turned.get(expected, expected)
    row = table.loc[BTC]
    assert row["low"] <= row["difference"] <= row["high"]
    assert (row["median_a"], row["margin"], row["n_b"]) == (100, 5, 6)


def test_too_few_trials_are_inconclusive_with_a_reason() -> None:
    row = compare(trials(BASE[:3]), trials([1.0, 2.0, 3.0])).iloc[0]
    assert row["verdict"] == "inconclusive"
    assert row["reason"] == "n = 3 and 3 are too few for 95 %"
    row = compare(trials(BASE[:3]), trials(BASE[:2])).iloc[0]
    assert row["reason"] == f"n = {row['n_a']} and {row['n_b']} are too few for 95 %"


def test_a_metric_that_one_side_lacks_is_inconclusive() -> None:
    row = compare(trials(BASE), trials([float("nan")] * 6)).iloc[0]
    assert (row["n_b"], row["verdict"]) == (0, "inconclusive")
    assert row["reason"] == "only A has it"
    assert compare(trials([float("nan")] * 6), trials(BASE)).iloc[0]["reason"] == "only B has it"


def test_losses_that_are_all_zero_are_the_same() -> None:
    a = trials(BASE).assign(retransmits=0.0)
    table = compare(a, a, ["retransmits"])
    assert table["verdict"].tolist() == ["same"]
    more = compare(a, a.assign(retransmits=3.0), ["retransmits"])
    assert more["verdict"].tolist() == ["worse"]


@pytest.mark.parametrize(
    ("column", "value"),
    [("workload", "udp"), ("distance", 4), ("connections", 8), ("background", "btc")],
)
def test_cells_with_different_definitions_are_not_compared(column: str, value: object) -> None:
    with pytest.raises(InputError, match=f"cell all: {column} is .* and {value}"):
        compare(trials(BASE), trials(BASE, other={column: value}))


def test_another_unit_is_not_compared() -> None:
    other = describe_columns(
        trials(BASE, BASE), [measure(BTC), measure(RTT).model_copy(update={"unit": "ms"})]
    )
    with pytest.raises(InputError, match="rtt_p50_us is in us in A, and in ms in B"):
        compare(trials(BASE, BASE), other)


def test_a_metric_without_a_description_is_not_compared() -> None:
    bare = pd.DataFrame({"cell": "all", "frames": BASE})
    with pytest.raises(InputError, match="this frame has no definitions of its metrics"):
        compare(bare, bare)
    frames = Measure(name="frames", unit="1/s", better="higher")
    better = compare(bare, bare.assign(frames=lambda rows: 2 * rows["frames"]), [frames])
    assert better["verdict"].tolist() == ["better"]
    with pytest.raises(InputError, match="the runs do not define frames"):
        compare(trials(BASE), trials(BASE), ["frames"])
    turned = compare(bare, bare.assign(frames=0.0), [frames], better=Better.LOWER)
    assert turned["verdict"].tolist() == ["better"]


def test_cells_of_one_side_are_listed_and_no_common_one_is_an_error() -> None:
    a = pd.concat([trials(BASE), trials(BASE, other={"cell": "more"})])
    table = compare(a, trials(BASE))
    assert (table.attrs["only_a"], table.attrs["only_b"]) == (["more"], [])
    with pytest.raises(InputError, match="no cell in common"):
        compare(trials(BASE), trials(BASE, other={"cell": "more"}))


@pytest.mark.real("simulations")
def test_without_a_difference_a_wrong_verdict_is_rare() -> None:
    chance, wrong = np.random.default_rng(12), 0
    for _ in range(200):
        a, b = (trials(chance.lognormal(5, 0.3, 6).tolist()) for _ in range(2))
        wrong += compare(a, b, [BTC])["verdict"].iloc[0] in {"better", "worse"}
    assert wrong <= 16


def test_p_values_are_corrected_over_the_whole_table() -> None:
    table = compare(trials(BASE, BASE), trials([2 * x for x in BASE], BASE))
    assert len(table) == 2
    assert table["p_holm"][0] == pytest.approx(2 * table["p"][0])


def test_a_negative_margin_is_refused() -> None:
    with pytest.raises(ValueError, match="not below 0"):
        compare(trials(BASE), trials(BASE), margin=-0.1)


def sessions(
    chance: np.random.Generator, provider: str, mean: float, count: int = 4
) -> pd.DataFrame:
    """Make sessions of one platform, a run each, whose medians vary more than their trials."""
    frames = []
    for number in range(count):
        level = mean * (1 + 0.15 * chance.standard_normal())
        btc = (level * (1 + 0.01 * chance.standard_normal(10))).tolist()
        frames.append(
            trials(btc, other={"session": f"day {number}", "run": f"{provider}-{number}",
                               "provider": provider, "scenario": "s", "status": "ok"})
        )  # fmt: skip
    return pd.concat(frames, ignore_index=True)


@pytest.mark.real("simulations")
def test_sessions_that_do_not_differ_rarely_get_a_wrong_verdict() -> None:
    chance, wrong = np.random.default_rng(5), 0
    for _ in range(60):
        table = compare(sessions(chance, "aws", 1e9), sessions(chance, "aws", 1e9), [BTC])
        wrong += table["verdict"].iloc[0] in {"better", "worse"}
        assert (table["n_a"].iloc[0], table.attrs["unit"]) == (4, "sessions")
    assert wrong <= 6


def test_each_platform_is_compared_with_itself() -> None:
    chance = np.random.default_rng(6)
    a = pd.concat([sessions(chance, "aws", 9e9, 8), sessions(chance, "gce", 1e9, 8)])
    b = pd.concat([sessions(chance, "aws", 9e9, 8), sessions(chance, "gce", 0.3e9, 8)])
    table = compare(a, b, [BTC]).set_index("cell")
    assert table["verdict"]["gce: all"] == "worse"
    assert table["verdict"]["aws: all"] != "worse"
    assert table["n_a"].tolist() == [8, 8]
    lost = compare(a, b[b["provider"] == "aws"], [BTC])
    assert lost.attrs["only_a"] == ["gce: all"]


def test_other_differing_columns_are_reported() -> None:
    table = compare(
        trials(BASE, other={"sender_flavors": "small", "provider": "aws"}),
        trials(BASE, other={"sender_flavors": "large", "provider": "aws"}),
        [BTC],
    )
    assert table.attrs["differs"] == [
        {"cell": "all", "column": "sender_flavors", "a": "small", "b": "large"}
    ]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((0, 6, 14, 20), "worse"),
        ((14, 20, 0, 6), "better"),
        ((3, 6, 2, 4), "same"),
        ((0, 6, 1, 6), "inconclusive"),
    ],
)
def test_trials_that_failed_count(counts: tuple[int, int, int, int], expected: str) -> None:
    def side(failed: int, count: int) -> pd.DataFrame:
        good = [100.0] * (count - failed) + [float("nan")] * failed
        return trials(good).assign(status=["ok"] * (count - failed) + ["failed"] * failed)

    a, b = side(*counts[:2]), side(*counts[2:])
    (found,) = compare(a, b, [BTC]).attrs["failures"]
    assert (found["verdict"], found["failed_b"], found["trials_b"]) == (expected, *counts[2:])
    assert compare(trials(BASE), trials(BASE)).attrs["failures"] == []


@pytest.mark.parametrize(
    ("metric", "before", "after", "expected"),
    [
        ("retransmits", 0.0, 1.0, "same"),
        ("retransmits", 0.0, 3.0, "worse"),
        ("retransmits", 1.0, 2.0, "same"),
        ("reverse_retransmits", 1.0, 4.0, "worse"),
        ("retransmits", 100.0, 104.0, "same"),
        ("loss_percent", 0.0, 0.05, "same"),
        ("loss_percent", 0.0, 0.5, "worse"),
        ("loss_percent", 0.001, 0.002, "same"),
        ("loss_percent", 0.001, 0.2, "worse"),
        ("jain_fairness", 0.99, 0.5, "worse"),
        ("transfer_time_ratio", 1.1, 1.9, "worse"),
        (RTT, 0.0, 0.5, "same"),
        (RTT, 2.0, 3.0, "same"),
        (RTT, 0.0, 5.0, "worse"),
        ("cpu_sender_us_per_kb", 0.5, 0.9, "worse"),
    ],
)
def test_a_small_median_has_an_absolute_margin(
    metric: str, before: float, after: float, expected: str
) -> None:
    a = trials(BASE).assign(**{metric: before})
    b = a.assign(**{metric: after})
    assert compare(a, b, [metric])["verdict"].tolist() == [expected]
    assert compare(a, b, [metric], margin=0)["margin"].tolist() == [0]


@pytest.mark.parametrize(
    ("after", "expected"),
    [([0.02] * 6, "worse"), ([0.0] * 5 + [3.0], "inconclusive"), ([0.0] * 6, "same")],
)
def test_a_comparison_with_zero_has_no_relative_margin(after: list[float], expected: str) -> None:
    """Once is no regression, always is; how much does not matter of nothing, nobody knows."""
    a = trials(BASE).assign(errors_per_s=0.0)
    errors = Measure(name="errors_per_s", unit="1/s", better="lower")
    (row,) = compare(a, a.assign(errors_per_s=after), [errors]).to_dict("records")
    assert (row["verdict"], row["margin"]) == (expected, 0)
    assert (row["reason"] is None) == (expected == "same")
    none = compare(a, a.assign(errors_per_s=1.0), [errors], margin=0)
    assert none["reason"].tolist() == [None]


def test_trials_that_failed_before_their_place_was_known_are_of_their_cell() -> None:
    good = trials(BASE, other={"achieved_placement": "same-host", "run": "a"}).assign(status="ok")
    lost = good.assign(status="failed", achieved_placement=None, **{BTC: float("nan")})
    whole = pd.concat([good, lost], ignore_index=True)
    table = compare(whole, good, [BTC])
    assert table.attrs["only_a"] == []
    assert table.attrs["failures"][0]["failed_a"] == 6


def test_trials_of_an_unknown_provider_are_not_of_the_known_one() -> None:
    def side(unknown: float) -> pd.DataFrame:
        told = {"status": "ok", "scenario": "s"}
        aws = trials([9e9] * 6, other={**told, "run": "mon", "provider": "aws"})
        other = trials([unknown] * 6, other={**told, "run": "tue", "provider": None})
        return pd.concat([aws, other], ignore_index=True)

    table = compare(side(1e9), side(1e8), [BTC]).set_index("cell")
    assert table["verdict"].to_dict() == {"aws: all": "same", "unknown: all": "worse"}
    assert table["n_a"].tolist() == [6, 6]


def test_a_cell_that_failed_before_its_place_was_known_is_compared() -> None:
    good = trials(BASE, other={"achieved_placement": "same-host"}).assign(status="ok")
    unknown = {"status": "failed", "achieved_placement": None, "distance": None}
    lost = good.assign(**{BTC: float("nan")}, **unknown)
    for a, b, expected in ((good, lost, "worse"), (lost, good, "better")):
        table = compare(a, b, [BTC])
        (failure,) = table.attrs["failures"]
        assert failure["verdict"] == expected
    with pytest.raises(InputError, match="distance is 2 and none"):
        compare(good, good.assign(distance=None))


def test_a_placement_that_the_cloud_did_not_choose_again_is_not_counted_as_lost() -> None:
    near, far = (
        trials(BASE, other={"achieved_placement": place})
        for place in ("same-host", "different-host")
    )
    other = trials(BASE, other={"achieved_placement": "same-host", "cell": "more"})
    table = compare(pd.concat([near, far, other], ignore_index=True), near, [BTC])
    assert table.attrs["only_a"] == ["different-host: all", "same-host: more"]
    assert table.attrs["lost"] == ["same-host: more"]


def table_of(rows: np.ndarray, **other: object) -> pd.DataFrame:
    """Return the trials of a cell for each row."""
    frames = [trials(row.tolist(), other={**other, "cell": f"c{n}"}) for n, row in enumerate(rows)]
    return with_measures(pd.concat(frames, ignore_index=True))


@pytest.mark.real("simulations")
@pytest.mark.parametrize(
    ("shape", "margin"),
    [("normal of 30 %", 0.0), ("lognormal of 0.5", 0.05), ("bimodal, 80/20", 0.05)],
)
def test_a_whole_table_of_equal_cells_seldom_has_a_worse_one(shape: str, margin: float) -> None:
    draw = normal(0.3) if shape.startswith("normal") else SHAPES[shape]
    chance, wrong = np.random.default_rng(8), 0
    for _ in range(12):
        a, b = (table_of(np.abs(draw(chance, (24, 6)))) for _ in range(2))
        found = set(compare(a, b, [BTC], margin)["verdict"])
        wrong += "worse" in found
    assert wrong <= 3


def test_a_table_where_everything_is_a_tenth_slower_is_worse() -> None:
    chance = np.random.default_rng(9)
    a, b = (table_of(level * normal()(chance, (24, 5))) for level in (1.0, 0.85))
    assert set(compare(a, b, [BTC])["verdict"]) == {"worse"}
    one = b.copy()
    one.loc[one["cell"] != "c3", BTC] = a.loc[a["cell"] != "c3", BTC]
    row = compare(a, one, [BTC]).set_index("cell").loc["c3"]
    assert (row["verdict"], row["reason"]) == (
        "inconclusive",
        "worse alone, but among all verdicts p = 0.095",
    )


def test_runs_are_a_level_of_their_own() -> None:
    """Runs differ by 14 %, trials of one by 2 %: pooled, half of equal sides would differ."""
    chance, wrong = np.random.default_rng(4), 0
    for _ in range(60):
        sides = []
        for side in "ab":
            levels = 100 * (1 + 0.14 * chance.standard_normal(5))
            runs = [
                trials(
                    (level * normal()(chance, (10,)) / 100).tolist(), other={"run": f"{side}{n}"}
                )
                for n, level in enumerate(levels)
            ]
            sides.append(with_measures(pd.concat(runs, ignore_index=True)))
        (row,) = compare(sides[0], sides[1], [BTC]).to_dict("records")
        assert (row["n_a"], row["n_b"], row["unit"]) == (5, 5, "runs")
        wrong += row["verdict"] in {"better", "worse"}
    assert wrong <= 7


@pytest.mark.real("simulations")
def test_trials_that_fail_now_and_then_are_no_regression() -> None:
    chance, wrong = np.random.default_rng(6), 0
    for _ in range(40):
        sides = []
        for _side in range(2):
            table = table_of(normal()(chance, (12, 8)))
            sides.append(table.assign(status=np.where(chance.random(96) < 0.1, "failed", "ok")))
        found = compare(sides[0], sides[1], [BTC]).attrs["failures"]
        wrong += any(one["verdict"] == "worse" for one in found)
    assert wrong <= 5
    table = table_of(normal()(chance, (12, 8))).assign(status="ok")
    some = table.assign(status=["failed", *["ok"] * 7] * 12)
    found = {one["cell"]: one for one in compare(table, some, [BTC]).attrs["failures"]}
    assert found["all cells together"]["verdict"] == "worse"
    assert found["c1"]["verdict"] == "inconclusive"


def test_a_side_on_one_pair_counts_as_one_beside_several() -> None:
    a = trials(BASE).assign(run="a", pair=None)
    b = pd.concat([trials(BASE).assign(run="b", pair=number) for number in range(6)])
    table = compare(a, with_measures(b), [BTC])
    row = table.iloc[0]
    assert (row["unit"], row["n_a"], row["n_b"]) == ("pairs", 1, 6)
    assert row["verdict"] == "inconclusive"
    assert table.attrs["method"] == "unpaired"


counts = st.integers(0, 30)


@given(counts, counts, counts, counts)
def test_fishers_test_is_that_of_scipy(bad_a: int, ok_a: int, bad_b: int, ok_b: int) -> None:
    expected = stats.fisher_exact(np.array([[bad_a, ok_a], [bad_b, ok_b]])).pvalue
    found = fisher_exact(bad_a, bad_a + ok_a, bad_b, bad_b + ok_b)
    assert found == pytest.approx(expected, abs=1e-12)
