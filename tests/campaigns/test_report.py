"""The report of a campaign: of four simulated weeks, and of a published study."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from osmef.campaigns.schedule.load import read_campaign
from osmef.campaigns.schedule.plan import plan_campaign
from osmef.campaigns.state.rows import CampaignPhase
from osmef.campaigns.state.store import Store
from osmef.importers import import_files
from osmef.report.html.campaign import missing_results_table
from tests.campaigns.emulated import conduct
from tests.importers.samples import DATA
from tests.invoked import invoke
from tests.published import published
from tests.report.html.parsed import Page

FILE = """
name: two-clouds
description: Four simulated weeks
scenarios: [pair.yaml]
providers: {one: local, two: local}
start: 2026-03-16
weeks: 4
time_zone: Europe/Berlin
holidays: [2026-04-03]
seed: 7
"""
SCENARIO = "name: pair\nworkload: {duration: 1s}\nrepeat: 2\n"
MISSED = "the window was closed"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four weeks, of which one cloud missed five sessions in a row."""
    place = tmp_path_factory.mktemp("weeks")
    (place / "pair.yaml").write_text(SCENARIO)
    file = place / "two-clouds.yaml"
    file.write_text(FILE)
    loaded = read_campaign(file)
    store = Store(f"sqlite:///{place / 'state.sqlite'}")
    about = {"file": str(file), "text": loaded.text, "out": str(place / "two-clouds")}
    now = datetime(2026, 3, 15, tzinfo=UTC)
    store.register("two-clouds", about, plan_campaign(loaded).rows(), now)
    rows = store.sessions(store.campaign("two-clouds").id)
    lost = [one.id for one in rows if one.provider == "two"][20:25]
    store.close()
    assert conduct(file, place / "state.sqlite", place / "two-clouds", lost) is CampaignPhase.ENDED
    return place


def osmef(*arguments: str | Path, code: int = 0) -> str:
    result = invoke("campaign", "report", *arguments)
    assert result.exit_code == code, result.output
    return str(result.output)


def report(place: Path, out: Path, name: str | Path = "two-clouds") -> Page:
    state = f"sqlite:///{place / 'state.sqlite'}"
    told = osmef(name, "--state", state, "-o", out / "page.html", "--csv", out / "csv")
    assert "107 sessions, 2 platforms" in told
    return Page((out / "page.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def written(place: Path) -> tuple[Page, Path]:
    """The page, and where its tables are."""
    return report(place, place), place / "csv"


def table(page: Page, caption: str) -> str:
    return next(one.text for one in page.all("table") if one.text.strip().startswith(caption))


def test_four_weeks_in_one_page(written: tuple[Page, Path]) -> None:
    page, _tables = written
    assert "Four simulated weeks" in page.source
    assert "107 of 112 done" in page.source
    missed = table(page, "Sessions without a result")
    assert "2026-03-26 weekday-peak to 2026-03-28 weekend-peak" in missed
    assert missed.count(MISSED) == 1
    assert len(page.all("svg")) == 3
    assert "src=" not in page.source
    assert "http://" not in page.source.replace("http://www.w3.org", "")


def rows(csv: Path, *key: str) -> dict[object, dict[str, Any]]:
    """Return the rows of a table by the values of some columns."""
    found = pd.read_csv(csv).to_dict("records")
    return {tuple(row[name] for name in key): {str(k): v for k, v in row.items()} for row in found}


def test_peak_is_slower_on_weekdays_and_the_holiday_is_none(written: tuple[Page, Path]) -> None:
    _page, csv = written
    found = rows(csv / "contrasts.csv", "platform", "a")
    weekday = found["pair one", "weekday"]
    assert (weekday["n_a"], weekday["n_b"]) == (38, 18)  # a holiday on a Friday
    assert weekday["high"] < 0
    assert found["pair one", "peak"]["p_holm"] < 0.001
    windows = rows(csv / "windows.csv", "platform", "window")
    assert windows["pair two", "weekday-peak"]["median"] == pytest.approx(0.9e9, rel=0.02)
    calendar = pd.read_csv(csv / "calendar.csv")
    assert calendar["state"].value_counts().to_dict() == {"done": 107, "missed": 5}
    assert pd.read_csv(csv / "changes.csv").empty


def test_the_directory_of_a_campaign_is_reported_with_its_calendar(
    place: Path, tmp_path: Path
) -> None:
    page = report(place, tmp_path, place / "two-clouds")
    assert "107 of 112 done" in page.source


def test_a_done_session_whose_run_no_longer_exists_is_one_without_a_result(
    place: Path, tmp_path: Path
) -> None:
    copied = Path(shutil.copytree(place, tmp_path / "copied"))
    state = copied / "state.sqlite"
    with contextlib.closing(sqlite3.connect(state)) as database, database:
        (directory,) = database.execute(
            "select directory from sessions where state = 'done' order by opens limit 1"
        ).fetchone()
        database.execute("update campaigns set out = ?", (str(copied / "two-clouds"),))
    shutil.rmtree(copied / "two-clouds" / Path(directory).name)
    told = osmef("two-clouds", "--state", f"sqlite:///{state}", "-o", tmp_path / "page.html")
    assert "106 sessions, 2 platforms" in told
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert f"its run is missing: {directory}" in table(page, "Sessions without a result")


def test_a_done_session_with_a_reason_is_no_gap() -> None:
    """As one that reached its own deadline after a trial."""
    row = {"session": "one", "platform": "a", "state": "done", "why": "its deadline has passed"}
    assert missing_results_table(pd.DataFrame([row])) is None
    assert missing_results_table(pd.DataFrame([{**row, "why": None}])) is None


def test_consecutive_sessions_of_a_platform_that_were_missed_share_a_row() -> None:
    """Not those with another reason or result, nor those with a session between them."""
    found = [
        *(("1", "a", "missed", "paused"), ("1", "b", "missed", "paused")),
        *(("2", "b", "missed", "paused"), ("2", "a", "missed", "paused")),
        *(("3", "a", "done", None), ("3", "b", "failed", "paused")),
        *(("4", "a", "missed", "paused"), ("4", "b", "missed", "late")),
        *(("5", "b", "missed", None), ("6", "b", "missed", None)),
    ]
    rows = missing_results_table(
        pd.DataFrame(found, columns=pd.Index(["session", "platform", "state", "why"]))
    )
    assert rows is not None
    assert [[one.text for one in row] for row in rows.rows] == [
        ["1 to 2", "a", "2", "missed", "paused"],
        ["1 to 2", "b", "2", "missed", "paused"],
        ["3", "b", "1", "failed", "paused"],
        ["4", "a", "1", "missed", "paused"],
        ["4", "b", "1", "missed", "late"],
        ["5 to 6", "b", "2", "missed", "-"],
    ]


def test_a_report_of_runs_alone_notes_the_missing_calendar(place: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(place / "two-clouds", tmp_path / "moved"))
    page = report(place, tmp_path, moved)
    assert "Only the runs are here, not the calendar" in page.source
    assert not (tmp_path / "csv" / "calendar.csv").exists()


def test_an_unknown_campaign_is_reported(tmp_path: Path) -> None:
    state = f"sqlite:///{tmp_path / 'none.sqlite'}"
    Store(state).close()
    told = osmef("nothing", "--state", state, code=2)
    assert "there is no campaign 'nothing'" in told
    assert "cure: begin one with: osmef campaign run FILE" in told


def test_an_unknown_metric_is_reported(place: Path, tmp_path: Path) -> None:
    state = f"sqlite:///{place / 'state.sqlite'}"
    told = osmef("two-clouds", "--state", state, "--metric", "speed", code=2)
    assert "no trial has a metric 'speed'" in told


@pytest.mark.parametrize("price", ["free", "$0.1", "0,1 USD"])
def test_a_price_that_is_no_number_is_refused(price: str, tmp_path: Path) -> None:
    import_files("sessions", [DATA / "sessions.csv"], tmp_path / "runs")
    prices = tmp_path / "prices.csv"
    lines = ["platform;usd_per_hour", "Amazon EC2;0.073", f"Rackspace;{price}"]
    prices.write_text("\n".join(f'"{line}"'.replace(";", '","') for line in lines))
    told = osmef(tmp_path / "runs", "--platform-prices", prices, "-o", tmp_path / "it.html", code=2)
    told = " ".join(told.split())
    assert f"usd_per_hour is no number: {price!r}" in told
    assert f"{prices}:3" in told.replace(" ", "")


def test_the_tables_of_a_thesis_in_one_command(tmp_path: Path) -> None:
    """Deval 2017: CoV (tables 9, 10, 13, 14), p of each pair, price-performance (11, 15).

    One p is printed otherwise than the sessions give it, one is cut, and one price-performance is
    not what its median and price give.
    """
    told = pd.read_csv(published("deval-2017/sessions.csv"))
    import_files("sessions", [published("deval-2017/sessions.csv")], tmp_path / "deval")
    prices = published("deval-2017/prices.csv")
    out, csv = tmp_path / "deval.html", tmp_path / "csv"
    osmef(tmp_path / "deval", "--platform-prices", prices, "-o", out, "--csv", csv)
    key = ["platform", "cell", "metric"]
    told["cell"] = "instance_class=" + told["instance_class"]
    told["metric"] += "_score"
    printed = told.groupby(key)["published_cov_percent"].first()
    found = pd.read_csv(csv / "platforms.csv").set_index(key)["cov_percent"]
    assert len(found) == 16
    assert (found - printed).abs().max() <= 0.01
    pairs = pd.read_csv(csv / "pairs.csv")
    known = {(one["cell"], one["metric"], frozenset((one["a"], one["b"]))): one["welch_p"]
             for one in pairs.to_dict("records")}  # fmt: skip
    theirs = pd.read_csv(published("deval-2017/pvalues.csv"), dtype="string")
    off = []
    for row in theirs[theirs["note"].isna()].to_dict("records"):
        cell = f"instance_class={row['instance_class']}"
        pair = frozenset((row["platform_a"], row["platform_b"]))
        p, digits = known[cell, f"{row['metric']}_score", pair], Decimal(row["published_p"])
        last = Decimal(1).scaleb(digits.as_tuple().exponent)  # type: ignore[arg-type]
        off.append(abs(Decimal(p) - digits) / last)
    assert len(off) == 23
    assert sum(one > Decimal("0.5") for one in off) == 1  # one is cut, not rounded
    assert max(off) < 1
    list_of = pd.read_csv(prices)
    list_of["cell"] = "instance_class=" + list_of["instance_class"]
    priced = list_of.set_index(["platform", "cell"])["published_price_per_server_performance"]
    ours = pd.read_csv(csv / "prices.csv")
    ours = ours[ours["metric"] == "unixbench_multi_score"].set_index(["platform", "cell"])
    wrong = (ours["per_price"] / priced - 1).abs()
    assert wrong[wrong > 0.002].index.tolist() == [("Microsoft Azure", "instance_class=general")]
    assert set(ours["currency"]) == {"USD"}
    best = ours[ours["rank"] == 1].reset_index()["platform"]
    assert set(best) == {"Google Compute Engine"}
    page = Page(out.read_text(encoding="utf-8"))
    assert "Below 6 sessions there is no interval" in page.source
    assert "can be below 0.029, and none after the correction below 0.05" in page.source
    assert "11.68 %" in page.source


def test_skipped_cells_are_reported(tmp_path: Path) -> None:
    (tmp_path / "pair.yaml").write_text(SCENARIO + "sweep: {connections: [1, 8]}\n")
    file = tmp_path / "known.yaml"
    windows = "windows: {day: {opens: '09:00', closes: '17:00'}}\n"
    rule = "stop: {width_percent: 8, minimum: 6}\n"
    about = "name: known\nscenarios: [pair.yaml]\nstart: 2026-03-23\nweeks: 2\n"
    file.write_text(about + windows + rule)
    database = tmp_path / "state.sqlite"
    assert conduct(file, database, tmp_path / "known") is CampaignPhase.ENDED
    state = f"sqlite:///{database}"
    osmef("known", "--state", state, "-o", tmp_path / "page.html", "--csv", tmp_path)
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    told = " ".join(table(page, "Cells that were left out").split())
    assert "pairconnections=12026-03-31 day6" in told
    calendar = pd.read_csv(tmp_path / "calendar.csv")
    assert calendar["left_out"].fillna("").tolist() == [""] * 8 + ["connections=1"] * 6
    status = ["campaign", "status", "known", "--state", state]
    assert "without 1 known cell" in invoke(*status).output
    (record,) = json.loads(invoke(*status, "--json").output)
    assert record["sessions"][-1]["left_out"] == ["connections=1"]
