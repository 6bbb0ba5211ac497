"""The page in a real browser, without a network: it sorts, prints, and says nothing to anybody."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from osmef.report.html.page import write_report
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary
from tests.chromium import chromium
from tests.report.html.test_compare import page_of
from tests.report.test_table import row

MakeRun = Callable[[str, Summary], RunDirectory]


pytestmark = pytest.mark.real("browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def shown(browser: Browser, make_run: MakeRun, measured: Summary, tmp_path: Path) -> Iterator[Page]:
    """The page of a run; fails if it complains or asks for anything but itself."""
    output = tmp_path / "report.html"
    write_report([make_run("a", measured).path], output)
    context = browser.new_context(offline=True)
    page = context.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(output.as_uri())
    yield page
    context.close()
    assert [url for url in asked if not url.startswith("data:")] == [output.as_uri()]
    assert said == []


def column(page: Page, head: str) -> list[str]:
    """Return the first lines of a column of the results, from above."""
    texts: list[str] = page.evaluate(
        """(head) => {
          const table = [...document.querySelectorAll("table")]
            .find((one) => one.caption.textContent === "Results by cell");
          const heads = [...table.tHead.rows[0].cells];
          const at = heads.findIndex((one) => one.textContent.startsWith(head));
          return [...table.tBodies[0].rows].map((row) => row.cells[at].firstChild.textContent);
        }""",
        head,
    )
    return texts


@pytest.mark.quick
def test_a_click_sorts_by_number_and_the_unknown_stays_last(shown: Page) -> None:
    head = shown.get_by_role("region", name="Results by cell").get_by_role(
        "button", name="aggregate BTC"
    )
    head.click()
    assert column(shown, "aggregate BTC") == ["20 Mbit/s", "940 Mbit/s", "11 Gbit/s", "-"]
    assert column(shown, "connections") == ["10", "1", "5", "50"]
    head.click()
    assert column(shown, "aggregate BTC") == ["11 Gbit/s", "940 Mbit/s", "20 Mbit/s", "-"]
    assert shown.locator("[aria-sort]").get_attribute("aria-sort") == "descending"
    assert shown.get_by_role("status").text_content() == ("Sorted by aggregate BTC, descending")


def test_the_keyboard_sorts(shown: Page) -> None:
    head = shown.get_by_role("region", name="Results by cell").get_by_role(
        "button", name="connections"
    )
    head.focus()
    for press in ("Enter", "Space"):
        shown.keyboard.press(press)
    assert column(shown, "connections") == ["50", "10", "5", "1"]


def test_the_first_tab_stop_skips_to_the_results(shown: Page) -> None:
    shown.keyboard.press("Tab")
    shown.keyboard.press("Enter")
    assert shown.evaluate("document.activeElement.id") == "main"


def test_a_figure_is_enlarged(shown: Page) -> None:
    def width() -> float:
        box = shown.locator("figure .plot").first.bounding_box()
        assert box is not None
        return box["width"]

    shown.locator("figure").first.scroll_into_view_if_needed()
    shown.locator("figure .main-svg").first.wait_for(state="visible")
    small = width()
    button = shown.get_by_role("button", name="Enlarge: Aggregate BTC")
    button.click()
    assert width() > 1.5 * small
    assert button.get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize("width", [1400, 390])
def test_the_page_is_not_wider_than_the_viewport(shown: Page, width: int) -> None:
    shown.set_viewport_size({"width": width, "height": 900})
    assert shown.evaluate("document.documentElement.scrollWidth") <= width


def test_on_a_phone_no_table_is_cut_off(shown: Page) -> None:
    """The cells of a run are compared by their whole names."""
    shown.set_viewport_size({"width": 390, "height": 900})
    shown.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    cut = """[...document.querySelectorAll(".scroll")].filter(
      (one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.ariaLabel)"""
    assert shown.evaluate(cut) == []


def test_a_comparison_has_a_line_each_row(browser: Browser, tmp_path: Path) -> None:
    """On a screen of 1280 pixels nothing is broken or out of sight; on a phone A is above B."""
    page_of(tmp_path, *(row("aggregate_btc_bps", high=high) for high in (-5e8, 5e10)))
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((tmp_path / "page.html").as_uri())
    heights = page.evaluate(
        """[...document.querySelectorAll("td.number")].map((one) => {
          const inside = document.createRange();
          inside.selectNodeContents(one);
          return inside.getClientRects().length;
        })"""
    )
    assert set(heights) == {1}
    table = page.get_by_role("region", name="Each cell and metric")
    assert table.evaluate("(one) => one.scrollWidth - one.clientWidth") <= 0
    page.set_viewport_size({"width": 390, "height": 900})
    tops = page.evaluate(
        "[...document.querySelectorAll('.strip')].map((one) => one.getBoundingClientRect().top)"
    )
    assert len(tops) == len(set(tops)) == 4
    page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_rows_of_a_comparison_that_reacts_are_apart(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    """Also where a name is broken into lines."""
    cells = (f"placement=different-host,connections={n},of={'x' * 20}" for n in range(40))
    page_of(tmp_path, *(row("aggregate_btc_bps", cell=cell) for cell in cells))
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto((tmp_path / "page.html").as_uri())
    page.locator("figure").scroll_into_view_if_needed()
    names = page.locator(".plot .yaxislayer-above text")
    names.first.wait_for()
    boxes = [one.bounding_box() for one in names.all()]
    known = sorted((one["y"], one["height"]) for one in boxes if one)
    assert len(known) == 40
    assert all(y + high <= below + 1 for (y, high), (below, _) in pairwise(known))
    page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_a_long_legend_is_above_the_panels(
    browser: Browser, make_run: MakeRun, measured: Summary, tmp_path: Path, width: int
) -> None:
    """Of many runs: the panel keeps its height, and no name is cut off or scrolled away."""
    output = tmp_path / "many.html"
    names = [f"a-run-of-a-long-name-{n}" for n in range(7)]
    write_report([make_run(name, measured).path for name in names], output)
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(output.as_uri())
    figure = page.locator("figure", has=page.locator(".legendtext", has_text="name-6"))
    for one in page.locator("figure").all():
        one.scroll_into_view_if_needed()
    figure.first.wait_for()
    box = figure.first.locator(".plot").bounding_box()
    legend, panel = (figure.first.locator(one).bounding_box() for one in (".legend", ".gridlayer"))
    assert box is not None
    assert legend is not None
    assert panel is not None
    assert legend["y"] + legend["height"] <= panel["y"]
    assert panel["height"] > 130
    bar = figure.first.locator(".legend .scrollbar")
    assert bar.evaluate("(one) => one.getBoundingClientRect().height") == 0
    page.close()


def test_paper_has_the_tables_and_the_scenario(shown: Page) -> None:
    scenario = shown.locator("details.prints pre")
    assert not scenario.is_visible()
    shown.emulate_media(media="print")
    shown.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert scenario.is_visible()
    assert not shown.get_by_text("cpu_receiver_percent").first.is_visible()
    assert not shown.get_by_role("navigation").is_visible()
    assert shown.get_by_role("table").count() >= 4
    assert shown.pdf().startswith(b"%PDF")


def test_the_heads_of_tables_are_plain_words_on_paper(shown: Page) -> None:
    # Of a button Chromium prints an empty box where it repeats a head on the next page.
    heads = shown.locator("thead th")
    words = [text.split() for text in heads.all_inner_texts()]
    shown.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert shown.locator("thead button").filter(has_text=re.compile(r"\w")).count() == 0
    told = [text.split() for text in heads.all_inner_texts()]
    assert [" ".join(one).lower() for one in told] == [" ".join(one).lower() for one in words]
    shown.evaluate("window.dispatchEvent(new Event('afterprint'))")
    shown.get_by_role("button", name="aggregate BTC").first.click()
    assert shown.locator("th[aria-sort]").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_text_stands_out(shown: Page, scheme: str) -> None:
    shown.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    ratios = shown.evaluate(
        """() => {
          const light = (colour) => {
            const [r, g, b] = colour.match(/[\\d.]+/g).map((one) => one / 255)
              .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const behind = (one) => {
            const colour = getComputedStyle(one).backgroundColor;
            return colour === "rgba(0, 0, 0, 0)" ? behind(one.parentElement) : colour;
          };
          const all = [...document.querySelectorAll("p, li, dt, dd, th, td, small, a, figcaption")];
          return all.map((one) => {
            const [a, b] = [light(getComputedStyle(one).color), light(behind(one))];
            return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
          });
        }"""
    )
    assert min(ratios) >= 4.5  # WCAG 2.1, 1.4.3


def test_the_page_is_complete_without_javascript(
    browser: Browser, make_run: MakeRun, measured: Summary, tmp_path: Path
) -> None:
    output = tmp_path / "report.html"
    write_report([make_run("a", measured).path], output)
    context = browser.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto(output.as_uri())
    assert page.get_by_role("button").count() == 0
    assert page.get_by_role("region", name="Results by cell").get_by_role("row").count() == 5
    context.close()


@pytest.mark.quick
def test_figures_react_and_their_series_are_switched(shown: Page) -> None:
    plots = shown.locator("figure .plot")
    assert plots.count() >= 2
    first = plots.first
    shown.locator("figure").first.scroll_into_view_if_needed()
    first.locator(".main-svg").first.wait_for(state="visible")
    assert not shown.locator("figure.live .drawing").first.is_visible()
    seen = "(plot) => plot.data.filter((one) => one.visible !== 'legendonly').length"
    before = first.evaluate(seen)
    first.locator(".legendtoggle").first.dispatch_event("mousedown")
    first.locator(".legendtoggle").first.dispatch_event("mouseup")
    shown.wait_for_function(
        "(least) => document.querySelector('.plot').data"
        ".filter((one) => one.visible !== 'legendonly').length < least",
        arg=before,
    )


@pytest.mark.quick
def test_a_figure_that_reacts_says_what_its_marks_mean(shown: Page) -> None:
    """Its picture has that as text of its own, so the page says it for the other one alone."""
    figure = shown.locator("figure").first
    meaning = figure.locator("figcaption .meaning")
    figure.scroll_into_view_if_needed()
    figure.locator(".main-svg").first.wait_for(state="visible")
    assert "Points: median of the trials." in meaning.inner_text()
    button = figure.locator(".enlarge").get_attribute("aria-label")
    assert button == "Enlarge: Aggregate BTC against connections"
    shown.emulate_media(media="print")
    assert not meaning.is_visible()


def test_paper_has_the_pictures(shown: Page) -> None:
    shown.emulate_media(media="print")
    assert not shown.locator("figure .plot").first.is_visible()
    assert shown.locator("figure .drawing").first.is_visible()
