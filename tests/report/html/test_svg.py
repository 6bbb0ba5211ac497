"""Pictures of a page hold what they draw, and not more."""

from __future__ import annotations

import re

from matplotlib.figure import Figure

from osmef.report.html.svg import inline_svg


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
