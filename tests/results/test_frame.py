import json
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import osmef
from osmef.errors import InputError
from osmef.results.frame import (
    describe_columns,
    described_like,
    measures_of,
    original_name,
    swept_of,
)
from osmef.results.measure import Measure
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Cost, Declared
from osmef.results.trial import Failure, Status, Trial

OLD_RUN = Path(__file__).parent / "data" / "quickstart-20261121T031500Z-3f9a"

MakeTrial = Callable[..., Trial]


def test_one_row_a_trial_in_tidy_columns(run: RunDirectory, make_trial: MakeTrial) -> None:
    flavor = {"connections": 1, "endpoints.sender.flavor": "small"}
    failure = Failure(kind="agent", message="stalled")
    run.append_trial(make_trial(3, values=flavor))
    run.append_trial(
        make_trial(1, status=Status.FAILED, failure=failure, metrics={}, distance=None)
    )
    frame = osmef.load(run.path)
    assert frame.columns.tolist() == [
        "run",
        "scenario",
        "provider",
        "cell",
        "trial",
        "repetition",
        "group",
        "pair",
        "session",
        "window",
        "platform",
        "senders",
        "receivers",
        "sender_flavors",
        "receiver_flavors",
        "price_per_hour",
        "currency",
        "placement",
        "tenancy",
        "achieved_placement",
        "achieved_tenancy",
        "distance",
        "connections",
        "endpoints.sender.flavor",
        "status",
        "failure_kind",
        "failure_message",
        "started_at",
        "wall_s",
        "workload",
        "background",
        "limited_by",
        "start_spread_s",
        "repeat_until",
        "aggregate_btc_bps",
        "retransmits",
    ]
    assert frame["run"].tolist() == [run.id, run.id]
    assert frame["scenario"].tolist() == ["quickstart", "quickstart"]
    assert frame["trial"].tolist() == [3, 1]
    assert frame["placement"].tolist() == ["different-host", "different-host"]
    assert frame["status"].tolist() == ["ok", "failed"]
    assert frame["started_at"].dt.tz is not None
    good, bad = frame.iloc[0], frame.iloc[1]
    assert good["aggregate_btc_bps"] == 9.4e8
    assert good["distance"] == 2
    assert bad["failure_message"] == "stalled"
    missing = bad[["aggregate_btc_bps", "retransmits", "distance", "endpoints.sender.flavor"]]
    assert missing.isna().all()
    assert pd.isna(good["failure_kind"])


def test_the_hourly_price_of_a_cell_is_in_the_frame(tmp_path: Path) -> None:
    run = RunDirectory(shutil.copytree(OLD_RUN, tmp_path / "priced"))
    summary = run.read_summary()
    price = Cost(amount=0.2, currency="USD")
    cells = [cell.model_copy(update={"price_per_hour": price}) for cell in summary.cells]
    run.write_summary(summary.model_copy(update={"cells": cells}))
    frame = osmef.load(OLD_RUN, run.path)
    assert frame["price_per_hour"].tolist()[3:] == [0.2] * 3
    assert frame["currency"].tolist() == [None] * 3 + ["USD"] * 3
    assert frame["price_per_hour"][:3].isna().all()


def test_the_frame_has_the_rule_that_ended_the_trials_of_a_cell(tmp_path: Path) -> None:
    run = RunDirectory(shutil.copytree(OLD_RUN, tmp_path / "ended"))
    summary = run.read_summary()
    cells = [cell.model_copy(update={"repeat_until": 0.05}) for cell in summary.cells]
    run.write_summary(summary.model_copy(update={"cells": cells}))
    frame = osmef.load(OLD_RUN, run.path)
    assert frame["repeat_until"].tolist()[3:] == [0.05] * 3
    assert frame["repeat_until"][:3].isna().all()


def test_a_sweep_over_the_placement_gives_one_column(
    run: RunDirectory, make_trial: MakeTrial
) -> None:
    run.append_trial(make_trial(0, values={"placement": "different-host", "connections": 1}))
    columns = osmef.load(run.path).columns.tolist()
    assert columns.count("placement") == 1
    assert "connections" in columns


def test_a_sweep_over_whole_workloads_has_a_column_to_distinguish_them(
    run: RunDirectory, make_trial: MakeTrial
) -> None:
    run.append_trial(make_trial(1, values={"workload": "{duration: 1s}"}))
    run.append_trial(make_trial(2, values={"workload": "{duration: 2s}"}))
    frame = osmef.load(run.path)
    assert frame["swept.workload"].tolist() == ["{duration: 1s}", "{duration: 2s}"]
    assert frame["workload"].tolist() == ["btc", "btc"]


def test_a_swept_window_of_tcp_is_not_that_of_a_session(
    run: RunDirectory, make_trial: MakeTrial
) -> None:
    session = {"session": "2027-01-04 night", "window": "night", "platform": "pair here"}
    run.append_trial(make_trial(1, values={"window": 65536}, **session))
    row = osmef.load(run.path).iloc[0]
    assert row[["session", "window", "platform"]].to_dict() == session
    assert row["workload.window"] == 65536


OLD = osmef.load(OLD_RUN)
FIXED = sorted({*OLD.columns} - {*measures_of(OLD)})


@pytest.mark.parametrize("value", ["other", 7, 1.5, True])
@pytest.mark.parametrize("name", FIXED)
def test_a_swept_value_leaves_the_fixed_column_of_its_name_as_it_is(
    run: RunDirectory, make_trial: MakeTrial, name: str, value: object
) -> None:
    """As the `run` of a program, which is swept, and labels of imported results."""
    session = {"session": "2027-01-04 night", "window": "night", "platform": "pair here"}
    run.append_trial(make_trial(1, values={}, connections=3, **session))
    run.append_trial(make_trial(2, values={name: value}, connections=3, **session))
    frame = osmef.load(run.path)
    (swept,) = swept_of(frame)
    assert original_name(swept) == name
    assert frame[swept].tolist()[1] == value
    if (name, type(value)) not in {("connections", int), ("placement", str), ("tenancy", str)}:
        alike = frame[name].tolist() if name != "trial" else [1, int(frame["trial"][1]) - 1]
        assert swept != name
        assert repr(alike[0]) == repr(alike[1])


@pytest.mark.parametrize("name", FIXED)
def test_a_metric_leaves_the_fixed_column_of_its_name_as_it_is(
    run: RunDirectory, make_trial: MakeTrial, name: str
) -> None:
    run.append_trial(make_trial(1))
    usual = osmef.load(run.path)
    run.append_trial(make_trial(2, metrics={name: 0.5}))
    frame = osmef.load(run.path)
    assert frame[f"measured.{name}"].tolist()[1] == 0.5
    assert f"measured.{name}" in measures_of(frame)
    assert original_name(f"measured.{name}") == name
    assert frame[name].iloc[:1].equals(usual[name])


def test_the_connections_of_older_trials_are_those_of_their_cells(tmp_path: Path) -> None:
    """Of a run that did not sweep them: version 1 had them in the summary alone."""
    run = RunDirectory(shutil.copytree(OLD_RUN, tmp_path / "older"))
    trials = [json.loads(line) for line in run.trials.read_text().splitlines()]
    summary = json.loads(run.summary.read_text())
    for trial in trials:
        del trial["values"]["connections"]
        trial["cell"] = "all"
    summary["cells"] = [{**summary["cells"][0], "key": "all", "values": {}, "connections": 5}]
    run.trials.write_text("".join(json.dumps(trial) + "\n" for trial in trials))
    run.summary.write_text(json.dumps(summary))
    assert osmef.load(run.path)["connections"].unique().tolist() == [5]


def test_a_swept_key_is_kept_apart_from_a_metric_of_the_same_name(
    run: RunDirectory, make_trial: MakeTrial
) -> None:
    """As `processes` of an endpoint, which is swept, and `processes` of all, which is measured."""
    for index in (1, 2):
        trial = make_trial(index, values={"class": "S", "processes": index})
        run.append_trial(trial.model_copy(update={"metrics": {"processes": 4.0 * index}}))
    frame = osmef.load(run.path)
    assert frame["swept.processes"].tolist() == [1, 2]
    assert frame["processes"].tolist() == [4.0, 8.0]
    assert swept_of(frame) == ["class", "swept.processes"]
    assert "processes" in measures_of(frame)


def test_a_whole_number_that_some_cells_have_stays_whole(
    run: RunDirectory, make_trial: MakeTrial
) -> None:
    for index, values in enumerate(({"size": 1400}, {}, {"size": 64})):
        run.append_trial(make_trial(index, values=values))
    sizes = osmef.load(run.path)["size"]
    assert sizes.astype("string").dropna().tolist() == ["1400", "64"]
    assert sizes.isna().tolist() == [False, True, False]


@pytest.mark.parametrize("name", ["", "summary.json", "trials.jsonl"])
def test_a_run_of_version_1_still_loads(name: str) -> None:
    frame = osmef.load(OLD_RUN / name)
    assert frame.shape[0] == 3
    assert frame["run"].unique().tolist() == [OLD_RUN.name]
    assert frame["status"].tolist() == ["ok", "ok", "failed"]
    assert frame["aggregate_btc_bps"].median() == pytest.approx(9.41e8)


def test_a_renamed_run_keeps_its_scenario_name(tmp_path: Path) -> None:
    renamed = shutil.copytree(OLD_RUN, tmp_path / "monday")
    assert osmef.load(renamed)["scenario"].unique().tolist() == ["quickstart"]


def test_a_newer_run_is_refused_with_a_cure(tmp_path: Path) -> None:
    newer = shutil.copytree(OLD_RUN, tmp_path / "newer")
    trials = newer / "trials.jsonl"
    trials.write_text(trials.read_text().replace('"schema_version":1', '"schema_version":4'))
    with pytest.raises(InputError, match="newer OSMeF") as caught:
        osmef.load(newer)
    assert caught.value.cure is not None
    assert "upgrade" in caught.value.cure


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("started_at", "2026-13-45T00:00:00Z"),
        ("started_at", "²"),
        ("values", {"connections": 10**400}),
        ("index", 10**30),
        ("values", []),
        ("status", 7),
    ],
)
def test_a_damaged_trial_is_bad_input(
    run: RunDirectory, make_trial: MakeTrial, key: str, value: object
) -> None:
    run.append_trial(make_trial(1))
    whole = json.loads(run.trials.read_text())
    with run.trials.open("a") as file:
        file.write(json.dumps({**whole, key: value}) + "\n")
    with pytest.raises(InputError, match="damaged") as caught:
        osmef.load(run.path)
    assert run.id in str(caught.value.where)


@pytest.mark.parametrize(
    ("number", "told"), [("1e400", "too large"), ("Infinity", "not JSON"), ("NaN", "not JSON")]
)
def test_an_infinite_number_is_bad_input(
    run: RunDirectory, make_trial: MakeTrial, number: str, told: str
) -> None:
    run.append_trial(make_trial(1, metrics={"retransmits": 4.25}))
    run.trials.write_text(run.trials.read_text().replace("4.25", number))
    with pytest.raises(InputError, match=told):
        osmef.load(run.path)


def test_an_infinite_price_is_bad_input(tmp_path: Path) -> None:
    run = RunDirectory(shutil.copytree(OLD_RUN, tmp_path / "priced"))
    summary = run.read_summary()
    price = Cost(amount=4.25, currency="USD")
    cells = [cell.model_copy(update={"price_per_hour": price}) for cell in summary.cells]
    run.write_summary(summary.model_copy(update={"cells": cells}))
    run.summary.write_text(run.summary.read_text().replace("4.25", "1e400"))
    with pytest.raises(InputError, match="too large"):
        osmef.load(run.path)


def test_a_path_that_is_no_run_is_an_input_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", tmp_path / "missing" / "trials.jsonl"):
        with pytest.raises(InputError, match=r"no trials|no such run"):
            osmef.load(path)


def test_a_run_that_has_not_measured_yet_is_an_empty_frame(run: RunDirectory) -> None:
    run.trials.touch()
    frame = osmef.load(run.path)
    assert frame.empty
    assert "status" in frame.columns


def test_importing_osmef_loads_no_heavy_library() -> None:
    code = "import osmef, sys; print(osmef.__version__, 'pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[1] == "False"


def test_an_unknown_osmef_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = osmef.nothing


def test_many_trials_need_little_more_memory_than_their_frame(
    run: RunDirectory, make_trial: MakeTrial
) -> None:
    line = make_trial(1_000_000).model_dump_json() + "\n"
    peaks, sizes = [], []
    for count in (8_192, 8_192, 24_576):  # the first time, more is loaded than the trials
        lines = (line.replace("1000000", str(1_000_000 + number), 1) for number in range(count))
        run.trials.write_text("".join(lines))
        tracemalloc.start()
        try:
            frame = osmef.load(run.path)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert len(frame) == count
        sizes.append(int(frame.memory_usage().sum()))
        del frame
    growth = sizes[2] - sizes[1]
    assert peaks[2] - peaks[1] < 2 * growth
    assert 2 * growth < 16_384 * len(line), "less than the text of the trials alone"


RATE = Measure(name="frames", unit="1/s", better="higher", help="how fast", leading=True)


def test_a_killed_run_has_what_was_declared_before_its_first_trial(tmp_path: Path) -> None:
    run = RunDirectory(shutil.copytree(OLD_RUN, tmp_path / OLD_RUN.name))
    summary = run.read_summary()
    more = {"repeat_until": 0.05, "price_per_hour": Cost(amount=0.2, currency="USD")}
    cells = [cell.model_copy(update=more) for cell in summary.cells]
    run.write_summary(summary.model_copy(update={"cells": cells}))
    whole = osmef.load(run.path)
    run.declare(Declared.of(run.read_summary()))
    run.summary.unlink()
    killed = osmef.load(run.path)
    assert killed["repeat_until"].tolist() == [0.05] * 3
    assert killed["sender_flavors"].tolist() == ["small"] * 3
    pd.testing.assert_frame_equal(killed, whole)


def test_columns_can_be_added_to_a_frame_of_many_metrics(
    run: RunDirectory, make_trial: MakeTrial
) -> None:
    metrics = {f"metric_{number}": 1.0 for number in range(150)}
    run.append_trial(make_trial(1, metrics=metrics))
    frame = osmef.load(run.path)
    assert frame.assign(doubled=2 * frame["metric_7"])["doubled"].tolist() == [2.0]


def test_a_frame_describes_its_columns(run: RunDirectory, make_trial: MakeTrial) -> None:
    run.declare(Declared(measures=[RATE]))
    values = {"placement": "same-host", "colour": "red"}
    run.append_trial(make_trial(1, values=values, metrics={"odd_us": 3.0, "frames": 2.0}))
    frame = osmef.load(run.path)
    assert measures_of(frame)["frames"] == RATE
    assert list(measures_of(frame)) == ["frames", "odd_us"], "what was declared comes first"
    assert swept_of(frame) == ["placement", "colour"]
    plain = json.loads(json.dumps(frame.attrs))
    assert plain == frame.attrs
    assert plain["measures"]["frames"]["unit"] == "1/s"


def test_the_column_descriptions_of_a_frame_are_kept_by_pandas_operations(
    run: RunDirectory, make_trial: MakeTrial, tmp_path: Path
) -> None:
    run.declare(Declared(measures=[RATE]))
    for index in (1, 2):
        run.append_trial(make_trial(index, metrics={"frames": 1.0 * index}))
    frame = osmef.load(run.path)
    again = osmef.load(run.path)
    frame.to_parquet(tmp_path / "trials.parquet")
    kept = [
        frame[frame["frames"] > 1],
        frame.copy(),
        frame.copy(deep=False),
        frame.assign(more=1),
        frame.iloc[[1, 0]],
        frame.sort_values("frames"),
        frame.astype({"frames": "object"}),
        frame[["cell", "frames"]],
        pd.concat([frame, again]),
        pd.concat([frame[:1], frame[1:]], ignore_index=True),
        pd.read_parquet(tmp_path / "trials.parquet"),
    ]
    assert [measures_of(one) for one in kept] == [{"frames": RATE}] * len(kept)
    assert measures_of(frame[["cell"]]) == {}
    assert frame.copy().attrs["measures"] is frame.attrs["measures"], "or each column would copy it"


def test_a_frame_without_column_descriptions_is_reported(
    run: RunDirectory, make_trial: MakeTrial
) -> None:
    run.declare(Declared(measures=[RATE]))
    run.append_trial(make_trial(1, metrics={"frames": 1.0}))
    frame = osmef.load(run.path)
    for mute in (pd.concat([frame, pd.DataFrame({"frames": [1.0]})]), pd.DataFrame()):
        for told in (measures_of, swept_of):
            with pytest.raises(InputError, match="no definitions of its metrics") as caught:
                told(mute)
            assert "load all runs at once" in str(caught.value.cure)
    mine = describe_columns(pd.DataFrame({"frames": [1.0], "size": [2]}), [RATE], ["size", "gone"])
    assert (measures_of(mine), swept_of(mine)) == ({"frames": RATE}, ["size"])
    other = described_like(mine.groupby("size")[["frames"]].median().reset_index(), mine)
    assert measures_of(other) == {"frames": RATE}


def test_runs_that_mean_two_things_by_a_name_are_not_mixed(
    run: RunDirectory, make_trial: MakeTrial
) -> None:
    other = RunDirectory(run.path.parent / "other")
    other.path.mkdir()
    for one, unit in ((run, "1/s"), (other, "1/min")):
        one.declare(Declared(measures=[RATE.model_copy(update={"unit": unit})]))
        one.append_trial(make_trial(1, metrics={"frames": 1.0}))
    with pytest.raises(InputError, match=r"frames is in 1/(s|min) in .*, and in 1/(s|min)"):
        osmef.load(run.path, other.path)
    other.declare(Declared(measures=[RATE.model_copy(update={"help": "as fast as it can"})]))
    assert measures_of(osmef.load(run.path, other.path)) == {"frames": RATE}


def test_metrics_of_an_older_run_are_described_by_their_names() -> None:
    measures = measures_of(osmef.load(OLD_RUN))
    btc, jain = (measures[name] for name in ("aggregate_btc_bps", "jain_fairness"))
    assert (btc.unit, btc.better, btc.leading, btc.head) == (
        *("bit/s", "higher", True),
        "aggregate\nBTC",
    )
    assert (jain.unit, jain.head) == ("1", "J")
