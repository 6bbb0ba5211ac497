"""Parse YAML into nodes, and serialise it.

YAML 1.2's core schema decides what a plain word is (https://yaml.org/spec/1.2.2/, section
10.3.2), not YAML 1.1's: ``no``, ``on``, ``1:30`` and ``2024-01-01`` are texts, and only
``true`` and ``false`` are truth values.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import yaml

from osmef.errors import InputError
from osmef.scenario.node import Builder, Node, SourceText
from osmef.scenario.study import Scalar

_TAG = "tag:yaml.org,2002:"
_PLAIN = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
)
_SYNTAX_CURE = (
    "check this line and the one before: indent with spaces, close quotes and brackets,"
    " and put a text that holds ': ' or ' #' in quotes"
)
_UNQUOTED = {"cannot start any token": 0, "undefined alias": 0, "chomping or indentation": 1}
"""Words of PyYAML on the first character of a text, and how far behind it they are."""
_KEY_WITHOUT_SPACE = re.compile(r"\s*(?P<key>[a-z_]+:)[^\s/]")


class _Loader(yaml.SafeLoader):
    """PyYAML's loader with the core schema, and with bounds during composition."""

    def __init__(self, source: SourceText) -> None:
        super().__init__(source.text)
        self._bounds = Builder(source)
        self._depth = -1

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        event = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs leave it out
        self._bounds.enter(event.start_mark.index, self._depth)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Dumper(yaml.SafeDumper):
    """PyYAML's dumper that quotes texts that the loader would parse otherwise."""


for _class in (_Loader, _Dumper):
    _class.yaml_implicit_resolvers = {}  # not those of YAML 1.1
    for _name, _pattern, _first in _PLAIN:
        _class.add_implicit_resolver(_TAG + _name, re.compile(f"^(?:{_pattern})$"), list(_first))


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    # Line breaks as escapes: a value on one line stays there.
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar(_TAG + "str", text, style)


_Dumper.add_representer(str, _represent_text)


def read_yaml(source: SourceText) -> tuple[Node | None, Builder]:
    """Parse a YAML text of one document; None if it is empty.

    The builder has the errors that did not prevent parsing. Raises InputError.
    """
    loader = None
    try:
        loader = _Loader(source)
        composed = loader.get_single_node()
    except yaml.reader.ReaderError as error:
        raise source.error(
            error.position,
            f"the character U+{error.character:04X} does not belong in a text file",
            "remove it; is this the right file?",
        ) from None
    except yaml.MarkedYAMLError as error:
        raise _explain(source, error) from None
    except (ValueError, OverflowError):  # PyYAML on escapes of no character, such as "\UFFFFFFFF"
        at = loader.get_mark().index if loader else 0
        raise source.error(at, "this escape is no character", "remove it") from None
    builder = Builder(source)
    if composed is None:
        return None, builder
    return _node(composed, builder, 0), builder


def write_yaml(data: object) -> str:
    """Serialise plain data as YAML that ``read_yaml`` parses back."""
    return str(yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


def write_inline(data: object) -> str:
    """Serialise plain data as YAML on one line."""
    return str(
        yaml.dump(
            data,
            Dumper=_Dumper,
            sort_keys=False,
            default_flow_style=True,
            allow_unicode=True,
            width=10**9,
        )
    ).strip()


def _explain(source: SourceText, error: yaml.MarkedYAMLError) -> InputError:
    mark = error.problem_mark or error.context_mark
    at = mark.index if mark else 0
    problem = str(error.problem or error.context)
    if "another document" in problem:
        return source.error(
            at,
            "a second document begins here",
            "keep one scenario a file; remove the line '---' or what follows it",
        )
    if "\\t" in problem:
        return source.error(
            at, "there is a tab where YAML allows only spaces", "indent with spaces"
        )
    begun = error.context_mark
    since = f", in what begins in line {begun.line + 1}" if begun and begun.index < at else ""
    plain = problem.replace("'<stream end>'", "the end of the file")
    cure = _SYNTAX_CURE
    for words, back in _UNQUOTED.items():
        if words in problem:
            cure = f"put a text that begins with {source.text[at - back]} in quotes"
    if key := _key_without_space(source.text, at):
        cure = f"put a space after the colon of {key!r}"
    return source.error(at, f"this is not YAML: {plain}{since}", cure)


def _key_without_space(text: str, at: int) -> str | None:
    """Return the start of a line, or of the one before, that is ``key:value``."""
    lines = text[:at].split("\n")[-2:]
    found = (_KEY_WITHOUT_SPACE.match(line) for line in reversed(lines))
    return next((one["key"] for one in found if one), None)


def _node(node: yaml.Node, builder: Builder, depth: int) -> Node:
    at = node.start_mark.index
    builder.enter(at, depth)
    if isinstance(node, yaml.CollectionNode) and node.tag not in {_TAG + "map", _TAG + "seq"}:
        _unknown_tag(node, builder)
    if isinstance(node, yaml.MappingNode):
        pairs = [
            (_key(key, builder), _node(value, builder, depth + 1)) for key, value in node.value
        ]
        return builder.mapping(at, pairs)
    if isinstance(node, yaml.SequenceNode):
        items = tuple(_node(item, builder, depth + 1) for item in node.value)
        return Node(builder.source, at, items)
    return _scalar(node, builder)


def _key(node: yaml.Node, builder: Builder) -> Node:
    at = node.start_mark.index
    if not isinstance(node, yaml.ScalarNode):
        builder.note(at, "a key must be a text, not a list or a mapping", "write key: value")
        return Node(builder.source, at, f"?{at}")
    # A key is its text, also where that would be a number or a truth value.
    return builder.scalar(at, lambda: str(node.value))


def _scalar(node: yaml.Node, builder: Builder) -> Node:
    at, text, kind = node.start_mark.index, str(node.value), node.tag.removeprefix(_TAG)
    if kind == "int" and re.fullmatch(r"[-+]?0[0-9]+", text):
        shorter = int(text)
        builder.note(
            at,
            f"{text} can mean {shorter} or, as an octal number, something else",
            f"write {shorter}; for a text, put it in quotes",
        )
        return Node(builder.source, at, shorter)
    read = _READ.get(kind)
    if read is None:
        _unknown_tag(node, builder)
        return Node(builder.source, at, text)
    return builder.scalar(at, lambda: read(text))


def _truth(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError
    return text.lower() == "true"


_READ: dict[str, Callable[[str], Scalar]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": _truth,
    "null": lambda _text: None,
}


def _unknown_tag(node: yaml.Node, builder: Builder) -> None:
    tag = node.tag.replace(_TAG, "!!")
    builder.note(
        node.start_mark.index, f"the tag {tag} is not known here", "remove it; write a plain value"
    )
