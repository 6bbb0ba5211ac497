"""What stands in a file, each value with its place: the ground that messages point at."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from osmef.errors import InputError, Problem
from osmef.scenario.excerpt import excerpt, secret_lines
from osmef.scenario.study import Scalar
from osmef.units import parse_count

Keys = tuple[str, ...]
"""Keys from the top of the file down to a value."""

MAX_DEPTH = 30
MAX_NODES = 50_000
MAX_CHARACTERS = 1 << 20


@dataclass(frozen=True)
class SourceText:
    """A text and the name under which the user knows it; ``is_option`` for one of the command."""

    file: str
    text: str
    is_option: bool = False

    def problem(self, index: int, message: str, cure: str) -> Problem:
        """Make a problem at a character of the text; the end means the end of the last line."""
        starts, end = self._places
        index = min(index, end)
        line = bisect_right(starts, index)
        column = index - starts[line - 1] + 1
        return Problem(self.file, line, column, message, cure, self._excerpt(line, column))

    def _excerpt(self, line: int, column: int) -> str:
        """Return the line as a user may see it; of one that may hold a secret, nothing."""
        if self.is_option or line in self._secret_lines:
            return ""
        starts, _ = self._places
        end = starts[line] if line < len(starts) else len(self.text)
        return excerpt(
            self.text[starts[line - 1] : end].removesuffix("\n").removesuffix("\r"), column
        )

    @cached_property
    def _secret_lines(self) -> frozenset[int]:
        return secret_lines(self.text)

    @cached_property
    def _places(self) -> tuple[list[int], int]:
        """Where each line begins, and where the last one ends."""
        starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        return starts, len(self.text.rstrip())

    def error(self, index: int, message: str, cure: str) -> InputError:
        """Make the error of a text that can't be read beyond this character."""
        return InputError.from_problems([self.problem(index, message, cure)])


class Entry(NamedTuple):
    """A key of a mapping and its value."""

    key: Node
    value: Node


Content = Scalar | tuple["Node", ...] | Mapping[str, Entry]


@dataclass(frozen=True, eq=False)
class Node:
    """A value of a file and the character at which it begins."""

    source: SourceText
    index: int
    content: Content

    def problem(self, message: str, cure: str) -> Problem:
        """Make a problem that points at this value."""
        return self.source.problem(self.index, message, cure)

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Keys and values of a mapping; nothing for any other value."""
        return self.content if isinstance(self.content, Mapping) else {}

    @property
    def items(self) -> tuple[Node, ...]:
        """Values of a list; nothing for any other value."""
        return self.content if isinstance(self.content, tuple) else ()

    def plain(self) -> object:
        """Return the value as plain dicts, lists and scalars."""
        if isinstance(self.content, Mapping):
            return {key: entry.value.plain() for key, entry in self.content.items()}
        if isinstance(self.content, tuple):
            return [item.plain() for item in self.content]
        return self.content

    def get(self, path: Keys) -> Node | None:
        """Return the value at a path; None where the file does not say it."""
        node: Node | None = self
        for key in path:
            entry = node.entries.get(key) if node else None
            node = entry.value if entry else None
        return node

    def nearest(self, path: Keys) -> Node:
        """Return the value at a path; where keys of it are not in the file, the one around it."""
        node = self
        for key in path:
            if key in node.entries:
                node = node.entries[key].value
            elif (number := parse_count(key)) is not None and number < len(node.items):
                node = node.items[number]
        return node

    def put(self, path: Keys, value: Node) -> Node:
        """Return a copy with the value at a path, making mappings on the way where none is.

        A mapping can be written as its ``kind`` alone; such a text becomes a mapping again. In a
        list a number leads to what is there, counted from 0.
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
    """Makes the nodes of one text within bounds, and notes what is wrong on the way."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self.count = 0
        self._characters = 0

    def note(self, index: int, message: str, cure: str) -> None:
        """Note a problem that reading can go on after."""
        self.problems.append(self.source.problem(index, message, cure))

    def enter(self, index: int, depth: int) -> None:
        """Count a value in; raises InputError where there are too many, or too deep ones."""
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
        """Make a single value of what ``read`` returns; notes it where that is not possible."""
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
        """Count a text in; raises InputError where aliases repeat long ones too often."""
        self._characters += len(text)
        if self._characters > MAX_CHARACTERS:
            raise self.source.error(
                index,
                f"the texts of the file are longer than {MAX_CHARACTERS} characters with all that"
                " its aliases (*name) repeat",
                "no scenario needs that; write shorter texts",
            )

    def mapping(self, index: int, entries: list[tuple[Node, Node]]) -> Node:
        """Make a mapping; of a key given twice the first one stays."""
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
    """Write a value for a message: short, and on one line."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:56]}…"


def kind_of(value: object) -> str:
    """Name the kind of a value in the words of a user."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return f"{str(value).lower()}, a truth value"
    if isinstance(value, str):
        return f"{quoted(value)}, a text"
    if isinstance(value, int | float):
        return f"{quoted(value)}, a number"
    return "a mapping" if isinstance(value, Mapping) else "a list"
