"""What runs tell of machine types."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd
import pytest

from osmef.analysis.price import KEY, PRICE
from osmef.analysis.recommend import Fit, Needs, recommend
from osmef.analysis.similarity import cheapest, counterparts, machine_vectors, similarity_matrix
from osmef.errors import InputError, NothingToDrawError
from osmef.report.data import Data
from osmef.report.figures import figure
from osmef.report.machine_types import (
    machine_prices,
    machines_of,
    measured_machines,
    price_table,
    with_cloud_names,
)
from osmef.results.measure import Better, Component, Measure
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Declared
from osmef.scenario.location import Location

SAMPLE = Path(__file__).parents[1] / "results" / "data" / "quickstart-20261121T031500Z-3f9a"
MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Make a run between two machines of one flavor, with two cells."""

    def make(
        name: str,
        flavor: str | None,
        rates: tuple[float, float],
        *,
        memory: int | None = 4_000_000_000,
    ) -> Path:
        path = tmp_path / name
        shutil.copytree(SAMPLE, path)
        run = RunDirectory(path)
        summary, first = run.read_summary(), run.read_trials().trials[0]
        facts = {"before": {"memory": {"total_bytes": memory}}}
        ends = [
            end.model_copy(update={"flavor": flavor, "vcpus": 2, "facts": facts})
            for end in summary.endpoints
        ]
        whole = summary.run.model_copy(update={"provider": name})
        run.write_summary(summary.model_copy(update={"endpoints": ends, "run": whole}))
        trials = [
            first.model_copy(update={"index": n, "cell": f"{n // 3}",
                                     "metrics": {"aggregate_btc_bps": rates[n // 3]}})
            for n in range(6)
        ]  # fmt: skip
        run.trials.write_text("".join(f"{trial.model_dump_json()}\n" for trial in trials))
        return path

    return make


def vectors(table: pd.DataFrame) -> dict[object, dict[str, float]]:
    rows = machine_vectors(table).iterrows()
    return {name: {str(one): float(row[one]) for one in row.dropna().index} for name, row in rows}


def test_runs_provide_cpus_memory_and_the_best_rate(make_run: MakeRun) -> None:
    table = machines_of(Data(make_run("aws", "m5", (8e8, 1.6e9))))
    expected = {"threads": 2.0, "memory_mb": 4000.0, "network_mb_per_s": 200.0}
    assert vectors(table) == {("aws", "m5"): expected}
    assert (table["component"] == "network_mb_per_s").sum() == 3, "the trials of the best cell"


def test_each_of_several_runs_is_one_measurement(make_run: MakeRun) -> None:
    """Trials of a run share its machines, and a machine type is more than those."""
    runs = [make_run("aws", "m5", (8e8, 1.6e9))]
    runs.append(runs[0].with_name("again"))
    shutil.copytree(runs[0], runs[1])
    table = machines_of(Data(*runs))
    assert table.loc[table["component"] == "network_mb_per_s", "value"].tolist() == [200.0] * 2


def test_a_machine_with_itself_is_no_network(make_run: MakeRun) -> None:
    data = Data(make_run("aws", "m5", (8e8, 80e9)))
    loopback = data.trials["cell"] == "1"
    data.trials.loc[loopback, "receivers"] = data.trials.loc[loopback, "senders"]
    assert vectors(machines_of(data))["aws", "m5"]["network_mb_per_s"] == 100.0


def test_only_what_all_machine_types_have_is_compared(make_run: MakeRun) -> None:
    aws, gce = make_run("aws", "m5", (8e8, 8e8)), make_run("gce", "n2", (8e8, 1.6e9))
    table = measured_machines(Data(aws, gce))
    matrix = similarity_matrix(machine_vectors(table))
    assert matrix.attrs["components"] == ["threads", "memory_mb", "network_mb_per_s"]
    assert matrix.loc[("aws", "m5"), ("gce", "n2")] == pytest.approx(1 - 0.25 / 3)
    found = measured_machines(Data(aws, make_run("azure", "d2", (8e8, 8e8), memory=None)))
    assert list(machine_vectors(found)) == ["threads", "network_mb_per_s"]
    assert found.attrs["left"] == {"memory_mb": ["azure d2"]}
    with pytest.raises(NothingToDrawError, match="two machine types"):
        measured_machines(Data(aws))


def test_a_measurement_of_0_counts(make_run: MakeRun) -> None:
    runs = [make_run("aws", "m5", (8e8, 8e7)), make_run("gce", "n1", (1.6e9, 1.6e8))]
    log = RunDirectory(runs[0]).trials
    first, _, rest = log.read_text().partition("\n")
    log.write_text(first.replace("800000000.0", "0.0") + "\n" + rest)
    table = measured_machines(Data(*runs))
    rates = table["value"][table["component"].eq("network_mb_per_s") & table["flavor"].eq("m5")]
    assert rates.tolist() == [0.0, 100.0, 100.0]


def test_a_component_whose_median_is_0_is_left_out(make_run: MakeRun) -> None:
    runs = [make_run("aws", "m5", (8e8, 8e7)), make_run("gce", "n1", (1.6e9, 1.6e8))]
    log = RunDirectory(runs[0]).trials
    log.write_text(log.read_text().replace("800000000.0", "0.0").replace("80000000.0", "0.0"))
    table = measured_machines(Data(*runs))
    assert similarity_matrix(machine_vectors(table)).attrs["components"] == ["threads", "memory_mb"]
    assert table.attrs["left"] == {"network_mb_per_s": ["aws m5"]}


def test_machines_without_a_flavor_are_no_machine_types(make_run: MakeRun) -> None:
    data = Data(make_run("static", None, (8e8, 8e8)))
    with pytest.raises(NothingToDrawError, match="two machine types"):
        measured_machines(data)


def test_results_of_different_programs_are_not_compared(make_run: MakeRun) -> None:
    aws, gce = make_run("aws", "m5", (8e8, 8e8)), make_run("gce", "n2", (8e8, 1.6e9))
    run = RunDirectory(gce)
    records = run.read_trials().trials
    other = [one.model_copy(update={"workload": "another"}) for one in records]
    run.trials.write_text("".join(f"{trial.model_dump_json()}\n" for trial in other))
    told = "aws m5 by aggregate_btc_bps of btc\n  gce n2 by aggregate_btc_bps of another"
    with pytest.raises(InputError, match=told):
        measured_machines(Data(aws, gce))


def with_settings(path: Path, *settings: Mapping[str, object]) -> Path:
    """Change what the cells of a run were measured with."""
    run = RunDirectory(path)
    summary = run.read_summary()
    first, *_ = summary.cells
    cells = [
        first.model_copy(update={"key": str(number), "settings": one})
        for number, one in enumerate(settings)
    ]
    run.write_summary(summary.model_copy(update={"cells": cells}))
    return path


def test_results_with_different_settings_are_not_compared(make_run: MakeRun) -> None:
    small, large = ({"resolution": n, "duration": float(n)} for n in (512, 2048))
    aws = with_settings(make_run("aws", "m5", (8e8, 8e8)), small, small)
    gce = with_settings(make_run("gce", "n2", (8e8, 1.6e9)), large, large)
    azure = with_settings(make_run("azure", "d2", (8e8, 8e8)), {}, {})
    told = (
        r"aws m5 by aggregate_btc_bps of btc \(resolution 512\)\n  gce n2 by .*\(resolution 2048\)"
    )
    with pytest.raises(InputError, match=told):
        measured_machines(Data(aws, gce))
    with pytest.raises(InputError, match=r"d2 by .*resolution by default"):
        measured_machines(Data(aws, azure))


def test_a_killed_run_whose_settings_are_not_known_is_no_measurement(make_run: MakeRun) -> None:
    killed = RunDirectory(make_run("aws", "m5", (8e8, 8e8)))
    killed.declare(Declared.of(killed.read_summary()))
    killed.summary.unlink()
    data = Data(killed.path, make_run("gce", "n2", (8e8, 8e8)))
    assert data.trials["sender_flavors"].unique().tolist() == ["m5", "n2"]
    assert list(vectors(machines_of(data))) == [("gce", "n2")]


def test_of_swept_settings_the_best_result_is_used(make_run: MakeRun) -> None:
    swept = [{"connections": n, "duration": 1.0} for n in (1, 8)]
    aws = with_settings(make_run("aws", "m5", (8e8, 8e8)), *swept)
    gce = with_settings(make_run("gce", "n2", (8e8, 1.6e9)), {}, {"duration": 3.0})
    table = measured_machines(Data(aws, gce))
    assert set(table["by"]) == {"what the cloud and the system say", "aggregate_btc_bps of btc"}
    assert vectors(table)["gce", "n2"]["network_mb_per_s"] == 200.0


@pytest.mark.parametrize(
    ("unit", "value", "expected"), [("1/s", 4.0, 0.25), ("ms", 2500.0, 2.5), (None, 3.0, 3.0)]
)
def test_numbers_are_in_the_unit_of_the_component(
    make_run: MakeRun, unit: str | None, value: float, expected: float
) -> None:
    path = make_run("aws", "m5", (value, value))
    run = RunDirectory(path)
    summary = run.read_summary()
    cpu = {"component": Component.CPU, "unit": unit, "better": Better.LOWER}
    first, *others = summary.measures
    changed = [first.model_copy(update=cpu), *others]
    run.write_summary(summary.model_copy(update={"measures": changed}))
    assert vectors(machines_of(Data(path)))["aws", "m5"]["cpu_s"] == expected


def test_other_metrics_of_unrelated_runs_do_not_matter(make_run: MakeRun) -> None:
    aws, gce = make_run("aws", "m5", (8e8, 8e8)), make_run("gce", "n2", (8e8, 1.6e9))
    for path, unit in ((aws, "ms"), (gce, "1/s")):
        run = RunDirectory(path)
        summary = run.read_summary()
        lap = Measure(name="lap", unit=unit, better=Better.LOWER)
        run.write_summary(summary.model_copy(update={"measures": [*summary.measures, lap]}))
        laps = [
            one.model_copy(update={"metrics": {**one.metrics, "lap": 1.0}})
            for one in run.read_trials().trials
        ]
        run.trials.write_text("".join(f"{trial.model_dump_json()}\n" for trial in laps))
    with pytest.raises(InputError, match="lap is in ms in aws, and in 1/s in gce"):
        _ = Data(aws, gce).trials
    found = counterparts(measured_machines(Data(aws, gce, components=True)))
    assert len(found) == 2
    figure("similarity", aws, gce)


def with_sites(path: Path, rates: Mapping[tuple[str, str], float], **kinds: str) -> Path:
    """Make of a run one at several sites, with six trials between each two of them."""
    run = RunDirectory(path)
    summary, first = run.read_summary(), run.read_trials().trials[0]
    model = summary.endpoints[0]
    ends = [
        model.model_copy(update={"name": f"{site}-{role}", "requested": Location(site=site)})
        for site in kinds
        for role in ("sender", "receiver")
    ]
    whole = summary.run.model_copy(
        update={"sites": kinds, "provider": "+".join(dict.fromkeys(kinds.values()))}
    )
    run.write_summary(summary.model_copy(update={"endpoints": ends, "run": whole}))
    trials = [
        first.model_copy(update={"index": 6 * at + n, "cell": f"{one}-{other}",
                                 "senders": [f"{one}-sender"], "receivers": [f"{other}-receiver"],
                                 "metrics": {"aggregate_btc_bps": rate}})
        for at, ((one, other), rate) in enumerate(rates.items())
        for n in range(6)
    ]  # fmt: skip
    run.trials.write_text("".join(f"{trial.model_dump_json()}\n" for trial in trials))
    return path


NETWORKS = {("one", "one"): 8e8, ("two", "two"): 1.6e9, ("one", "two"): 80e9}


def test_sites_of_a_run_are_providers_of_their_own(make_run: MakeRun) -> None:
    path = with_sites(make_run("run", "small", (8e8, 8e8)), NETWORKS, one="aws", two="gce")
    found = vectors(measured_machines(Data(path)))
    assert {name: one["network_mb_per_s"] for name, one in found.items()} == {
        ("aws", "small"): 100.0,
        ("gce", "small"): 200.0,
    }
    table = counterparts(measured_machines(Data(path)))
    assert table["counterpart"].tolist() == ["gce small", "aws small"]
    assert table["ci95_low"].notna().all()


def test_two_sites_of_one_kind_are_not_one_provider(make_run: MakeRun) -> None:
    path = with_sites(
        make_run("run", "small", (8e8, 8e8)), NETWORKS, one="openstack", two="openstack"
    )
    assert list(vectors(measured_machines(Data(path)))) == [
        ("openstack one", "small"),
        ("openstack two", "small"),
    ]


def test_two_sites_of_one_kind_are_two_options(make_run: MakeRun) -> None:
    path = with_sites(
        make_run("run", "small", (8e8, 8e8)), NETWORKS, one="openstack", two="openstack"
    )
    data = Data(path)
    found = recommend(with_cloud_names(data, data.trials), Needs(btc_bps=1e9))
    fits = dict(zip(found["provider"], found["fit"], strict=True))
    assert fits == {
        "openstack one": Fit.NO,
        "openstack two": Fit.YES,
        "openstack one+openstack two": Fit.YES,
    }


def test_machine_types_of_sites_have_the_prices_of_their_kinds(make_run: MakeRun) -> None:
    data = Data(with_sites(make_run("run", "small", (8e8, 8e8)), NETWORKS, one="aws", two="gce"))
    columns = [*KEY, *PRICE]
    rows = [("aws", 0.4), ("gce", 0.1)]
    known = pd.DataFrame(
        [(kind, "small", amount, "USD", None, None, "list") for kind, amount in rows],
        columns=columns,
    )
    (first, second) = cheapest(measured_machines(data), machine_prices(data, known)).to_dict(
        "records"
    )
    assert (first["machine"], first["counterpart"]) == ("aws small", "gce small")
    assert first["saving"] == pytest.approx(0.75)
    assert pd.isna(second["counterpart"]), "half the network is not its class"
    alike = Data(with_sites(make_run("alike", "small", (8e8, 8e8)), NETWORKS, one="aws", two="aws"))
    (of_one, of_two) = machine_prices(alike, known).to_dict("records")
    assert [of_one["provider"], of_two["provider"]] == ["aws one", "aws two"]
    assert [of_one["price_per_hour"], of_two["price_per_hour"]] == [0.4, 0.4]


def test_the_price_is_that_of_the_region_of_the_machine(make_run: MakeRun) -> None:
    path = make_run("aws", "m5", (8e8, 8e8))
    run = RunDirectory(path)
    summary = run.read_summary()
    there = [
        end.model_copy(update={"achieved": Location(region="us")}) for end in summary.endpoints
    ]
    run.write_summary(summary.model_copy(update={"endpoints": there}))
    known = pd.DataFrame(
        [("aws", "m5", amount, "USD", region, None, "list")
         for region, amount in (("eu", 0.4), ("us", 0.1))],
        columns=[*KEY, *PRICE],
    )  # fmt: skip
    (found,) = machine_prices(Data(path), known).to_dict("records")
    assert found["price_per_hour"] == 0.1


def test_a_price_list_of_r_has_na_for_what_is_not_known(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(
        "provider,flavor,region,date,price_per_hour,currency,source\n"
        "aws,NA,NA,NA,0.1,USD,NA\naws,b,NA,NA,NA,NA,NA\n"
    )
    table = price_table(Data(), file)
    assert table["flavor"].tolist() == ["NA", "b"]
    assert table[["region", "date", "source"]].isna().all(axis=None)
    file.write_text(file.read_text().replace("USD", "NA"))
    with pytest.raises(InputError, match="aws NA: a price without a currency"):
        price_table(Data(), file)
