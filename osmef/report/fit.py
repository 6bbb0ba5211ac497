"""Text tables fitted to a terminal: columns without room are left out by rank, and named."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

LONG = 16  # characters of a first column that is printed above its rows
_INDENT = 2
_LEAST_FOLDED = 24  # characters of a folded column
_GAPS = (2, 1)  # spaces between columns, the first that fits


@dataclass(frozen=True)
class TextColumn:
    """A column: its header, of one or more lines, and the text of each row.

    What has no room is left out by ``rank``, the highest first; 0 is always shown. Of one rank the
    last column goes first.
    """

    head: str
    texts: Sequence[Text]
    rank: int = 0
    right: bool = False

    @cached_property
    def width(self) -> int:
        """Its width in terminal cells."""
        every = [*self.head.split("\n"), *(text.plain for text in self.texts)]
        return max(map(cell_len, every), default=0)

    @property
    def name(self) -> str:
        """Its header in one line."""
        return self.head.replace("\n", " ")


def column(
    head: str, texts: Sequence[str | Text], *, rank: int = 0, right: bool = False
) -> TextColumn:
    """Return a column of plain texts or styled ones."""
    return TextColumn(
        head, [Text(one) if isinstance(one, str) else one for one in texts], rank, right
    )


def folded(rows: Sequence[Sequence[str]], heads: Sequence[str], width: int) -> list[Sequence[str]]:
    """Break the text of each row's last column between words, in the room that the others leave.

    What does not fit in one line goes on in rows that have nothing else.
    """
    others = [max(map(cell_len, texts)) for texts in zip(heads, *rows, strict=True)][:-1]
    last = max(_LEAST_FOLDED, width - sum(others) - len(others) * _GAPS[-1])
    found: list[Sequence[str]] = []
    for row in rows:
        first, *more = _wrapped(row[-1], last) or [""]
        found += [[*row[:-1], first], *([*("" for _ in others), line] for line in more)]
    return found


def total(columns: Sequence[TextColumn], gap: int = _GAPS[-1]) -> int:
    """Return the total width of columns."""
    return sum(one.width for one in columns) + gap * max(0, len(columns) - 1)


def fitted(columns: Sequence[TextColumn], width: int | None) -> tuple[list[TextColumn], list[str]]:
    """Return the columns that fit a width, and the names of the others.

    Without a ``width`` these are all. A column that says nothing in any row is left out unnamed.
    """
    kept = [one for one in columns if not one.rank or any(text.plain for text in one.texts)]
    left: list[str] = []
    while width is not None and total(kept) > width and any(one.rank for one in kept):
        last = max(range(len(kept)), key=lambda index: (kept[index].rank, index))
        left.append(kept.pop(last).name)
    return kept, [one.name for one in columns if one.name in left]


def lines(columns: Sequence[TextColumn], width: int | None, indent: int = 0) -> list[Text]:
    """Return the lines of a table: header, rule, rows."""
    gap = next((one for one in _GAPS if width is None or total(columns, one) <= width), _GAPS[-1])
    heads = [one.head.split("\n") for one in columns]
    high = max(map(len, heads), default=0)
    filled = [[""] * (high - len(head)) + head for head in heads]
    margin = " " * indent
    found = [
        _line([Text(head[row], style="bold") for head in filled], columns, gap, margin)
        for row in range(high)
    ]
    found.append(Text(margin + "─" * total(columns, gap), style="dim"))
    rows = zip_longest(*(one.texts for one in columns), fillvalue=Text())
    return found + [_line(row, columns, gap, margin) for row in rows]


def table(
    columns: Sequence[TextColumn],
    width: int | None,
    *more: str,
    title: str = "",
    long: int | None = LONG,
    labels: int = 1,
) -> Group:
    """Return a fitted table with its title, a note on missing columns, and ``more``.

    Where a first column of more than ``long`` characters leaves no room for all others, it is
    printed above its rows: once for rows that follow each other and have the same in it. Where the
    first ``labels`` columns leave no room even for those of rank 0, all of them are.
    """
    columns = _labelled(columns, labels, width, long)
    is_long = long is not None and columns[0].width > long
    if is_long and width is not None and total(columns) > width:
        kept, left = fitted(columns[1:], width - _INDENT)
        body = list(_stacked(columns[0], lines(kept, width - _INDENT, _INDENT), width))
    else:
        kept, left = fitted(columns, width)
        body = lines(kept, width)
    notes = list(more)
    if left:
        names = ", ".join(name.rstrip(".") for name in left)
        notes.append(f"Left out, as {width} columns have no room: {names}.")
    reported = [Text(line) for note in notes for line in _wrapped(note, width)]
    above = [Text(title, style="bold"), Text()] if title else []
    return Group(*above, *body, *([Text(), *reported] if reported else []))


def _wrapped(note: str, width: int | None) -> list[str]:
    """Return the lines of a note, broken between words."""
    if width is None:
        return [note]
    wrap = partial(textwrap.wrap, width=width, break_long_words=False, break_on_hyphens=False)
    return [line for part in note.split("\n") for line in wrap(part)]


def _labelled(
    columns: Sequence[TextColumn], labels: int, width: int | None, long: int | None
) -> Sequence[TextColumn]:
    """Return the columns; with one of all labels where these leave too little room."""
    above = long is not None and columns[0].width > long
    beside = [one for one in columns[above:] if not one.rank]
    if labels < 2 or width is None or total(beside) + _INDENT * above <= width:
        return columns
    texts = [_in_words(columns[:labels], row) for row in range(len(columns[0].texts))]
    return [column("", texts), *columns[labels:]]


def _in_words(labels: Sequence[TextColumn], row: int) -> Text:
    """Return the labels of a row, each with its name; not those that say nothing."""
    reported = [
        Text(f"{one.name} ") + one.texts[row]
        for one in labels
        if one.texts[row].plain not in {"", "-"}
    ]
    return Text(", ").join(reported)


def _stacked(first: TextColumn, body: Sequence[Text], width: int) -> Iterator[Text]:
    """Yield the lines of a table with the row labels on lines of their own."""
    heads = len(body) - len(first.texts)
    yield from body[:heads]
    last = None
    for text, row in zip(first.texts, body[heads:], strict=True):
        if text.plain != last:
            yield from _broken(text, width)
        yield row
        last = text.plain


def _broken(label: Text, width: int) -> Iterator[Text]:
    """Yield the lines of a label, broken between words."""
    begin = 0
    for line in _wrapped(label.plain, width) or [""]:
        begin = label.plain.index(line, begin)
        yield label[begin : begin + len(line)]
        begin += len(line)


def _line(texts: Sequence[Text], columns: Sequence[TextColumn], gap: int, margin: str) -> Text:
    """Return a row as one line."""
    found = Text(margin, no_wrap=True, overflow="ignore")
    for index, (text, one) in enumerate(zip(texts, columns, strict=True)):
        spare = " " * (one.width - cell_len(text.plain))
        found.append(" " * gap if index else "")
        found.append_text(Text(spare) + text if one.right else text + Text(spare))
    found.rstrip()
    return found
