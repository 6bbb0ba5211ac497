"""The page of a comparison."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from osmef.analysis.quantiles import quantile_interval
from osmef.errors import InputError
from osmef.report.html.compare import Compared, Sides, write_comparison
from tests.declared import measure
from tests.report.html.parsed import Page
from tests.report.test_table import row

KNOWN = {one.name: one for one in map(measure, ("aggregate_btc_bps", "retransmits", "rtt_min_us"))}
EVIL = "</script><script>alert(1)</script>"
RATES = ([1.9e10, 2.0e10, 2.1e10] * 2, [1.8e10, 1.9e10, 2.0e10] * 2)


Values = tuple[list[float], list[float]]


def sides_of(*values: Values) -> list[Sides]:
    return [((a, b), (ends_of(a), ends_of(b))) for a, b in values]


def ends_of(values: list[float]) -> tuple[float, float] | None:
    found = quantile_interval(values)
    return None if found.low is None or found.high is None else (found.low, found.high)


def page_of(tmp_path: Path, *rows: dict[str, object], every: bool = False) -> Page:
    output = tmp_path / "page.html"
    values = [RATES if one["metric"] == "aggregate_btc_bps" else ([0.0], [1.0]) for one in rows]
    compared = Compared("a → b", rows, sides_of(*values), KNOWN, [EVIL], {"sender": [EVIL]})
    write_comparison(compared, output, every=every)
    return Page(output.read_text(encoding="utf-8"))


def test_a_row_shows_the_values_of_both_sides_and_the_verdict(tmp_path: Path) -> None:
    page = page_of(tmp_path, row("aggregate_btc_bps"), row("retransmits", verdict="same"))
    cells = [one for one in page.all("td") if "table" in one.inside]
    texts = [one.text for one in cells]
    line = ["20 Gbit/s ±5 %", "19 Gbit/s ±5.3 %", "-5.0 %", "-10.0 to -2.5 %", "0.002", "6, 6"]
    assert texts[1:7] == line
    verdict = next(one for one in cells if one.text == "worse")
    assert "bad" in verdict.attributes["class"]
    assert any("1 worse, 1 same" in one.text for one in page.all("strong"))
    assert len(page.all("circle")) >= 12


def test_a_verdict_not_significant_after_correction_is_marked(tmp_path: Path) -> None:
    """What that means is below the table, so that a row is one line."""
    reason = "better alone, but among all verdicts p = 0.93"
    page = page_of(
        tmp_path,
        row("aggregate_btc_bps", verdict="inconclusive", reason=reason),
        row("retransmits", verdict="inconclusive", reason="too few trials"),
    )
    assert [one.text for one in page.all("small")] == ["too few trials"]
    assert sum(one.text == "inconclusive*" for one in page.all("td")) == 1
    assert any("* significant on its own" in one.text for one in page.all("p"))


def test_what_a_side_lacks_is_sorted_as_unknown(tmp_path: Path) -> None:
    nothing = dict.fromkeys(("median_b", "difference", "low", "high", "p"), math.nan)
    page = page_of(tmp_path, row("aggregate_btc_bps", **nothing), row("aggregate_btc_bps"))
    keys = [one.attributes.get("data-key") for one in page.all("td") if "table" in one.inside]
    assert "nan" not in keys
    assert keys.count("") >= 4


def test_cells_that_failed_or_are_of_one_side_are_on_it(tmp_path: Path) -> None:
    told = [
        "connections=1: failed 0 of 6, 6 of 6: worse (p = 0.0022)",
        f"only A has the cell {EVIL}",
    ]
    output = tmp_path / "page.html"
    rows, sides = [row("aggregate_btc_bps")], sides_of(RATES)
    write_comparison(Compared("a → b", rows, sides, KNOWN, [], {}, told), output)
    page = Page(output.read_text(encoding="utf-8"))
    assert [one.text for one in page.all("li") if one.text in told] == told


def test_an_interval_that_reaches_far_is_shown_by_its_ends(tmp_path: Path) -> None:
    values = ([0.0, 0.0, 0.0, 0.0, 46.0, 275.0], [1.0, 1.0, 1.0, 1.0, 1.0, 3.0])
    found = row("retransmits", median_a=0.0, median_b=1.0)
    output = tmp_path / "page.html"
    write_comparison(Compared("a → b", [found], sides_of(values), KNOWN, [], {}), output)
    texts = [one.text for one in Page(output.read_text(encoding="utf-8")).all("td")]
    assert texts[1:3] == ["0 (0 to 275)", "1 (1 to 3)"]


def test_metrics_in_no_table_are_shown_on_request(tmp_path: Path) -> None:
    rows = row("aggregate_btc_bps"), row("rtt_min_us", verdict="same")
    assert [len(page_of(tmp_path, *rows, every=every).all("tr")) for every in (False, True)] == [
        2,
        3,
    ]


def test_a_file_that_is_no_page_of_ours_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("notes")
    with pytest.raises(InputError, match="a file that OSMeF did not write"):
        page_of(tmp_path, row("aggregate_btc_bps"))


def test_nothing_of_a_run_is_markup(tmp_path: Path) -> None:
    page = page_of(tmp_path, row("aggregate_btc_bps"))
    scripts = [one for one in page.all("script") if "type" not in one.attributes]
    assert len(scripts) == 2, "that of the page, and Plotly"
    assert sum(EVIL in one.text for one in page.all("li")) == 2
