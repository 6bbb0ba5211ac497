"""Tables of the page over all cells."""

from __future__ import annotations

import numpy as np

from osmef.report.html.page import layer_table
from tests.analysis.test_layers import run


def test_medians_of_layers_have_their_units_and_prefixes() -> None:
    table = layer_table(run(np.random.default_rng(1)))
    assert table is not None
    heads = [column.head for column in table.columns]
    first = dict(zip(heads, table.rows[0], strict=True))
    assert first["metric"].text == "aggregate BTC"
    assert first["bare"].text.endswith(" Mbit/s")
    assert float(first["bare"].key or 0) > 1e8
