from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from osmef.report import style
from osmef.report.figures import draw_figures
from osmef.results.limits import Limit
from osmef.results.summary import CellInfo, Summary
from osmef.scenario.fields import Placement

MakeCell = Callable[..., CellInfo]
MakeSummary = Callable[..., Summary]


def texts(path: Path) -> list[str]:
    svg = ElementTree.parse(path)  # noqa: S314 - we wrote it
    return [node.text or "" for node in svg.iter("{http://www.w3.org/2000/svg}text")]


@pytest.fixture(autouse=True)
def readable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep text as text in the SVG, so that a test can read what the figure says."""
    monkeypatch.setitem(style.RC, "svg.fonttype", "none")


def test_a_bar_a_cell_and_a_legend_of_what_was_found(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    cells = [
        make_cell(connections=1, limited_by={Limit.NETWORK: 6}),
        make_cell(connections=10, limited_by={Limit.NETWORK: 20, Limit.SENDER_CPU: 40}),
    ]
    paths = draw_figures(make_summary(*cells), tmp_path)
    assert [path.name for path in paths[-2:]] == ["limits.png", "limits.svg"]
    said = texts(paths[-1])
    assert "placement different-host, tenancy same-tenant, connections 10" in said
    assert {"network", "sender-cpu"} <= {*said}
    assert "shaper" not in said


def test_no_bar_has_the_label_of_another_place(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    cell = make_cell(
        "same-host",
        achieved_placement=Placement.DIFFERENT_HOST,
        mismatch=["placement"],
        limited_by={Limit.NETWORK: 6},
    )
    for path in draw_figures(make_summary(cell), tmp_path):
        if path.suffix == ".svg":
            said = "\n".join(texts(path))
            assert "different" in said
            assert "asked for: same" in said


def test_every_limit_has_a_look(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    cell = make_cell(limited_by=dict.fromkeys(Limit, 1))
    paths = draw_figures(make_summary(cell), tmp_path)
    assert {limit.value for limit in Limit} <= {*texts(paths[-1])}


def test_without_a_verdict_there_is_no_figure(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    draw_figures(make_summary(make_cell()), tmp_path)
    assert not (tmp_path / "limits.png").exists()
