"""Pictures of a page hold what they draw, and not more."""

from __future__ import annotations

import re
import warnings
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from osmef.report.html.figures import inline_svg
from osmef.report.style import HouseFigure


def test_ids_are_those_that_something_refers_to() -> None:
    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 2, 3], [1, 4, 9], marker="o")
    axes.set_title("a < b")
    found = inline_svg(figure, "r1-", "Words.")
    ids = re.findall(r' id="([^"]+)"', found)
    referred = re.findall(r"(?:href=\"#|url\(#)([^\")]+)", found)
    assert sorted(ids) == sorted(set(referred))
    assert all(one.startswith("r1-") for one in ids)
    assert inline_svg(figure, "r2-", "Words.").replace("r2-", "r1-") == found
    assert not re.search(r">\s+<", found)
    assert not re.search(r' (?:d|x|y)="[^"]*\.\d{3}', found)


def test_a_cloud_of_points_is_an_image_that_a_browser_shows() -> None:
    figure = Figure()
    figure.subplots().plot(range(50), range(50), ".", rasterized=True)
    found = inline_svg(figure, "r1-", "Words.")
    assert re.search(r'<image [^>]*\bhref="data:image/png;base64,', found)
    assert ":href" not in found


def test_words_are_text_as_wide_as_in_the_figure() -> None:
    figure = HouseFigure(figsize=(5, 3))
    axes = figure.subplots()
    axes.plot([1, 2, 3], [1, 4, 9])
    axes.set_title("Round trips  <b>", loc="left", weight="bold", size=10)
    axes.set_ylabel("RTT in µs")
    svg = inline_svg(figure, "r1-", "Words.")
    root = ElementTree.fromstring(svg)  # noqa: S314 - it is ours
    texts = {one.text: one.attrib for one in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"Round trips <b>", "RTT in µs"} < texts.keys()
    assert {one["lengthAdjust"] for one in texts.values()} == {"spacingAndGlyphs"}
    title, label = texts["Round trips <b>"], texts["RTT in µs"]
    assert float(title["textLength"]) == pytest.approx(15 * 6.2, rel=0.1)
    assert title["font-weight"] == "700"
    assert label["transform"].startswith("rotate(-90 ")
    assert all("style" not in one and "font-family" not in one for one in texts.values())
    assert root.attrib["font-family"].startswith("'DejaVu Sans',")


def test_a_letter_that_the_font_lacks_is_drawn_without_a_warning() -> None:
    figure = HouseFigure(figsize=(5, 3))
    figure.subplots().set_title("käse 测")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "käse 测" in inline_svg(figure, "r1-", "Words.")
