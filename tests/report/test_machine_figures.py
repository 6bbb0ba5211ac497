"""The figures of machines: where endpoints stood, and how types compare."""

from __future__ import annotations

from itertools import combinations, product
from types import SimpleNamespace as Of
from typing import cast

import pandas as pd
import pytest
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.text import Annotation

from osmef.analysis.price import price_performance
from osmef.errors import NothingToDrawError
from osmef.report.data import pairs_of
from osmef.report.machine_figures import price, similarity, topology
from osmef.report.options import Look
from osmef.results.observations import Purpose
from osmef.results.trial import Trial
from tests.declared import measure
from tests.report.drawn import legend, texts, visible


def endpoints(*rows: tuple[str, str | None, str | None]) -> pd.DataFrame:
    told = [{"run": "r", "endpoint": e, "host": host, "tenant": t} for e, host, t in rows]
    return pd.DataFrame(told)


def pairs(*rows: tuple[str, str, str, float]) -> pd.DataFrame:
    told = [{"run": "r", "cell": c, "sender": s, "receiver": e, "bps": b} for c, s, e, b in rows]
    return pd.DataFrame(told)


def test_hosts_endpoints_and_the_best_median_of_each_pair() -> None:
    figure = topology(
        endpoints(("a", "h1", "t1"), ("b", "h1", "t2"), ("c", "h2", "t1"), ("idle", "h3", "t1")),
        pairs(*(("x", "a", "b", bps) for bps in (1e9, 2e9, 9e9)), ("y", "a", "b", 1e9),
              ("x", "a", "c", 5e8)),
    )  # fmt: skip
    (axes,) = visible(figure)
    shown = [text.get_text() for text in axes.texts]
    assert [name for name in shown if "bit/s" in name] == ["2 Gbit/s", "500 Mbit/s"]
    assert {"h1", "h2", "a", "b", "c"} <= set(shown)
    assert not {"h3", "idle"} & set(shown)
    assert legend(figure) == ["tenant t1", "tenant t2"]
    arrows = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    assert arrows[0].get_linewidth() > arrows[1].get_linewidth()
    assert sum(isinstance(patch, FancyBboxPatch) for patch in axes.patches) == 2


def test_an_unknown_host_is_none_that_others_share() -> None:
    figure = topology(endpoints(("a", None, None), ("b", None, None)), pairs(("x", "a", "b", 1.0)))
    shown = [text.get_text() for text in visible(figure)[0].texts]
    assert {"host of a unclear", "host of b unclear"} <= set(shown)
    assert figure.legends == []


def test_loopback_has_no_arrow() -> None:
    figure = topology(endpoints(("a", "h", "t")), pairs(("x", "a", "a", 1e9)))
    (axes,) = visible(figure)
    assert "to itself: 1 Gbit/s" in [text.get_text() for text in axes.texts]
    assert not any(isinstance(patch, FancyArrowPatch) for patch in axes.patches)


def test_many_edges_have_widths_only() -> None:
    ends = [(f"s{n}", f"r{m}") for n in range(5) for m in range(5)]
    names = sorted({name for pair in ends for name in pair})
    figure = topology(
        endpoints(*((name, name[0], "t") for name in names)),
        pairs(*(("x", sender, receiver, 1e9) for sender, receiver in ends)),
    )
    assert not any("bit/s" in text.get_text() for text in visible(figure)[0].texts)
    assert "the highest: 1 Gbit/s" in texts(figure)[-1]


def test_pairs_of_datagrams_have_a_rate_each_way() -> None:
    def flows(sender: str, receiver: str, *goodputs: float | None) -> Of:
        of = [Of(goodput_bps=bps) for bps in goodputs]
        ends = {"sender": Of(endpoint=sender), "receiver": Of(endpoint=receiver, flows=of)}
        return Of(purpose=Purpose.MEASURED, **ends)

    both = [flows("a", "b", 1e6, 2e6), flows("b", "a", 4e6), flows("a", "c", None, 1e6)]
    trial = Of(cell="x", index=1, search=None, transfers=[], datagrams=both)
    told = pairs_of([("r", cast("Trial", trial))])[["sender", "receiver", "bps"]]
    assert told.to_numpy().tolist() == [["a", "b", 3e6], ["b", "a", 4e6]]


def test_nothing_is_drawn_of_nothing() -> None:
    with pytest.raises(NothingToDrawError, match="rates between pairs"):
        topology(endpoints(("a", "h", "t")), pairs_of([]))


def test_the_hosts_of_an_unfinished_run_are_shown_as_unclear() -> None:
    figure = topology(endpoints(), pairs(("x", "a", "b", 1.0)))
    shown = [text.get_text() for text in visible(figure)[0].texts]
    assert {"host of a unclear", "host of b unclear"} <= set(shown)


def test_long_names_are_broken_and_keep_to_their_columns() -> None:
    hosts = ["0123456789abcdef" * 3, "compute-node-of-a-long-name.example.org"]
    ends = [f"{site}-sender-c5n.18xlarge-host-1-tenant-1" for site in ("frankfurt", "ireland")]
    rows = [(end, host, "t") for end, host in zip(ends, hosts, strict=True)]
    figure = topology(endpoints(*rows), pairs(("x", ends[0], ends[1], 1e9)))
    figure.draw_without_rendering()
    (axes,) = visible(figure)
    names = [text for text in axes.texts if "bit/s" not in text.get_text()]
    boxes = [text.get_window_extent() for text in names]
    assert len(boxes) == 4
    for one, other in combinations(boxes, 2):
        assert not one.overlaps(other)
    assert all(figure.bbox.x0 <= one.x0 and one.x1 <= figure.bbox.x1 for one in boxes)
    (title, *_) = [text.get_window_extent() for text in figure.texts]
    assert all(one.y1 < title.y0 for one in boxes)


@pytest.mark.parametrize("back", [False, True])
def test_arrows_between_hosts_far_apart_are_within_the_figure(back: bool) -> None:
    ends = [f"e{number}" for number in range(8)]
    last = ends[0] if back else ends[-1]
    told = [("x", one, last, 1e9) for one in ends if one != last]
    figure = topology(endpoints(*((one, f"h{one}", "t") for one in ends)), pairs(*told))
    figure.draw_without_rendering()
    (axes,) = visible(figure)
    arrows = [one for one in axes.patches if isinstance(one, FancyArrowPatch)]
    shown = axes.get_window_extent()
    for box in (one.get_window_extent() for one in arrows):
        assert shown.y0 <= box.y0
        assert box.y1 <= shown.y1


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("size", [2, 4])
def test_no_rate_lies_over_other_words(size: int, apart: bool) -> None:
    senders, receivers = (
        [f"{role}-h1-t1-m{n}" for n in range(size)] for role in ("sender", "recv")
    )
    ends = list(product(senders, receivers))
    hosts = {
        name: "host-2" if apart and name in receivers else "host-1"
        for pair in ends
        for name in pair
    }
    figure = topology(
        endpoints(*((name, host, "tenant-1") for name, host in hosts.items())),
        pairs(*(("x", *pair, 1e8 * (n + 1)) for n, pair in enumerate(ends))),
    )
    figure.draw_without_rendering()
    (axes,) = visible(figure)
    words = [text for text in axes.texts if text.get_text()]
    rates = [text for text in words if "bit/s" in text.get_text()]
    assert len(rates) >= size
    boxes = {text: text.get_window_extent() for text in words}
    over = [(a.get_text(), b.get_text()) for a in rates for b in words
            if a is not b and boxes[a].overlaps(boxes[b])]  # fmt: skip
    assert over == []


@pytest.mark.parametrize("width", [None, 3.5, 5.5])
def test_no_words_lie_over_each_other_in_a_column_of_a_journal(width: float | None) -> None:
    """Four senders and four receivers: letters are smaller instead."""
    senders, receivers = ([f"{role}-h1-t1-m{n}" for n in range(4)] for role in ("sender", "recv"))
    told = [(name, "host-1" if name in senders else "host-2", "t") for name in senders + receivers]
    rates = [("x", *pair, 1e8 * (n + 1)) for n, pair in enumerate(product(senders, receivers))]
    figure = topology(endpoints(*told), pairs(*rates), Look(width=width))
    figure.draw_without_rendering()
    (axes,) = visible(figure)
    boxes = [text.get_window_extent() for text in axes.texts if text.get_text()]
    assert len(boxes) >= 10 + 4
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_a_figure_too_narrow_for_its_labels_is_rejected() -> None:
    ends = [(f"node-{n}", f"host-{n}", "t") for n in range(8)]
    rates = pairs(
        ("x", "node-0", "node-7", 1e9), *(("x", "node-0", f"node-{n}", 1e9) for n in range(1, 7))
    )
    with pytest.raises(NothingToDrawError, match="too small"):
        topology(endpoints(*ends), rates, Look(width=3.5))


def test_two_directions_are_two_arrows() -> None:
    figure = topology(
        endpoints(("a", "h1", "t"), ("b", "h2", "t")),
        pairs(("x", "a", "b", 4.4e9), ("x", "b", "a", 9e8)),
    )
    figure.draw_without_rendering()
    (axes,) = visible(figure)
    there, back = (one for one in axes.patches if isinstance(one, FancyArrowPatch))
    lowest = [one.get_path().get_extents().y0 for one in (there, back)]
    assert abs(lowest[0] - lowest[1]) > 0.1


def test_a_rate_is_placed_where_no_other_arrow_passes() -> None:
    """Of two arrows that cross, each has its rate beside the crossing."""
    figure = topology(
        endpoints(("a", "h1", "t"), ("b", "h1", "t"), ("c", "h2", "t"), ("d", "h2", "t")),
        pairs(("x", "a", "d", 4.4e9), ("y", "b", "c", 9e8)),
    )
    figure.draw_without_rendering()
    (axes,) = visible(figure)
    arrows = [one for one in axes.patches if isinstance(one, FancyArrowPatch)]
    for rate, other in zip(("4.4 Gbit/s", "900 Mbit/s"), reversed(arrows), strict=True):
        (box,) = (one.get_window_extent() for one in axes.texts if one.get_text() == rate)
        path = other.get_transform().transform_path(other.get_path())
        assert not path.intersects_bbox(box, filled=False)


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


def test_the_price_of_one_result_is_counted_in_the_singular() -> None:
    results = pd.DataFrame({"provider": ["aws"], "flavor": ["a"], "goodput_bps": [1e9]})
    prices = pd.DataFrame(
        {"provider": ["aws"], "flavor": ["a"], "price_per_hour": [0.5], "currency": ["USD"],
         "region": [""], "date": ["2026-01-01"], "source": ["page"]}
    )  # fmt: skip
    told = texts(price(price_performance(results, prices, GOODPUT), GOODPUT))[-1]
    assert told.endswith(" 1 result")


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
