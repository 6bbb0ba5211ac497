"""Prices that runs recorded or a file tells, and what flavors give for them."""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from osmef.errors import InputError, NothingToDrawError
from osmef.report.data import Data
from osmef.report.figures import FigureOptions, figure
from osmef.report.machine_figures import price
from osmef.report.machine_types import price_ranking, price_table, priced
from osmef.results.rundir import RunDirectory
from osmef.results.summary import HourlyPrice
from osmef.scenario.fields import Placement
from osmef.scenario.location import Location
from tests.report.drawn import texts, visible

SAMPLE = Path(__file__).parents[1] / "results" / "data" / "quickstart-20261121T031500Z-3f9a"
HEAD = "provider,flavor,price_per_hour,currency,region,date,source\n"
MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Make a run of trials between machines of flavors, of which prices may be known."""

    def make(
        name: str,
        senders: tuple[str, ...] = ("a",),
        receivers: tuple[str, ...] = ("b",),
        *,
        flavor: str | None = "m5",
        amount: float | None = None,
        region: str = "eu",
        date: str = "2026-11-01",
        trials: int = 6,
    ) -> Path:
        path = tmp_path / name
        shutil.copytree(SAMPLE, path)
        run = RunDirectory(path)
        summary, first = run.read_summary(), run.read_trials().trials[0]
        day = datetime.date.fromisoformat(date)
        paid = amount and HourlyPrice(
            amount=amount, currency="USD", region=region, date=day, source="list"
        )
        ends = [
            summary.endpoints[0].model_copy(update={"name": end, "flavor": flavor, "price": paid})
            for end in dict.fromkeys(senders + receivers)
        ]
        run.write_summary(summary.model_copy(update={"endpoints": ends}))
        names = {"senders": list(senders), "receivers": list(receivers)}
        of = [first.model_copy(update={**names, "index": n}) for n in range(trials)]
        run.trials.write_text("".join(f"{trial.model_dump_json()}\n" for trial in of))
        return path

    return make


def test_a_flavor_has_a_price_in_each_region_and_a_result_in_each_cell(make_run: MakeRun) -> None:
    data = Data(make_run("eu", amount=0.2), make_run("us", amount=0.1, region="us"))
    measure, found = price_ranking(data, None, None)
    rows = found.ranking[["region", "price_per_hour", "n", "rank"]].to_dict("records")
    assert rows == [
        {"region": "us", "price_per_hour": 0.1, "n": 6, "rank": 1},
        {"region": "eu", "price_per_hour": 0.2, "n": 6, "rank": 2},
    ]
    assert found.ranking["ci95_low"].notna().all()
    figure = price(found, measure)
    (axes,) = visible(figure)
    labels = [label.get_text().replace("\n", " ") for label in axes.get_yticklabels()]
    assert [label.split(", ")[0] for label in labels] == ["local m5 us", "local m5 eu"]
    assert "Lines: exact 95 % interval" in texts(figure)[-1]


def test_a_price_list_without_any_of_the_flavors_is_an_error(
    make_run: MakeRun, tmp_path: Path
) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(f"{HEAD}aws,other,0.1,USD,eu,2026-11-01,list\n")
    with pytest.raises(NothingToDrawError, match="has no price of local m5") as caught:
        figure("price", make_run("a"), wanted=FigureOptions(prices=file))
    assert "--flavor" in (caught.value.cure or "")


def test_of_two_prices_in_one_region_the_latest_is_used(make_run: MakeRun) -> None:
    runs = (make_run("new", amount=0.3, date="2026-11-20"), make_run("old", amount=0.2))
    table = price_table(Data(*runs), None)
    assert table["price_per_hour"].tolist() == [0.3]


def test_cells_of_two_scenarios_are_not_mixed(make_run: MakeRun) -> None:
    runs = (make_run("one", amount=0.2), make_run("two", amount=0.2))
    run = RunDirectory(runs[1])
    summary = run.read_summary()
    other = summary.run.model_copy(update={"scenario": "other"})
    run.write_summary(summary.model_copy(update={"run": other}))
    _name, found = price_ranking(Data(*runs), None, None)
    assert {cell.partition(":")[0] for cell in found.ranking["cell"]} == {"quickstart", "other"}


def test_places_of_a_cell_are_never_one_result(make_run: MakeRun) -> None:
    runs = make_run("near", amount=0.2), make_run("far", amount=0.2)
    for run, place in zip(map(RunDirectory, runs), Placement, strict=False):
        moved = [one.model_copy(update={"achieved_placement": place})
                 for one in run.read_trials().trials]  # fmt: skip
        run.trials.write_text("".join(f"{trial.model_dump_json()}\n" for trial in moved))
    _name, found = price_ranking(Data(*runs), None, None)
    assert {cell.partition(":")[0] for cell in found.ranking["cell"]} == {
        "same-host",
        "different-host",
    }
    assert found.ranking["n"].tolist() == [6, 6]


def test_several_runs_count_each_as_one_and_platforms_stand_apart(make_run: MakeRun) -> None:
    runs = [make_run(name, amount=0.2) for name in ("one", "two", "three")]
    for path, platform in zip(runs, ("p1", "p1", "p2"), strict=True):
        of = RunDirectory(path)
        known = [one.model_copy(update={"platform": platform}) for one in of.read_trials().trials]
        of.trials.write_text("".join(f"{trial.model_dump_json()}\n" for trial in known))
    _measure, found = price_ranking(Data(*runs), None, None)
    rows = zip(found.ranking["cell"], found.ranking["n"], strict=True)
    assert {cell.partition(":")[0]: n for cell, n in rows} == {"p1": 2, "p2": 6}  # runs, trials


def test_trials_that_failed_are_counted(make_run: MakeRun) -> None:
    path = make_run("flaky", amount=0.2)
    trials = RunDirectory(path).trials
    lines = trials.read_text().splitlines(keepends=True)
    failed = {"status": "failed", "metrics": {}, "achieved_placement": None,
              "failure": {"kind": "timeout", "message": "it did not end"}}  # fmt: skip
    more = [
        json.dumps({**json.loads(line), **failed, "index": 1000 + number}) + "\n"
        for number, line in enumerate(lines * 2)
    ]
    trials.write_text("".join((*lines, *more)))
    _name, found = price_ranking(Data(path), None, None)
    (row,) = found.ranking[["n", "trials", "failed"]].to_dict("records")
    assert row == {"n": 6, "trials": 18, "failed": 12}


def test_endpoints_without_a_flavor_are_listed_separately(make_run: MakeRun) -> None:
    data = Data(make_run("known", amount=0.2), make_run("bare", flavor=None))
    _name, found = price_ranking(data, None, None)
    assert (len(found.ranking), len(found.unpriced)) == (1, 1)


@pytest.mark.parametrize(
    ("senders", "receivers", "machines"),
    [(("a",), ("b",), 2), (("a", "b", "c", "d"), ("e",), 5), (("a",), ("a",), 1)],
)
def test_every_machine_is_paid_once(
    make_run: MakeRun,
    tmp_path: Path,
    senders: tuple[str, ...],
    receivers: tuple[str, ...],
    machines: int,
) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(f"{HEAD}local,m5,0.1,EUR,,2026-11-01,ours\n")
    found = priced(Data(make_run("run", senders, receivers)), file)
    assert found["price_per_hour"].tolist() == [pytest.approx(0.1 * machines)] * 6
    assert set(found["currency"]) == {"EUR"}


def test_an_ambiguous_price_is_not_chosen(make_run: MakeRun, tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    line = "local,m5,{},EUR,{},2026-11-01,ours\n"
    file.write_text(HEAD + line.format(0.1, "eu") + line.format(0.2, "us"))
    told, untold = Data(make_run("told", amount=9.0, region="us")), Data(make_run("untold"))
    assert priced(told, file)["price_per_hour"].iloc[0] == pytest.approx(0.4)
    assert priced(untold, file)["price_per_hour"].isna().all()
    with pytest.raises(InputError, match="several prices, of eu, us"):
        price_ranking(untold, None, file)


def test_machines_at_sites_have_the_prices_of_their_own_clouds(
    make_run: MakeRun, tmp_path: Path
) -> None:
    run = RunDirectory(make_run("run", ("a",), ("b",)))
    summary = run.read_summary()
    sites = {"one": "aws", "two": "gce"}
    at = {"a": Location(site="one"), "b": Location(site="two")}
    ends = [end.model_copy(update={"requested": at[end.name]}) for end in summary.endpoints]
    whole = summary.run.model_copy(update={"provider": "aws+gce", "sites": sites})
    run.write_summary(summary.model_copy(update={"run": whole, "endpoints": ends}))
    file = tmp_path / "prices.csv"
    line = "{},m5,{},EUR,,2026-11-01,ours\n"
    file.write_text(HEAD + line.format("aws", 0.1) + line.format("gce", 0.2))
    assert priced(Data(run.path), file)["price_per_hour"].tolist() == [pytest.approx(0.3)] * 6
    records = run.read_trials().trials
    own = [one.model_copy(update={"receivers": ["a"]}) for one in records]
    run.trials.write_text("".join(f"{trial.model_dump_json()}\n" for trial in own))
    _, found = price_ranking(Data(run.path), None, file)
    assert found.ranking[["provider", "price_per_hour"]].to_numpy().tolist() == [["aws", 0.1]]


def test_a_price_table_without_a_required_column_is_reported(
    make_run: MakeRun, tmp_path: Path
) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("provider,flavor,price_per_hour\nlocal,m5,0.1\n")
    with pytest.raises(InputError, match="no column currency"):
        priced(Data(make_run("run")), file)
