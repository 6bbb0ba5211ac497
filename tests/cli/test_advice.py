"""`osmef recommend`, `osmef similarity`, and `osmef prices list` and `rank`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Osmef

SAMPLE = str(Path(__file__).parents[1] / "results/data/quickstart-20261121T031500Z-3f9a")
PRICES = "- {provider: local, flavor: small, per_hour: 0.10 USD, date: 2026-01-01, source: ours}\n"
HEAD = (
    "provider,flavor,threads,cpu_s,memory_mb,memory_mb_per_s,"
    "disk_read_mb_per_s,disk_write_mb_per_s,network_mb_per_s\n"
)


@pytest.fixture
def prices(osmef: Osmef) -> str:
    return osmef.write(PRICES, "prices.yaml")


def test_measured_options_are_judged_by_the_requirements(osmef: Osmef, prices: str) -> None:
    needs = ("--btc", "900Mbit/s", "--budget", "0.30 USD", "--prices", prices)
    (option,) = osmef("recommend", SAMPLE, *needs, "--json").json()["options"]
    assert (option["fit"], option["btc_n"], option["btc_median"]) == ("likely", 2, 9.41e8)
    assert option["price_per_hour"] == 0.2  # of both ends
    assert "95 % needs n >= 6" in option["missing"]
    shown = osmef("recommend", SAMPLE, "--btc", "10Gbit/s")
    assert shown.code == 0
    first = [line.partition(" ")[0] for line in shown.out.splitlines()]
    assert [word for word in first if word in {"no", "yes", "likely"}] == ["no"]


def test_the_evidence_of_what_is_needed_is_shown_at_any_width(osmef: Osmef) -> None:
    shown = osmef("recommend", SAMPLE, "--rtt", "1ms", prefix=("env", "COLUMNS=40")).out
    assert "RTT µs" in shown.splitlines()[0]
    assert "no room: provider, aggregate BTC" in " ".join(shown.split())


FEW = "interval of the BTC: n = 2; 95 % needs n >= 6; 1 of 3 trials of the BTC failed"
NO_PRICE = ("--btc", "1Mbit/s", "--budget", "1 USD")


@pytest.mark.parametrize(
    ("needs", "missing"), [(("--rtt", "1ms"), "RTT"), (NO_PRICE, f"{FEW}; price")]
)
def test_what_is_missing_is_shown_at_any_width(
    osmef: Osmef, needs: tuple[str, ...], missing: str
) -> None:
    wide, narrow = (
        osmef("recommend", SAMPLE, *needs, prefix=("env", f"COLUMNS={columns}")).out
        for columns in (240, 40)
    )
    assert re.search(rf"^unknown .* {re.escape(missing)}$", wide, re.MULTILINE)
    assert f"Missing for local, small: {missing}. Left out" in " ".join(narrow.split())
    assert "missing" not in narrow


def test_what_is_missing_of_foreign_results_is_readable(osmef: Osmef) -> None:
    file = Path(__file__).parents[1] / "importers/data/nuttcp-identifier.txt"
    assert osmef("import", "nuttcp", str(file), "--no-figures").code == 0
    shown = osmef("recommend", "results", "--btc", "1Mbit/s", prefix=("env", "COLUMNS=40")).out
    assert "Missing for machines of an unknown flavor: BTC." in " ".join(shown.split())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--btc", "fast"), "--btc"),
        (("--budget", "cheap"), "is no sum of money"),
        (("--budget", "1 EUR", "--prices", "prices.yaml"), "prices are in USD"),
        (("--prices", "nowhere.yaml"), "there is no such price list"),
    ],
)
def test_needs_that_can_not_be_read(
    osmef: Osmef, prices: str, words: tuple[str, ...], told: str
) -> None:
    done = osmef("recommend", SAMPLE, *words)
    assert done.code == 2
    assert told in done.err
    assert "cure" in done.err


def test_a_provider_without_prices_is_noted_with_those_that_have_some(osmef: Osmef) -> None:
    shown = osmef("prices", "list", "--provider", "asw")
    assert shown.code == 0
    assert "note: no list has a price of 'asw'; there are prices of aws, azure, gce" in shown.err
    assert osmef("prices", "list", "--provider", "aws").err == ""


def test_flavors_are_ranked_by_what_they_give_for_their_price(osmef: Osmef, prices: str) -> None:
    (row,) = osmef("prices", "rank", SAMPLE, "--prices", prices, "--json").json()["ranking"]
    assert (row["flavor"], row["rank"], row["price_per_hour"]) == ("small", 1, 0.1)
    assert row["per_price"] == pytest.approx(9.41e9)
    unpriced = osmef("prices", "rank", SAMPLE)
    assert unpriced.code == 0
    assert "unknown" in unpriced.out
    assert "per hour" in unpriced.out
    assert "bit/s to " not in unpriced.out, "one unit for both ends of an interval"


def test_the_counterparts_of_machine_types(osmef: Osmef) -> None:
    rows = "aws,a,1,2,3,4,5,6,7\naws,b,8,8,8,8,8,8,8\ngce,c,1,2,3,4,5,6,7\n"
    path = osmef.write(HEAD + rows, "machines.csv")
    found = osmef("similarity", path, "--most", "1", "--json").json()["counterparts"]
    assert [(one["machine"], one["counterpart"]) for one in found] == [
        *(("aws a", "gce c"), ("aws b", "gce c"), ("gce c", "aws a"))
    ]
    assert found[0]["similarity"] == 1.0
    shown = osmef("similarity", path)
    assert (shown.code, shown.out.count("1.000")) == (0, 2)
    osmef.write(f"{HEAD}aws,a,0,2,3,4,5,6,7\n", "machines.csv")
    refused = osmef("similarity", path)
    assert refused.code == 2
    assert "aws a: threads is 0" in refused.err


def test_a_component_without_any_measurement_is_omitted(osmef: Osmef) -> None:
    text = "provider,flavor,threads,network_mb_per_s\naws,a,1,100\ngce,b,2,100\n"
    path = osmef.write(text, "machines.csv")
    found = osmef("similarity", path, "--json").json()
    assert found["components"] == ["threads", "network_mb_per_s"]
    assert found["counterparts"][0]["similarity"] == 1 - 0.5**2 / 2
    shown = osmef("similarity", path).out
    assert "by threads, network, of machines.csv" in shown
    assert "threads x2.00" in shown


def test_a_price_table_without_a_currency_is_rejected(osmef: Osmef) -> None:
    osmef.write("provider,flavor,price_per_hour\nlocal,small,0.1\n", "prices.csv")
    needs = ("--budget", "1 USD", "--prices", "prices.csv")
    done = osmef("recommend", SAMPLE, *needs)
    assert done.code == 2
    assert "prices.csv: the table of prices has no column currency" in done.err
    assert osmef("recommend", SAMPLE).code == 2


@pytest.mark.parametrize(
    ("price", "day", "message"),
    [
        ("inf", "2026-03-01", "prices.csv:2: price_per_hour is no number: 'inf'"),
        ("1e400", "2026-03-01", "prices.csv:2: price_per_hour is no number"),
        ("0.1", "2026-13-01", "prices.csv:2: date is no day: '2026-13-01'"),
        ("0", "2026-03-01", "prices.csv: these prices can't be used"),
    ],
)
def test_a_price_table_with_an_impossible_price_or_day_is_rejected(
    osmef: Osmef, price: str, day: str, message: str
) -> None:
    columns = "provider,flavor,price_per_hour,currency,region,date,source"
    osmef.write(f"{columns}\nlocal,small,{price},USD,,{day},us\n", "prices.csv")
    done = osmef("prices", "rank", SAMPLE, "--prices", "prices.csv")
    assert done.code == 2
    assert message in done.err


def test_the_statistics_command_checks_the_quality_of_trials(osmef: Osmef) -> None:
    (row,) = osmef("statistics", SAMPLE, "--json").json()["cells"]
    assert (row["metric"], row["n"], row["drift_p"]) == ("aggregate_btc_bps", 2, None)
    shown = osmef("statistics", SAMPLE, "--metric", "jain_fairness", "--error", "1")
    assert (shown.code, "±1 %" in shown.out) == (0, True)
    lonely = osmef("statistics", SAMPLE, "--pairs")
    assert (lonely.code, "no two cells" in lonely.err) == (2, True)


def test_an_unknown_provider_is_null(osmef: Osmef, tmp_path: Path) -> None:
    run = Path(shutil.copytree(SAMPLE, tmp_path / Path(SAMPLE).name))
    summary = json.loads((run / "summary.json").read_text())
    summary["run"]["provider"] = None
    (run / "summary.json").write_text(json.dumps(summary))
    options = osmef("recommend", str(run), "--btc", "1Mbit/s", "--json").json()["options"]
    assert {one["provider"] for one in options} == {None}


def test_the_json_of_statistics_has_the_doubts_of_the_table(osmef: Osmef, tmp_path: Path) -> None:
    run = Path(shutil.copytree(SAMPLE, tmp_path / Path(SAMPLE).name))
    first = json.loads((run / "trials.jsonl").read_text().splitlines()[0])
    lines = []
    for index in range(6):
        metrics = dict.fromkeys(first["metrics"], 100.0 + 60 * (index % 3))
        lines.append(json.dumps({**first, "index": index, "metrics": metrics}))
    (run / "trials.jsonl").write_text("\n".join(lines) + "\n")
    (row,) = osmef("statistics", str(run), "--json").json()["cells"]
    assert row["doubts"].startswith("too few for ±5 %: 6 of ")
    assert row["doubts"] in " ".join(osmef("statistics", str(run)).out.split())


def test_a_page_is_written_as_html_only(osmef: Osmef) -> None:
    done = osmef("report", SAMPLE, "-o", "summary.json")
    assert (done.code, "end with .html" in done.err) == (2, True)


def test_machine_types_of_one_provider_have_no_counterpart(osmef: Osmef) -> None:
    path = osmef.write(f"{HEAD}aws,a,1,2,3,4,5,6,7\naws,b,8,8,8,8,8,8,8\n", "machines.csv")
    done = osmef("similarity", path)
    assert (done.code, "no machine type is of another provider" in done.err) == (2, True)
