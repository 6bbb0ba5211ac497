"""The figures of spread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import PathPatch

from osmef.errors import InputError, NothingToDrawError
from osmef.importers import import_files
from osmef.report.cells import chosen, leading, unit
from osmef.report.data import Data
from osmef.report.spread import cov, ecdf, sessions
from osmef.report.throughput import btc_connections
from osmef.results.measure import Measure
from tests.declared import measure, with_measures
from tests.published import published
from tests.report.drawn import legend, lines, texts, visible

MakeTrials = Callable[..., pd.DataFrame]


def test_the_distribution_of_each_cell(make_trials: MakeTrials) -> None:
    rates = [3e9, 1e9, 2e9, 2e9]
    trials = pd.concat([make_trials(aggregate_bps=rates), make_trials("same-host")])
    figure = ecdf(trials)
    assert legend(figure) == ["different hosts, n = 4", "same host, n = 6"]
    (axes,) = visible(figure)
    assert axes.get_xlabel() == "aggregate BTC in Gbit/s"
    x, y = lines(axes)[0]
    assert x == pytest.approx([1, 1, 2, 3])
    assert y == pytest.approx([0, 0.25, 0.75, 1])


def by_session(make: MakeTrials, counts: dict[str, int], **changes: object) -> pd.DataFrame:
    frames = [
        make(aggregate_bps=[1e9 * n for n in range(1, count + 1)], session=session, **changes)
        for session, count in counts.items()
    ]
    return pd.concat(frames)


def test_sessions_are_boxes_and_few_trials_points(make_trials: MakeTrials) -> None:
    figure = sessions(by_session(make_trials, {"peak": 9, "night": 3}))
    (axes,) = visible(figure)
    assert [text.get_text() for text in axes.get_xticklabels()] == ["peak", "night"]
    (box,) = [patch for patch in axes.patches if isinstance(patch, PathPatch)]
    ends = np.asarray(box.get_path().vertices)[:, 1]
    assert (ends.min(), ends.max()) == (3, 7)
    few = [line for line in axes.lines if line.get_linestyle() == "None" and line.get_marker()]
    assert [3] in [np.asarray(line.get_ydata()).size == 3 and [3] for line in few]
    assert "Boxes:" in texts(figure)[-1]
    assert "Fewer than 5 trials" in texts(figure)[-1]


def test_sessions_of_negative_values_are_within_the_axis(make_trials: MakeTrials) -> None:
    trials = by_session(make_trials, {"peak": 9, "night": 3})
    (axes,) = visible(sessions(trials))
    assert axes.get_ylim()[0] == 0
    (axes,) = visible(sessions(trials.assign(aggregate_btc_bps=-trials["aggregate_btc_bps"])))
    low, high = axes.get_ylim()
    assert low < -9
    assert high > -1


def test_without_sessions_there_is_no_session_figure(make_trials: MakeTrials) -> None:
    with pytest.raises(NothingToDrawError, match="sessions"):
        sessions(make_trials())


def widths(figure: object) -> list[list[float]]:
    (axes,) = visible(figure)  # type: ignore[arg-type]
    return [[bar.get_width() for bar in bars] for bars in axes.containers]


def test_the_cov_over_trials(make_trials: MakeTrials) -> None:
    trials = pd.concat(
        [make_trials(aggregate_bps=[1e9, 2e9, 3e9]), make_trials("same-host", aggregate_bps=[1e9])]
    )
    assert widths(cov(trials)) == [[pytest.approx(50)]]
    with pytest.raises(NothingToDrawError, match="two trials"):
        cov(make_trials(aggregate_bps=[1e9]))


def test_an_interval_without_an_upper_end_has_its_lower_one(make_trials: MakeTrials) -> None:
    figure = cov(make_trials(aggregate_bps=[1e8, 2e9, 9e9, 1e8, 3e8, 1e8]))
    (axes,) = visible(figure)
    assert [one.get_text() for one in axes.texts] == ["183 (over 67)"]


def test_the_cov_over_sessions_is_of_their_medians(make_trials: MakeTrials) -> None:
    trials = by_session(make_trials, {"a": 1, "b": 3, "c": 5})  # medians of 1, 2 and 3 Gbit/s
    figure = cov(trials, metrics=["aggregate_btc_bps", "connection_btc_bps"])
    assert widths(figure) == [[pytest.approx(50)], [pytest.approx(50)]]
    assert legend(figure) == ["aggregate BTC", "connection BTC"]


def test_the_cov_of_several_workloads_is_of_what_leads_in_each(make_trials: MakeTrials) -> None:
    btc = make_trials(aggregate_bps=[1e9, 2e9, 3e9], run="b").assign(scenario="b", workload="btc")
    udp = btc.assign(run="u", scenario="u", workload="udp", aggregate_btc_bps=np.nan)
    trials = with_measures(pd.concat([btc, udp.assign(goodput_bps=[9.0, 10.0, 11.0])]))
    figure = cov(trials)
    assert widths(figure) == [[pytest.approx(50)], [pytest.approx(10)]]
    assert legend(figure) == ["aggregate BTC", "goodput"]
    rows = visible(figure)[0].get_yticklabels()
    assert [one.get_text() for one in rows] == ["b, btc", "u, udp"]


def test_the_cov_over_sessions_is_of_what_leads(make_trials: MakeTrials) -> None:
    """Of sessions without a leading metric, such as imported ones, it is of all."""
    trials = by_session(make_trials, {"a": 1, "b": 3, "c": 5})
    assert len(widths(cov(trials))) == 1
    assert len(widths(cov(trials.drop(columns="aggregate_btc_bps")))) > 1


def test_cells_without_the_metric_are_named(make_trials: MakeTrials) -> None:
    btc = make_trials(aggregate_bps=[1e9, 2e9, 3e9], run="b", session="s")
    btc = btc.assign(scenario="b", workload="btc")
    udp = btc.assign(run="u", scenario="u", workload="udp", aggregate_btc_bps=np.nan)
    trials = with_measures(pd.concat([btc, udp.assign(goodput_bps=[9.0, 10.0, 11.0])]))
    for figure in (ecdf(trials), sessions(trials)):
        words = " ".join(text.get_text() for text in figure.texts).replace("\n", " ")
        assert "Without aggregate BTC, and left out: u, udp." in words
        assert "left out" not in str(ecdf(btc).texts)


def test_the_published_cov_of_every_platform(tmp_path: Path) -> None:
    file = published("deval-2017/sessions.csv")
    import_files("sessions", [file], tmp_path)
    trials = Data(tmp_path).trials
    table = pd.read_csv(file)
    for metric in table["metric"].unique():
        rows = table[table["metric"] == metric]
        name = f"{metric}_{rows['unit'].iloc[0]}".lower()
        (drawn,) = widths(cov(trials, metrics=[name]))
        wanted = rows.drop_duplicates(["instance_class", "platform"])["published_cov_percent"]
        assert sorted(drawn) == pytest.approx(sorted(wanted), abs=0.01)


def test_metrics_are_chosen_and_written() -> None:
    columns = {"status": ["ok"], "wall_s": [1.0], "loss_percent": [1.0], "rtt_min_us": [2.0]}
    trials = with_measures(pd.DataFrame(columns))
    assert chosen(trials, None).name == "rtt_min_us"
    assert chosen(trials.assign(goodput_bps=1.0), None).name == "goodput_bps"
    assert chosen(trials.assign(goodput_bps=np.nan), None).name == "rtt_min_us"
    assert [one.name for one in leading(trials)] == ["rtt_min_us", "loss_percent"]
    with pytest.raises(InputError, match=r"(?s)no trial has a metric 'x'.*loss_percent"):
        chosen(trials, "x")
    with pytest.raises(NothingToDrawError):
        chosen(trials[["status", "wall_s"]], None)
    assert unit(measure("rtt_p50_us"), 9).label == "RTT p50 in µs"
    assert unit(measure("aggregate_btc_bps"), 9e9).divisor == 1e9
    bytes_ = measure("transfer_rate_bytes_per_s")
    assert (unit(bytes_, 9e6).divisor, unit(bytes_, 9e6).label) == (1e6, "transfer rate in MB/s")
    assert unit(measure("exchanges_per_s"), 9).label == "exchanges per second"
    points = Measure(name="render_score", unit="points", better="higher")
    assert unit(points, 9).label == "render score in points"
    assert unit(measure("retransmits"), 9).label == "retransmits"


def campaign(make: MakeTrials, provider: str, sessions: int = 6) -> pd.DataFrame:
    """Make sessions as a campaign has them: each a run of its own, of one platform."""
    frames = [
        make(
            aggregate_bps=[1e9 * (number + 1)] * 3,
            run=f"s-{provider}-{number}", provider=provider, session=f"day {number}",
        )
        for number in range(sessions)
    ]  # fmt: skip
    return pd.concat(frames, ignore_index=True)


def test_the_sessions_of_a_campaign_are_of_one_platform(make_trials: MakeTrials) -> None:
    trials = campaign(make_trials, "aws")
    (drawn,) = widths(cov(trials, metrics=["aggregate_btc_bps"]))
    assert drawn == [pytest.approx(100 * np.std(range(6), ddof=1) / 3.5)]
    figure = sessions(trials)
    assert len(figure.axes[0].get_xticklabels()) == 6
    assert legend(figure) == ["vm-to-vm"]
    assert "6 runs of vm-to-vm" in texts(figure)[-1]
    assert legend(ecdf(trials)) == ["vm-to-vm, n = 6"]


def test_the_platforms_of_a_campaign_are_separate_series(make_trials: MakeTrials) -> None:
    trials = pd.concat([campaign(make_trials, "aws"), campaign(make_trials, "gce")])
    assert legend(sessions(trials)) == ["aws", "gce"]
    assert legend(ecdf(trials)) == ["aws, n = 6", "gce, n = 6"]
    assert legend(btc_connections(trials)) == [
        f"{one}, distance 2, different hosts, same tenant" for one in ("aws", "gce")
    ]


def test_sessions_that_the_cloud_placed_otherwise_are_apart(make_trials: MakeTrials) -> None:
    there = campaign(make_trials, "aws")
    moved = there["session"].eq("day 5")
    there.loc[moved, "achieved_placement"] = "same-host"
    assert [name.rpartition(", n = ")[2] for name in legend(ecdf(there))] == ["5", "1"]


def test_cells_that_differ_in_their_place_alone_are_called_by_it(make_trials: MakeTrials) -> None:
    there = campaign(make_trials, "aws", sessions=12).assign(placement=None, tenancy=None)
    moved = there["session"].isin([f"day {number}" for number in range(1, 12, 2)])
    there.loc[moved, "achieved_placement"] = "same-host"
    names = ["vm-to-vm, different hosts, same tenant", "vm-to-vm, same host, same tenant"]
    assert legend(ecdf(there)) == [f"{name}, n = 6" for name in names]
    assert legend(sessions(there)) == names
    (axes,) = visible(cov(there))
    labels = [label.get_text().replace("\n", " ") for label in axes.get_yticklabels()]
    assert labels == names


def test_sessions_stand_in_the_order_of_time(make_trials: MakeTrials) -> None:
    trials = campaign(make_trials, "aws")
    began = pd.Timestamp("2027-01-04", tz="UTC") - pd.to_timedelta(range(len(trials)), unit="h")
    (axes,) = visible(sessions(trials.assign(started_at=began)))
    names = [text.get_text() for text in axes.get_xticklabels()]
    assert names == [f"day {number}" for number in range(5, -1, -1)]
