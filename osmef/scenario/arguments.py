"""Arguments of programs: what stands under ``argv`` is text, as it is written there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from osmef.scenario.node import Entry, Node

_KEY = "argv"
_WORD = re.compile(r"[-+.0-9A-Za-z]+")


def with_arguments(node: Node) -> Node:
    """Return a tree in which all arguments are texts: ``-1`` and ``010`` are no numbers there."""
    if isinstance(node.content, Mapping):
        made = {key: _texts if key == _KEY else with_arguments for key in node.content}
        entries = {key: Entry(one.key, made[key](one.value)) for key, one in node.content.items()}
        return replace(node, content=entries)
    if isinstance(node.content, tuple):
        return replace(node, content=tuple(map(with_arguments, node.content)))
    return node


def _texts(node: Node) -> Node:
    if not isinstance(node.content, tuple):
        return node
    return replace(node, content=tuple(map(_text, node.content)))


def _text(node: Node) -> Node:
    """Return a number or truth value as the text that stands in the file."""
    if not isinstance(node.content, bool | int | float):
        return node
    written = _WORD.match(node.source.text, node.index)
    return replace(node, content=written[0]) if written else node
