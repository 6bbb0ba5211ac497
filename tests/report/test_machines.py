"""The figures of machine types."""

from __future__ import annotations

import pandas as pd
import pytest
from matplotlib.text import Annotation

from osmef.analysis.price import price_performance
from osmef.errors import NothingToDrawError
from osmef.report.machines import price, similarity
from osmef.report.options import Look
from tests.declared import measure
from tests.report.drawn import texts, visible

GOODPUT = measure("goodput_bps")


def test_the_heatmap_has_every_number() -> None:
    names = pd.MultiIndex.from_tuples([("aws", "a"), ("gce", "b")])
    matrix = pd.DataFrame([[1.0, 0.4], [0.4, 1.0]], index=names, columns=names)
    axes = visible(similarity(matrix, Look(names={"aws a": "ours"})))[0]
    assert [text.get_text() for text in axes.texts] == ["1.00", "0.40", "0.40", "1.00"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["ours", "gce b"]
    assert [text.get_color() for text in axes.texts[:2]] == ["black", "white"]
    with pytest.raises(NothingToDrawError):
        similarity(matrix.iloc[:0, :0])


def test_price_bars_the_best_first_and_unknown_prices_apart() -> None:
    results = pd.DataFrame(
        {"provider": "aws", "flavor": ["a", "b", "c"], "goodput_bps": [1e9, 4e9, 9e9]}
    )
    prices = pd.DataFrame(
        {"provider": "aws", "flavor": ["a", "b"], "price_per_hour": [0.5, 0.1], "currency": "USD",
         "region": "", "date": ["2026-01-01", "2026-02-01"], "source": "page"}
    )  # fmt: skip
    figure = price(price_performance(results, prices, GOODPUT), GOODPUT)
    (axes,) = visible(figure)
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == ["aws b", "aws a", "aws c"]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([40, 2])  # type: ignore[attr-defined]
    shown = [text.get_text().strip() for text in axes.texts]
    assert shown == ["0.1 USD/h", "0.5 USD/h", "price unknown"]
    assert axes.get_xlabel() == "goodput in Gbit/s for 1 USD an hour"
    assert "2026-01-01 to 2026-02-01" in texts(figure)[-1]


def test_prices_of_several_cells_have_short_names_and_stand_beside_the_intervals() -> None:
    results = pd.DataFrame(
        {"provider": "aws", "flavor": "a", "region": None,
         "cell": ["placement=same-host,connections=1", "placement=same-host,connections=8"],
         "goodput_bps": [4e9, 1e9], "ci95_low": [3e9, 1e9], "ci95_high": [9e9, 1e9]}
    )  # fmt: skip
    prices = pd.DataFrame(
        {"provider": "aws", "flavor": ["a"], "price_per_hour": [0.5], "currency": "USD",
         "region": "", "date": ["2026-01-01"], "source": "page"}
    )  # fmt: skip
    (axes,) = visible(price(price_performance(results, prices, GOODPUT), GOODPUT))
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == ["aws a, connections=1", "aws a, connections=8"]
    starts = [text.xy[0] for text in axes.texts if isinstance(text, Annotation)]
    assert starts == pytest.approx([18, 2])


def test_nothing_has_no_price() -> None:
    empty = pd.DataFrame({"provider": [], "flavor": [], "goodput_bps": []}, dtype="object")
    columns = ("provider", "flavor", "price_per_hour", "currency", "region", "date", "source")
    prices = pd.DataFrame({name: pd.Series(dtype="object") for name in columns})
    with pytest.raises(NothingToDrawError):
        price(price_performance(empty, prices, GOODPUT), GOODPUT)
