"""The page says what the runs say, whatever they are called, and asks nobody for anything."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from datetime import date
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

from osmef.analysis.describe import describe
from osmef.errors import InputError
from osmef.report.html.layout import Table, check_output, fill, number, show_number, write_page
from osmef.report.html.page import write_report
from osmef.report.html.results import results_table
from osmef.results.rundir import RunDirectory
from osmef.results.summary import CellInfo, Cost, HourlyPrice, Summary
from osmef.scenario.fields import Placement
from osmef.scenario.location import Location
from osmef.workloads.kinds.stream import Stream
from osmef.workloads.kinds.unixbench import Unixbench
from tests.report.html.parsed import Element, Page

SAMPLE = Path(__file__).parents[2] / "results/data/quickstart-20261121T031500Z-3f9a"
EVIL = """</script><script>alert(1)</script>'"><img src=x onerror=alert(2)>&amp;"""
SHORT = """'"><script>x"""

MakeRun = Callable[[str, Summary], RunDirectory]
MakeSummary = Callable[..., Summary]
MakeCell = Callable[..., CellInfo]


def page_of(tmp_path: Path, *runs: Path) -> Page:
    output = tmp_path / "report.html"
    write_report(runs, output)
    return Page(output.read_text(encoding="utf-8"))


def drawings(table: Table) -> list[str]:
    return [str(one.drawing) for line in table.rows for one in line if one.drawing]


def row(page: Page, start: str) -> str:
    return next(one.text for one in page.all("tr") if one.text.strip().startswith(start))


def pictures(page: Page) -> list[Element]:
    """Return the figures; the small drawings in rows say what stands beside them."""
    return [one for one in page.all("svg") if "aria-hidden" not in one.attributes]


def test_a_metric_called_like_a_column_is_drawn_by_its_own_values(
    make_summary: MakeSummary, make_cell: MakeCell
) -> None:
    """A user's program may report a "status", which a frame has as measured.status."""
    rates = [1e9, 1.01e9, 1.02e9, 1.03e9, 1.04e9, 1.05e9]
    usual = make_summary(make_cell(aggregate_bps=rates))
    renamed = usual.model_dump_json().replace('"aggregate_btc_bps"', '"status"')
    key = usual.cells[0].key
    trials = pd.DataFrame({"cell": key, "status": "ok", "measured.status": rates})
    drawn = results_table(Summary.model_validate_json(renamed), trials)
    same = pd.DataFrame({"cell": key, "aggregate_btc_bps": rates})
    assert drawings(drawn) == drawings(results_table(usual, same))
    assert drawings(drawn)[0].count("<circle") == 6


def test_every_number_is_shown_with_its_interval(
    tmp_path: Path, make_run: MakeRun, make_summary: MakeSummary, make_cell: MakeCell
) -> None:
    rates = [1e9, 1.01e9, 1.02e9, 1.03e9, 1.04e9, 1.05e9, 1.06e9]
    summary = make_summary(make_cell(aggregate_bps=rates))
    page = page_of(tmp_path, make_run("a", summary).path)
    told = row(page, "different-host")
    assert "1.031 to 1.06CoV 2.1 %" in told
    assert "aggregate BTC Gbit/s" in " ".join(one.text for one in page.all("thead"))


def test_rates_far_apart_have_a_unit_each(
    tmp_path: Path, make_run: MakeRun, make_summary: MakeSummary, make_cell: MakeCell
) -> None:
    fast = make_cell(aggregate_bps=[20e9] * 6, connections=1)
    slow = make_cell(aggregate_bps=[20e6] * 6, connections=2)
    page = page_of(tmp_path, make_run("a", make_summary(fast, slow)).path)
    rows = [one.text for one in page.all("tr") if one.text.strip().startswith("different-host")]
    assert any("20 Gbit/s20 to 20" in one for one in rows)
    assert any("20 Mbit/s20 to 20" in one for one in rows)


def test_rates_in_bytes_have_a_prefix_too(
    tmp_path: Path, make_run: MakeRun, make_summary: MakeSummary, make_cell: MakeCell
) -> None:
    cells = [
        make_cell(connections=n).model_copy(
            update={"workload": "stream", "metrics": {"triad_bytes_per_s": describe([rate] * 6)}}
        )
        for n, rate in ((1, 2.1e10), (2, 2.2e10), (3, 3e6))
    ]
    alike = make_run("a", make_summary(*cells[:2], others=Stream.output_measures)).path
    page = page_of(tmp_path, alike)
    assert "triad GB/s" in " ".join(one.text for one in page.all("thead"))
    assert any("Triad: medians from 21 GB/s [21 to 21 GB/s]" in p.text for p in page.all("li"))
    far = page_of(tmp_path, make_run("b", make_summary(*cells, others=Stream.output_measures)).path)
    rows = [one.text for one in far.all("tr")]
    assert any("22 GB/s22 to 22" in one for one in rows)
    assert any("3 MB/s3 to 3" in one for one in rows)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(999.4, "999"), (999.7, "1\u202f000"), (-999.7, "-1\u202f000"), (0.9997, "1"), (0.4, "0.4")],
)
def test_numbers_of_three_digits_have_no_exponent(value: float, shown: str) -> None:
    assert show_number(value) == shown


@pytest.mark.parametrize("unknown", [None, math.nan])
def test_an_unknown_number_is_sorted_as_unknown(unknown: float | None) -> None:
    field = number(unknown)
    assert (field.text, field.key) == ("-", "")


def test_too_few_trials_have_no_interval_and_the_reason(tmp_path: Path) -> None:
    page = page_of(tmp_path, SAMPLE)
    told = [one.text for one in page.all("tr") if "no interval" in one.text]
    assert any("941no intervaln 2, CoV 0.15 %" in one for one in told)
    assert any("95 % needs n >= 6" in one.text for one in page.all("details"))


def test_cells_with_too_few_trials_are_named_with_their_metric(
    tmp_path: Path, make_run: MakeRun, make_summary: MakeSummary, make_cell: MakeCell
) -> None:
    run = make_run("a", make_summary(make_cell(connections=1), make_cell(connections=2)))
    one, other = map(json.loads, run.trials.read_text().splitlines())
    rates = [1e9, 1.2e9, 0.8e9, 1.4e9, 0.7e9, 1.1e9]
    trials = [
        {**trial, "index": 2 * n + of, "repetition": n + 1, "metrics": {"aggregate_btc_bps": rate}}
        for of, trial in ((1, one), (2, other))
        for n, rate in enumerate(rates)
    ]
    run.trials.write_text("".join(f"{json.dumps(trial)}\n" for trial in trials))
    told = " ".join(one.text for one in page_of(tmp_path, run.path).all("li"))
    assert "more trials are needed: aggregate BTC of connections=1 (6 of" in told
    assert ", connections=2 (6 of" in told


def test_too_few_sessions_are_named_for_all_runs_together(
    tmp_path: Path, make_run: MakeRun, make_summary: MakeSummary, make_cell: MakeCell
) -> None:
    paths = []
    for day, rate in enumerate([1e9, 1.2e9, 0.8e9, 1.4e9, 0.7e9, 1.1e9]):
        run = make_run(f"day-{day}", make_summary(make_cell(aggregate_bps=(rate,) * 6)))
        trial = json.loads(run.trials.read_text())
        of = {**trial, "session": f"day {day}", "platform": "here"}
        run.trials.write_text(json.dumps(of) + "\n")
        paths.append(run.path)
    source = page_of(tmp_path, *paths).source
    head, told = source.find("<h3>All runs together</h3>"), source.find("more sessions are needed:")
    assert 0 < head < told < source.find('<h2 id="runs">')


def test_a_placement_other_than_requested_is_reported(
    tmp_path: Path, make_run: MakeRun, make_summary: MakeSummary, make_cell: MakeCell
) -> None:
    other = make_cell(
        achieved_placement=Placement.SAME_HOST, distance=0, mismatch=["placement", "distance"]
    )
    page = page_of(tmp_path, make_run("a", make_summary(other)).path)
    told = row(page, "vm-1vm-2")
    assert "same-hostasked for: different-host" in told
    assert "0asked for: 2" in told
    assert "not as asked for: placement, distance" in told


def test_the_cost_of_a_run_is_shown(
    tmp_path: Path, make_run: MakeRun, make_summary: MakeSummary, make_cell: MakeCell
) -> None:
    price = HourlyPrice(
        amount=0.1, currency="USD", region=None, date=date(2026, 1, 1), source="ours"
    )
    rate = describe([1e9] * 6).model_copy(update={"per_price": 1e10})
    cell = make_cell(
        price_per_hour=Cost(amount=0.2, currency="USD"), metrics={"aggregate_btc_bps": rate}
    )
    summary = make_summary(cell)
    paid = summary.run.model_copy(
        update={"vm_hours": 1.5, "cost": Cost(amount=0.15, currency="USD")}
    )
    ends = [one.model_copy(update={"price": price}) for one in summary.endpoints]
    priced = summary.model_copy(update={"run": paid, "endpoints": ends})
    page = page_of(tmp_path, make_run("a", priced).path)
    assert "0.150 USD for 1.5 VM hours, without traffic, disks and addresses" in page.source
    assert "0.200 USD" in row(page, "different-host")
    assert "0.100 USD an hour, 2026-01-01, ours" in page.source


@pytest.mark.real("published")
def test_a_run_took_as_long_as_it_was_worked_on(
    tmp_path: Path, make_run: MakeRun, measured: Summary
) -> None:
    info = measured.run.model_copy(update={"worked_s": 95.0})
    extended = make_run("extended", measured.model_copy(update={"run": info}))
    page = page_of(tmp_path, make_run("older", measured).path, extended.path)
    assert "40 min" in row(page, "1older")
    told = row(page, "2extended")
    assert ("1 min 35 s" in told, "40 min" in told) == (True, False)


def test_the_placement_of_imported_runs_is_shown_as_unverified(
    tmp_path: Path, make_run: MakeRun, measured: Summary
) -> None:
    info = measured.run.model_copy(update={"scenario_digest": None, "seed": None})
    run = make_run("imported", measured.model_copy(update={"run": info}))
    run.scenario.unlink()
    page = page_of(tmp_path, run.path)
    assert "noimported, as the files say" in row(page, "vm-1vm-2")
    assert any("This run was imported" in one.text for one in page.all("p"))


@pytest.mark.real("published")
def test_several_runs_and_how_their_hosts_differ(
    tmp_path: Path, make_run: MakeRun, measured: Summary
) -> None:
    def with_kernel(release: str) -> Summary:
        facts = {"before": {"kernel": {"release": release}, "uptime_s": len(release)}}
        ends = [one.model_copy(update={"facts": facts}) for one in measured.endpoints]
        return measured.model_copy(update={"endpoints": ends})

    runs = [make_run(name, with_kernel(name)).path for name in ("6.1", "6.12")]
    page = page_of(tmp_path, *runs)
    rows = [one.text for one in page.all("tr") if one.text.strip().startswith("kernel.release")]
    assert [" ".join(one.split()) for one in rows] == [
        'kernel.release"6.1"1: vm-1, 1: vm-2',
        'kernel.release"6.12"2: vm-1, 2: vm-2',
    ]
    assert not any("uptime_s" in one.text for one in page.all("tr"))


def test_runs_of_several_workloads_name_the_metric_in_the_row(
    tmp_path: Path, make_run: MakeRun, make_cell: MakeCell, make_summary: MakeSummary
) -> None:
    bulk = make_summary(*(make_cell(connections=n, aggregate_bps=[n * 9e8] * 6) for n in (1, 5)))
    udp = make_cell(aggregate_bps=[]).model_copy(
        update={"workload": "udp", "metrics": {"goodput_bps": describe([2e7] * 6)}}
    )
    times = make_cell(aggregate_bps=[]).model_copy(
        update={"workload": "latency", "metrics": {"rtt_p50_us": describe([10486.0] * 6)}}
    )
    of_requests = {"goodput_bps": describe([4e7] * 6), "time_p50_us": describe([6550.0] * 6)}
    requests = make_cell(aggregate_bps=[]).model_copy(
        update={"workload": "pingpong", "metrics": of_requests}
    )
    index = make_cell(aggregate_bps=[]).model_copy(
        update={"workload": "unixbench", "metrics": {"unixbench_index": describe([512.5] * 6)}}
    )
    others = {"udp": udp, "times": times, "requests": requests}
    scores = make_summary(index, others=Unixbench.output_measures)
    kinds = (
        *(("bulk", bulk), ("scores", scores)),
        *((name, make_summary(cell)) for name, cell in others.items()),
    )
    page = page_of(tmp_path, *(make_run(name, of).path for name, of in kinds))
    (together,) = [one for one in page.all("table") if "Each cell of each run" in one.text]
    several = ("goodput40 Mbit/s", "time p506\u202f550 µs")
    one = ("aggregate BTC4.5 Gbit/s", "goodput20 Mbit/s", "RTT p5010\u202f486 µs")
    for words in (*one, *several, "index512no interval"):  # a pure number has no unit
        assert words in together.text


def test_endpoints_name_their_site_and_its_kind(
    tmp_path: Path, make_run: MakeRun, measured: Summary
) -> None:
    ends = [
        one.model_copy(update={"achieved": Location(site=site)})
        for one, site in zip(measured.endpoints, ("ec2", "office"), strict=True)
    ]
    info = measured.run.model_copy(update={"sites": {"ec2": "aws", "office": "static"}})
    run = make_run("sites", measured.model_copy(update={"run": info, "endpoints": ends}))
    assert row(page_of(tmp_path, run.path), "vm-1ec2").startswith("vm-1ec2aws")


@pytest.mark.parametrize(
    ("count", "text"), [(51, "and 1 more reason, in"), (52, "2 more reasons,")]
)
def test_of_many_reasons_of_failures_the_rest_is_counted(
    tmp_path: Path, count: int, text: str
) -> None:
    run = RunDirectory(shutil.copytree(SAMPLE, tmp_path / SAMPLE.name))
    failed = json.loads(run.trials.read_text().splitlines()[-1])
    lines = [
        failed | {"index": 10 + n, "failure": failed["failure"] | {"message": f"reason {n}"}}
        for n in range(count - 1)
    ]
    with run.trials.open("a") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)
    assert any(text in one.text for one in page_of(tmp_path, run.path).all("li"))


def test_failures_have_reason_place_and_cure(tmp_path: Path) -> None:
    page = page_of(tmp_path, SAMPLE)
    (failed,) = [one for one in page.all("ul") if one.attributes.get("class") == "failed"]
    assert failed.text.strip().startswith("1 \N{MULTIPLICATION SIGN} ")
    assert "Cells: connections=1" in failed.text


def test_how_to_reproduce_it(tmp_path: Path) -> None:
    page = page_of(tmp_path, SAMPLE)
    codes = [one.text for one in page.all("code")]
    assert "osmef run scenario.yaml --set seed=42" in codes
    assert (SAMPLE / "scenario.yaml").read_text() in codes
    assert "0" * 64 in [one.text for one in page.all("dd")]


@pytest.mark.parametrize("ended", [False, True])
def test_an_incomplete_run_is_shown_with_the_resume_command(
    tmp_path: Path, make_run: MakeRun, measured: Summary, ended: bool
) -> None:
    cut = measured.run.model_copy(update={"complete": False})
    run = make_run("cut", measured.model_copy(update={"run": cut}))
    if not ended:
        run.summary.unlink()
    page = page_of(tmp_path, run.path)
    (warning,) = [one for one in page.all("p") if one.attributes.get("class") == "warning"]
    assert f"osmef resume {run.path}" in warning.text
    assert any("Results" in one.text for one in page.all("caption")), "what there is, is shown"
    assert len(page.all("svg")) >= 2


def test_user_supplied_names_are_escaped_as_text(
    tmp_path: Path, make_run: MakeRun, measured: Summary
) -> None:
    evil = {
        "scenario": EVIL,
        "description": EVIL,
        "tags": {EVIL: EVIL},
        "warnings": [EVIL],
        "provider": EVIL,
    }
    cells = [
        one.model_copy(update={"key": EVIL, "values": {**one.values, SHORT: SHORT}})
        for one in measured.cells
    ]
    summary = measured.model_copy(
        update={"run": measured.run.model_copy(update=evil), "cells": cells}
    )
    run = make_run("evil", summary)
    run.scenario.write_text(EVIL)
    output = tmp_path / "report.html"
    write_report([run.path], output, title=EVIL)
    page = Page(output.read_text(encoding="utf-8"))
    scripts = [one for one in page.all("script") if "type" not in one.attributes]
    assert len(scripts) == 2, "that of the page, and Plotly"
    for data in (one.text for one in page.all("script") if "type" in one.attributes):
        assert "<" not in data
        assert json.loads(data)["layout"]
    assert page.all("img") == []
    assert not [key for one in page.elements for key in one.attributes if key.startswith("on")]
    assert page.all("h1")[0].text == EVIL
    assert EVIL in [one.text for one in page.all("code")]


def test_the_page_loads_nothing_external(
    tmp_path: Path, make_run: MakeRun, measured: Summary
) -> None:
    page = page_of(tmp_path, make_run("a", measured).path)
    links = [
        value
        for one in page.elements
        for key, value in one.attributes.items()
        if key in {"src", "href", "xlink:href", "action", "data"}
    ]
    assert links
    assert [link for link in links if not link.startswith(("#", "data:"))] == []
    assert [one for one in page.all("style") if "@import" in one.text] == []
    plotly = max((one.text for one in page.all("script")), key=len)
    urls = re.findall(r"url\(([^)]*)\)", page.source.replace(plotly, ""))
    assert [url for url in urls if not url.strip("'\"").startswith(("#", "data:"))] == []
    policy = [one.attributes.get("content", "") for one in page.all("meta")]
    assert any("default-src 'none'" in text for text in policy)


def test_the_page_is_accessible_to_screen_readers(
    tmp_path: Path, make_run: MakeRun, measured: Summary
) -> None:
    page = page_of(tmp_path, make_run("a", measured).path, make_run("b", measured).path)
    assert page.all("html")[0].attributes["lang"] == "en"
    assert len(page.all("h1")) == len(page.all("main")) == 1
    ids = [one.attributes["id"] for one in page.elements if "id" in one.attributes]
    assert sorted(set(ids)) == sorted(ids)
    links = [one.attributes["href"][1:] for one in page.all("a")]
    assert set(links) <= set(ids)
    heads = page.all("th")
    assert {one.attributes.get("scope") for one in heads} == {"col", "row"}
    assert len(page.all("caption")) == len(page.all("table"))
    figures = pictures(page)
    assert len(figures) == 13  # six of each, and one of both
    assert all(one.attributes["role"] == "img" for one in figures)
    assert "Aggregate BTC against connections" in figures[0].attributes["aria-label"]
    levels = [int(one.tag[1]) for one in page.elements if re.fullmatch("h[1-6]", one.tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.real("browser")
def test_a_thousand_cells_stay_a_page(
    tmp_path: Path, make_run: MakeRun, make_summary: MakeSummary, make_cell: MakeCell
) -> None:
    cells = [make_cell(connections=n) for n in range(1, 1001)]
    output = tmp_path / "report.html"
    write_report([make_run("large", make_summary(*cells)).path], output)
    assert output.stat().st_size < 10_000_000
    page = Page(output.read_text(encoding="utf-8"))
    assert any("The first 4000 of 7000 numbers" in one.text for one in page.all("p"))


def test_a_path_without_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such run"):
        write_report([tmp_path / "nothing"], tmp_path / "report.html")


@pytest.mark.parametrize("held", [b"<html>notes of mine</html>", b"\x00" * 9000])
def test_a_file_that_is_no_page_of_ours_is_not_replaced(tmp_path: Path, held: bytes) -> None:
    output = tmp_path / "notes.html"
    output.write_bytes(held)
    with pytest.raises(InputError, match="a file that OSMeF did not write") as caught:
        write_report([SAMPLE], output)
    assert "another with -o" in str(caught.value.cure)
    assert output.read_bytes() == held


def test_an_older_page_is_replaced(tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    write_page(output, fill("base.html.jinja", "old", live=False))
    write_page(output, fill("base.html.jinja", "new", live=True))
    assert "<h1>new</h1>" in output.read_text(encoding="utf-8")
    output.write_bytes(b"")
    check_output(output)
    with pytest.raises(InputError, match=r"can't be written as page\.txt"):
        check_output(tmp_path / "page.txt")


@pytest.mark.real("published")
def test_many_runs_have_one_table_together_and_few_sections(
    tmp_path: Path,
    make_run: MakeRun,
    make_summary: MakeSummary,
    make_cell: MakeCell,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("osmef.report.html.page._MOST_PARTS", 2)
    monkeypatch.setattr("osmef.report.html.page._MOST_ROWS", 3)
    summary = make_summary(*(make_cell(connections=n) for n in (1, 5)))
    paths = [make_run(name, summary).path for name in ("a", "b", "c")]
    page = page_of(tmp_path, *paths)
    assert len([one for one in page.all("section") if one.attributes.get("class") == "run"]) == 2
    (together,) = [one for one in page.all("table") if "of each run" in one.text]
    assert "The first 3 of 6 rows" in " ".join(one.text for one in page.all("p"))
    assert "connections=1" in together.text
    assert any("1 more runs have no section" in one.text for one in page.all("p"))


def test_the_page_has_a_table_of_how_far_the_numbers_can_be_trusted(
    tmp_path: Path, make_run: MakeRun, measured: Summary
) -> None:
    page = page_of(tmp_path, make_run("a", measured).path)
    (table,) = [one for one in page.all("table") if "be trusted" in one.text]
    assert "aggregate_btc_bps" in table.text


def test_the_cells_of_a_run_are_compared_in_pairs(
    tmp_path: Path, make_run: MakeRun, make_summary: MakeSummary, make_cell: MakeCell
) -> None:
    run = make_run("a", make_summary(*(make_cell(connections=n) for n in (1, 5))))
    (one, other) = run.read_trials().trials
    blocks = [
        trial.model_copy(
            update={
                "index": 2 * number + place,
                "group": number,
                "repetition": number,
                "metrics": {"aggregate_btc_bps": (1e9 + 1e7 * number) * (2 - place)},
            }
        )
        for number in range(1, 7)
        for place, trial in enumerate((one, other))
    ]
    run.trials.write_text("".join(f"{trial.model_dump_json()}\n" for trial in blocks))
    page = page_of(tmp_path, run.path)
    (table,) = [one for one in page.all("table") if "cells of the run differ" in one.text]
    assert "connections=1 against connections=5" in table.text
    assert "2..2" in table.text
    assert "paired" in table.text


def test_an_inventory_declares_where_hosts_stand(
    tmp_path: Path, make_run: MakeRun, make_summary: MakeSummary, make_cell: MakeCell
) -> None:
    summary = make_summary(make_cell())
    run = summary.run.model_copy(update={"provider": "static"})
    page = page_of(tmp_path, make_run("a", summary.model_copy(update={"run": run})).path)
    (table,) = [one for one in page.all("table") if "Where the endpoints were placed" in one.text]
    assert "declared" in table.text


@pytest.mark.parametrize(("site", "told"), [("ec2", "yes"), ("office", "declared")])
def test_an_inventory_declares_where_hosts_of_its_site_stand(
    tmp_path: Path, make_run: MakeRun, measured: Summary, site: str, told: str
) -> None:
    sites = {"provider": "aws+static", "sites": {"ec2": "aws", "office": "static"}}
    at = {"achieved": Location(site=site)}
    ends = [one.model_copy(update=at) for one in measured.endpoints]
    several = {"run": measured.run.model_copy(update=sites), "endpoints": ends}
    page = page_of(tmp_path, make_run("a", measured.model_copy(update=several)).path)
    (table,) = [one for one in page.all("table") if "Where the endpoints were placed" in one.text]
    assert told in table.text


@pytest.mark.parametrize(
    ("counts", "more"),
    [((1, 5), ["Jain's index", "CPU load", "Endpoints in"]), ((1,), ["Endpoints in"])],
)
def test_a_run_page_has_only_the_figures_that_apply(
    tmp_path: Path,
    make_run: MakeRun,
    make_cell: MakeCell,
    measured: Summary,
    *,
    counts: tuple[int, ...],
    more: list[str],
) -> None:
    cells = [make_cell(connections=n) for n in counts]
    page = page_of(tmp_path, make_run("a", measured.model_copy(update={"cells": cells})).path)
    told = [one.attributes["aria-label"] for one in pictures(page)]
    for label, words in zip(told, ["Aggregate", "BTC per connection", *more], strict=True):
        assert label.startswith(words)


def test_runs_without_sessions_have_no_figure_of_too_many_cells(
    tmp_path: Path,
    make_run: MakeRun,
    make_cell: MakeCell,
    measured: Summary,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("osmef.report.html.page._MOST_CELLS", 3)
    found = []
    for count in (1, 2):
        cells = [make_cell(connections=n) for n in range(1, count + 1)]
        summary = measured.model_copy(update={"cells": cells})
        paths = [make_run(f"{count}-{night}", summary).path for night in "ab"]
        page = page_of(tmp_path, *paths)
        (together,) = [one for one in page.all("table") if "Each cell of each run" in one.text]
        assert together.text.count("connections=") == 2 * count
        figures = [one.attributes["aria-label"] for one in pictures(page)]
        none = any("no figure of all runs" in one.text for one in page.all("p"))
        found.append((any(label.endswith("above.") for label in figures), none))
    assert found == [(True, False), (False, True)]
