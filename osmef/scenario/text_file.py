"""Parse a user's file into nodes: JSON if its name ends in ``.json``, else YAML.

Of JSON (RFC 8259) ``json`` judges the text; the reader here only finds the place of each value.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from osmef.errors import InputError
from osmef.files import UnfitFileError, exists, read_file
from osmef.scenario.explain import examine, explain, explain_conflict, is_conflict
from osmef.scenario.model import Scenario
from osmef.scenario.node import Builder, Entry, Node, SourceText
from osmef.scenario.yaml_text import read_yaml

MAX_BYTES = 256 * 1024
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_NO_NUMBERS = {"NaN", "Infinity", "-Infinity"}


def is_json(path: Path) -> bool:
    """Return whether a file is JSON, by its name."""
    return path.suffix.lower() == ".json"


def read_text(path: Path) -> str:
    """Return the text of a file. Raises InputError."""
    where = str(path)
    try:
        data = read_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise InputError("there is no such file", where=where, cure="check the path") from None
    except IsADirectoryError:
        cure = "name one of the .yaml or .json files in it"
        raise InputError("this is a directory", where=where, cure=cure) from None
    except OSError as error:
        cure = "check the path and the permissions"
        if isinstance(error, UnfitFileError):
            cure = error.cure
        raise InputError(f"can't be read: {error.strerror}", where=where, cure=cure) from None
    return _decode(data, where)


def read_nodes(text: str, path: Path) -> tuple[Node | None, Builder]:
    """Parse a text in the format of its file's name; None if it is empty. Raises InputError."""
    source = SourceText(str(path), text.removeprefix("\ufeff"))
    return read_json(source) if is_json(path) else read_yaml(source)


def _decode(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        good = SourceText(where, data[: error.start].decode() + "?")
        raise good.error(
            len(good.text) - 1,
            f"the file is not UTF-8: byte 0x{data[error.start]:02X} is no text",
            "save it as UTF-8; is this the right file?",
        ) from None


def read_json(source: SourceText) -> tuple[Node | None, Builder]:
    """Parse a JSON text; None if it is empty. Otherwise as ``read_yaml``. Raises InputError."""
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
        pass  # the reader below stops far earlier, with the place
    reader = _Reader(source)
    return reader.value(0), reader.builder


class _Reader:
    """Walks the tokens of a valid JSON text."""

    def __init__(self, source: SourceText) -> None:
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


def user_directory() -> Path:
    """Return the user's configuration directory: ``osmef`` below XDG's."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "osmef"


def read_part(path: Path, key: str) -> tuple[Scenario, Node | None]:
    """Return a partial scenario with a file's content under a key, and its node.

    A file that is not there, or is empty, holds nothing. Raises InputError, with every Problem.
    """
    if not exists(path):
        return Scenario(name="part"), None
    node, builder = read_nodes(read_text(path), path)
    if node is None:
        return Scenario(name="part"), None
    name = Node(node.source, node.index, "part")
    entries = {"name": Entry(name, name), key: Entry(node, node)}
    tree = Node(node.source, node.index, entries)
    scenario, errors, more = examine(tree)
    problems = list(builder.problems)
    for error in errors:
        one = explain_conflict(error, tree, ()) if is_conflict(error) else explain(error, tree)
        problems.append(one)
    if problems or scenario is None:
        raise InputError.from_problems(problems, more)
    return scenario, node
