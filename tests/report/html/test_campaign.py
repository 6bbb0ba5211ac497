"""The page of a campaign, as text and in a real browser without a network."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest

from osmef.report.html.campaign import calendar_table, render_campaign, write_campaign_report
from tests.chromium import chromium
from tests.report.html.parsed import Page
from tests.report.weeks import START, campaign

EVIL = """</script><script>alert(1)</script>'"><img src=x onerror=alert(2)>&amp;"""


def captions(page: Page) -> list[str]:
    return [one.text.strip() for one in page.all("caption")]


def test_the_page_has_every_table_once() -> None:
    page = Page(render_campaign(campaign(-0.1)))
    assert captions(page) == [
        "State of the sessions",
        "Sessions without a result",
        "Platforms",
        "Platforms, two by two",
        "By window",
        "Times against each other",
        "Over the weeks",
        "Sessions",
    ]
    text = "".join(one.text for one in page.all("main"))
    assert "between 01-11 weekday-peak and 01-11 weekday-offpeak" in text  # where the change is
    assert "peak against off-peak" in text
    assert "0.1 USD" in text
    ids = [one.attributes["id"] for one in page.elements if "id" in one.attributes]
    assert len(ids) == len(set(ids))


def test_a_change_from_a_level_of_zero_has_no_percentage() -> None:
    data = campaign(-0.1)
    early = data.trials["started_at"] < START + timedelta(days=7)
    rates = data.trials["aggregate_btc_bps"].mask(early, 0.0)
    page = Page(render_campaign(replace(data, trials=data.trials.assign(aggregate_btc_bps=rates))))
    text = "".join(one.text for one in page.all("main"))
    assert "between 01-10 weekend-offpeak and 01-11 weekday-peak: 0 to " in text
    assert "nan" not in text


def test_a_small_cost_is_not_shown_as_zero() -> None:
    planned = pd.DataFrame(
        {"platform": "small", "state": "done", "trials_ok": 3, "trials_failed": 0,
         "cost": [0.0005, 0.0007], "currency": "USD"}
    )  # fmt: skip
    (row,) = calendar_table(planned).rows
    assert row[-1].text == "0.00120 USD"


def test_the_cost_column_is_omitted_without_prices() -> None:
    """On one's own machines nothing is charged; only the states that are there are explained."""
    planned = pd.DataFrame(
        {"platform": "small", "state": ["done", "missed"], "trials_ok": 3, "trials_failed": 0,
         "cost": [None, None], "currency": None}
    )  # fmt: skip
    table = calendar_table(planned)
    heads = [one.head for one in table.columns]
    assert heads == ["platform", "sessions", "done", "missed", "trials"]
    assert {len(row) for row in table.rows} == {len(heads)}
    assert table.note == "Missed: its window had closed before it could begin."


def test_a_name_is_escaped_as_text() -> None:
    page = Page(render_campaign(campaign(facts=[("What", EVIL)]), EVIL))
    assert len(page.all("script")) == 1
    assert not [one for one in page.all("img") if "src" in one.attributes]


@pytest.mark.real("browser")
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    output = tmp_path / "weeks.html"
    write_campaign_report(campaign(), output)
    with chromium() as browser:
        context = browser.new_context(offline=True)
        page = context.new_page()
        asked: list[str] = []
        said: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(output.as_uri())
        region = page.get_by_role("region", name="Platforms", exact=True)
        region.get_by_role("button", name="median").click()
        rows = region.locator("tbody th").all_text_contents()
        assert rows == ["small", "large"]
        assert not page.get_by_text("01-04 weekday-peak").first.is_visible()
        page.get_by_text("Every session, platform by platform").click()
        assert page.get_by_text("01-04 weekday-peak").first.is_visible()
        for width in (1400, 390):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        context.close()
    assert [url for url in asked if not url.startswith("data:")] == [output.as_uri()]
    assert said == []


@pytest.mark.parametrize("cells", [1, 30])
def test_omitted_cells_are_mentioned_on_the_page(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("osmef.report.html.campaign._MOST_DRAWN", 0)
    data = campaign()
    trials = data.trials.head(12)
    more = [trials.assign(cell=f"connections={number}") for number in range(cells)]
    many = type(data)("many", _joined(more), data.metrics, data.prices, data.planned)
    page = render_campaign(many)
    assert ("more cells and metrics are not on this page" in page) is (cells > 24)
    assert page.count('<h2 id="section-') == min(cells, 24)


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(frames, ignore_index=True)
