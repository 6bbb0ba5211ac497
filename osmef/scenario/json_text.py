"""Read JSON into nodes (RFC 8259). ``json`` judges the text; what follows only finds places."""

from __future__ import annotations

import json
import re

from osmef.scenario.node import Builder, Node, Source

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_NO_NUMBERS = {"NaN", "Infinity", "-Infinity"}


def read_json(source: Source) -> tuple[Node | None, Builder]:
    """Read a JSON text; None where it is empty. Otherwise as ``read_yaml``. Raises InputError."""
    if not source.text.strip():
        return None, Builder(source)
    try:
        json.loads(source.text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        raise source.error(
            error.pos,
            f"this is not JSON: {error.msg[0].lower()}{error.msg[1:]}",
            "check commas, quotes and brackets here and just before",
        ) from None
    except RecursionError:
        pass  # the reader below stops far earlier, and knows where
    reader = _Reader(source)
    return reader.value(0), reader.builder


class _Reader:
    """Walks over the tokens of a text that is known to be JSON."""

    def __init__(self, source: Source) -> None:
        self.builder = Builder(source)
        self._tokens = _TOKEN.finditer(source.text)
        self._token = next(self._tokens)

    def _take(self) -> re.Match[str]:
        token = self._token
        self._token = next(self._tokens, token)
        return token

    def value(self, depth: int) -> Node:
        token = self._take()
        at, text = token.start(), token[0]
        self.builder.enter(at, depth)
        if text == "{":
            return self.builder.mapping(at, self._pairs(depth + 1))
        if text == "[":
            return Node(self.builder.source, at, tuple(self._items(depth + 1)))
        return self._scalar(at, text)

    def _scalar(self, at: int, text: str) -> Node:
        if text in _NO_NUMBERS:
            self.builder.note(at, f"{text} is not JSON", "write a number")
            return Node(self.builder.source, at, None)
        return self.builder.scalar(at, lambda: json.loads(text))

    def _pairs(self, depth: int) -> list[tuple[Node, Node]]:
        pairs = []
        while self._token[0] != "}":
            key = self._take()
            self._take()
            value = self.value(depth)
            pairs.append((self._scalar(key.start(), key[0]), value))
            self._comma()
        self._take()
        return pairs

    def _items(self, depth: int) -> list[Node]:
        items = []
        while self._token[0] != "]":
            items.append(self.value(depth))
            self._comma()
        self._take()
        return items

    def _comma(self) -> None:
        if self._token[0] == ",":
            self._take()
