"""Tables in as many columns as there are."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console, RenderableType

from osmef.report.fit import TextColumn, column, fitted, folded, table, total

words = st.text("abc µ→", min_size=1, max_size=12)


def printed(shown: RenderableType) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=20, soft_wrap=True).print(shown)
    return file.getvalue().splitlines()


@st.composite
def tables(draw: st.DrawFn) -> list[TextColumn]:
    rows = draw(st.integers(1, 4))
    cells = st.lists(words, min_size=rows, max_size=rows)
    ranks = st.integers(0, 3)
    heads = draw(st.lists(words, min_size=1, max_size=6))
    return [column(head, draw(cells), rank=draw(ranks), right=True) for head in heads]


@given(tables(), st.integers(10, 120))
def test_the_table_fits_or_only_mandatory_columns_are_kept(
    columns: list[TextColumn], width: int
) -> None:
    kept, left = fitted(columns, width)
    assert total(kept) <= width or not any(one.rank for one in kept)
    assert all(one in kept for one in columns if not one.rank)
    assert len(left) >= len(columns) - len(kept)


def test_the_column_of_the_highest_rank_is_omitted_first_and_named() -> None:
    columns = [
        column("key", ["a"]),
        column("first\nhead", ["1" * 30], rank=1, right=True),
        column("second", ["2" * 30], rank=2, right=True),
    ]
    text = printed(table(columns, 60, "More."))
    assert text[-2:] == ["More.", "Left out, as 60 columns have no room: second."]
    assert not any("2" * 30 in line for line in text)
    assert printed(table(columns, None))[-1].endswith("2" * 30)


def test_notes_are_broken_between_words() -> None:
    columns = [column("key", ["a"]), *(column(f"head {n}", ["1"], rank=1) for n in range(9))]
    text = printed(table(columns, 30, "One note of more than thirty letters.\nAnother."))
    assert all(len(line) <= 30 for line in text)
    assert text[4:7] == ["One note of more than thirty", "letters.", "Another."]
    assert " ".join(text[7:]).startswith("Left out, as 30 columns have no room: head 3, head 4,")


def test_a_folded_column_takes_the_room_of_the_others() -> None:
    rows = [("Mon", "a long list of names, which goes on"), ("Tue", "")]
    assert folded(rows, ("day", "what"), 30) == [
        ["Mon", "a long list of names,"],
        ["", "which goes on"],
        ["Tue", ""],
    ]
    assert folded(rows, ("day", "what"), 80) == [list(row) for row in rows]
    assert folded([], ("day", "what"), 80) == []


def test_a_long_first_column_stands_above_its_rows() -> None:
    key = "a-very-long-name-of-a-cell-that-takes-the-line"
    columns = [column("cell", [key, key, "b"]), column("n", ["1" * 20, "2" * 20, "3" * 20])]
    text = printed(table(columns, 60))
    assert text[2:] == [key, "  " + "1" * 20, "  " + "2" * 20, "b", "  " + "3" * 20]


def test_labels_that_leave_no_room_stand_above_their_rows_with_their_names() -> None:
    columns = [
        column("zone", ["us-east1-b", "us-east1-b"]),
        column("threads", ["1", "-"]),
        column("ok", ["6/6", "5/6"], right=True),
        column("spare", ["1" * 9, "2" * 9], rank=1, right=True),
    ]
    text = printed(table(columns, 20, labels=2))
    assert text[2:] == [
        "zone us-east1-b,",
        "threads 1",
        "  6/6  111111111",
        "zone us-east1-b",
        "  5/6  222222222",
    ]
    assert max(map(len, text)) <= 20
    assert printed(table(columns, 40, labels=2))[0].split() == ["zone", "threads", "ok", "spare"]


def test_wide_letters_count_twice() -> None:
    columns = [column("a", ["日本", "x"]), column("b", ["1", "2"])]
    first, second = printed(table(columns, 80))[2:]
    assert cell_len(first) == cell_len(second)
