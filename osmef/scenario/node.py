"""Values of a file with their positions, for messages, and the excerpt of a problem's line."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from unicodedata import combining, east_asian_width

from osmef.errors import InputError, Problem
from osmef.scenario.study import Scalar
from osmef.units import parse_count

Keys = tuple[str, ...]
"""Keys from the top of the file down to a value."""

MAX_DEPTH = 30
MAX_NODES = 50_000
MAX_CHARACTERS = 1 << 20


@dataclass(frozen=True)
class SourceText:
    """A text and its display name; ``is_option`` for one of the command line."""

    file: str
    text: str
    is_option: bool = False

    def problem(self, index: int, message: str, cure: str) -> Problem:
        """Return a problem at a character; the end is that of the last line."""
        starts, end = self._line_starts
        index = min(index, end)
        line = bisect_right(starts, index)
        column = index - starts[line - 1] + 1
        return Problem(self.file, line, column, message, cure, self._excerpt(line, column))

    def _excerpt(self, line: int, column: int) -> str:
        """Return the line for display; empty if it may have a secret."""
        if self.is_option or line in self._secret_lines:
            return ""
        starts, _ = self._line_starts
        end = starts[line] if line < len(starts) else len(self.text)
        return excerpt(
            self.text[starts[line - 1] : end].removesuffix("\n").removesuffix("\r"), column
        )

    @cached_property
    def _secret_lines(self) -> frozenset[int]:
        return secret_lines(self.text)

    @cached_property
    def _line_starts(self) -> tuple[list[int], int]:
        """The offsets of all lines' beginnings, and of the end."""
        starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        return starts, len(self.text.rstrip())

    def error(self, index: int, message: str, cure: str) -> InputError:
        """Return the error of a text that can't be parsed from this character on."""
        return InputError.from_problems([self.problem(index, message, cure)])


class Entry(NamedTuple):
    """A key of a mapping and its value."""

    key: Node
    value: Node

    @property
    def is_made(self) -> bool:
        """Whether the key is not written, but was put around a value for its path."""
        return self.key.source is self.value.source and self.key.index == self.value.index


Content = Scalar | tuple["Node", ...] | Mapping[str, Entry]


@dataclass(frozen=True, eq=False)
class Node:
    """A value of a file, and the offset of its first character."""

    source: SourceText
    index: int
    content: Content

    def problem(self, message: str, cure: str) -> Problem:
        """Return a problem at this value."""
        return self.source.problem(self.index, message, cure)

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Keys and values of a mapping; empty for another value."""
        return self.content if isinstance(self.content, Mapping) else {}

    @property
    def items(self) -> tuple[Node, ...]:
        """Values of a list; empty for another value."""
        return self.content if isinstance(self.content, tuple) else ()

    def plain(self) -> object:
        """Return the value as plain dicts, lists and scalars."""
        if isinstance(self.content, Mapping):
            return {key: entry.value.plain() for key, entry in self.content.items()}
        if isinstance(self.content, tuple):
            return [item.plain() for item in self.content]
        return self.content

    def get(self, path: Keys) -> Node | None:
        """Return the value at a path; None if it does not exist."""
        node: Node | None = self
        for key in path:
            entry = node.entries.get(key) if node else None
            node = entry.value if entry else None
        return node

    def nearest(self, path: Keys) -> Node:
        """Return the value at a path, or its nearest existing parent."""
        node = self
        for key in path:
            if key in node.entries:
                node = node.entries[key].value
            elif (number := parse_count(key)) is not None and number < len(node.items):
                node = node.items[number]
        return node

    def put(self, path: Keys, value: Node) -> Node:
        """Return a copy with the value at a path, creating mappings on the way.

        A mapping can be written as its ``kind`` alone; such a text becomes a mapping again. In a
        list a number is the index of an item, from 0.
        """
        if not path:
            return value
        number = parse_count(path[0])
        if number is not None and number < len(self.items):
            items = list(self.items)
            items[number] = items[number].put(path[1:], value)
            return Node(self.source, self.index, tuple(items))
        entries = dict(self.entries)
        if isinstance(self.content, str):
            entries["kind"] = Entry(self, self)
        entry = entries.get(path[0])
        key = entry.key if entry else Node(value.source, value.index, path[0])
        inner = entry.value if entry else Node(value.source, value.index, {})
        entries[path[0]] = Entry(key, inner.put(path[1:], value))
        return Node(self.source, self.index, entries)

    def without(self, key: str) -> Node:
        """Return a copy of a mapping without a key."""
        return Node(self.source, self.index, {k: e for k, e in self.entries.items() if k != key})


class Builder:
    """Builder of a text's nodes within bounds, which collects problems."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self.count = 0
        self._characters = 0

    def note(self, index: int, message: str, cure: str) -> None:
        """Note a problem that does not end parsing."""
        self.problems.append(self.source.problem(index, message, cure))

    def enter(self, index: int, depth: int) -> None:
        """Count a value; raises InputError for too many, or too deep nesting."""
        self.count += 1
        if depth > MAX_DEPTH:
            raise self.source.error(
                index,
                f"values are nested more than {MAX_DEPTH} levels deep, or a value contains itself",
                "no scenario needs that; write the values out flat",
            )
        if self.count > MAX_NODES:
            raise self.source.error(
                index,
                f"the file holds more than {MAX_NODES} values",
                "split the scenario; check its aliases (*name), which repeat what they name",
            )

    def scalar(self, index: int, read: Callable[[], Scalar]) -> Node:
        """Return a scalar by ``read``, whose failure is noted."""
        try:
            value = read()
            if isinstance(value, str):
                value.encode()
                self._measure(index, value)
            elif isinstance(value, float) and value in {float("inf"), float("-inf")}:
                raise OverflowError
        except UnicodeEncodeError:
            self.note(index, "the text holds half a character", "remove the \\ud8… escape")
            value = None
        except (ValueError, OverflowError):
            self.note(
                index,
                "this value can't be read as what it claims to be",
                "write a plain, shorter value",
            )
            value = None
        return Node(self.source, index, value)

    def _measure(self, index: int, text: str) -> None:
        """Count a text; raises InputError where aliases repeat long ones too often."""
        self._characters += len(text)
        if self._characters > MAX_CHARACTERS:
            raise self.source.error(
                index,
                f"the texts of the file are longer than {MAX_CHARACTERS} characters with all that"
                " its aliases (*name) repeat",
                "no scenario needs that; write shorter texts",
            )

    def mapping(self, index: int, entries: list[tuple[Node, Node]]) -> Node:
        """Return a mapping; the first of duplicate keys is kept."""
        result: dict[str, Entry] = {}
        for key, value in entries:
            name = str(key.content)
            if name in result:
                first = result[name].key.problem("", "").line
                self.note(
                    key.index,
                    f"the key {quoted(name)} is here again; it is in line {first} already",
                    "keep one of them",
                )
                continue
            result[name] = Entry(key, value)
        return Node(self.source, index, result)


def quoted(value: object) -> str:
    """Format a value for a message: short, on one line."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:56]}…"


def kind_of(value: object) -> str:
    """Name the type of a value for users."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return f"{str(value).lower()}, a truth value"
    if isinstance(value, str):
        return f"{quoted(value)}, a text"
    if isinstance(value, int | float):
        return f"{quoted(value)}, a number"
    return "a mapping" if isinstance(value, Mapping) else "a list"


_SECRET = re.compile(
    r"pass(?:word|wd|phrase)|secret|token|credential|webhook|notify|key[\"']?\s*:|://[^/\s]*@",
    re.IGNORECASE,
)
_MOST, _BEFORE = 100, 60
"""How many characters of a line are shown, and how many of them before the place."""


def excerpt(line: str, column: int) -> str:
    """Return a line with a mark under its column; nothing for an empty one."""
    at = column - 1
    begin = max(0, at - _BEFORE) if len(line) > _MOST else 0
    # Only a part of it is searched: a file of a megabyte may be one line.
    cut = "".join(one if one.isprintable() else " " for one in line[begin : begin + _MOST])
    if not cut or cut.isspace():
        return ""
    before = "…" * bool(begin)
    after = "…" * (begin + _MOST < len(line))
    indent = len(before) + sum(map(_width, cut[: at - begin]))
    return f"{before}{cut}{after}\n{' ' * indent}^"


def secret_lines(text: str) -> frozenset[int]:
    """Return the numbers of lines at or below a key whose name suggests a secret.

    Below a key are the lines that are indented more, the items of its list, and the next line.
    """
    found = set()
    around: list[
        tuple[int, bool]
    ] = []  # for each key around a line: its indentation, and whether it is secret
    follows = False
    for number, line in enumerate(text.split("\n"), start=1):
        words = line.strip()
        if not words:
            continue
        # An item of a list may have the indentation of the list's key, and is inside it.
        depth = 2 * (len(line) - len(line.lstrip())) + words.startswith("-")
        while around and around[-1][0] >= depth:
            around.pop()
        named = _SECRET.search(line) is not None
        inside = named or (bool(around) and around[-1][1])
        if inside or follows:
            found.add(number)
        around.append((depth, inside))
        follows = named
    return frozenset(found)


def _width(character: str) -> int:
    """Return the display width of a character."""
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in {"W", "F"} else 1
