"""Columns of tables, as pyarrow itself makes them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.results.tables import TABLES, _column

VALUES = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(),
}


def test_every_type_of_a_column_is_tried() -> None:
    assert {field.type for schema in TABLES.values() for field in schema} == set(VALUES)


@pytest.mark.parametrize("of", VALUES, ids=str)
@given(data=st.data())
def test_a_column_is_that_of_pyarrow(of: pa.DataType, data: st.DataObject) -> None:
    values: list[Any] = data.draw(st.lists(st.none() | VALUES[of], max_size=30))
    found = _column(values, of)
    found.validate(full=True)
    assert found.equals(pa.array(values, of))
    assert found.to_pylist() == values
