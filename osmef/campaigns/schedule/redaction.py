"""Redaction of secrets in a campaign file: addresses that are credentials themselves.

The URL of a webhook carries a token. So no copy of the file holds it: neither the database nor an
archive. ``REDACTED`` stands in its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from osmef.errors import InputError
from osmef.scenario.node import write_yaml
from osmef.scenario.text_file import is_json, read_nodes

REDACTED = "redacted"
_URL = re.compile(r"https?://[^\s\"'<>]+", re.IGNORECASE)
_REST = r"[^\s\"'<>,)\]}]"
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")


def redacted(text: str, path: Path) -> str:
    """Return the text of a campaign file without its webhook, or URLs in its command.

    The same again in comments, and wherever else one of them stands. Where the words can't be
    replaced in the text, the file is rewritten, without comments.
    """
    try:
        plain = _plain(text, path)
    except InputError:  # an older version took it; what it holds is anybody's guess
        return _URL.sub(REDACTED, text)
    secrets = _secrets(plain)
    hidden = _hidden(plain, secrets)
    masked = _hide(text, secrets)
    if not is_json(path) and "notify" in text:
        masked = _COMMENT.sub(lambda comment: _URL.sub(REDACTED, comment[0]), masked)
    try:
        if _plain(masked, path) == hidden:
            return masked
    except InputError:
        pass
    return json.dumps(hidden, indent=2) + "\n" if is_json(path) else write_yaml(hidden)


def is_redacted(text: str, path: Path) -> bool:
    """Return whether a campaign file was redacted, so that its secrets must be added again."""
    try:
        return _is_left_out(_plain(text, path))
    except InputError:
        return REDACTED in text


def _is_left_out(plain: object) -> bool:
    webhook, command = _notify(plain)
    return webhook == REDACTED or any(REDACTED in word for word in command)


def _plain(text: str, path: Path) -> object:
    tree, _ = read_nodes(text, path)
    return None if tree is None else tree.plain()


def _notify(plain: object) -> tuple[str, list[str]]:
    """Return the webhook and the words of the command, if any."""
    told = plain.get("notify") if isinstance(plain, dict) else None
    if not isinstance(told, dict):
        return "", []
    webhook, command = told.get("webhook"), told.get("command")
    words = command if isinstance(command, list) else []
    return str(webhook or ""), [word for word in words if isinstance(word, str)]


def _secrets(plain: object) -> list[str]:
    webhook, command = _notify(plain)
    found = {webhook, *(url for word in command for url in _URL.findall(word))} - {"", REDACTED}
    found |= {one.partition("://")[2] for one in found if _has_path(one)}
    return sorted(found, key=len, reverse=True)


def _has_path(url: str) -> bool:
    return bool(url.partition("://")[2].partition("/")[2])


def _hide(text: str, secrets: Sequence[str]) -> str:
    """Replace each secret and its suffix; a host alone only if it has none."""
    for secret in secrets:
        end = f"{_REST}*" if "://" not in secret or _has_path(secret) else f"(?!{_REST})"
        text = re.sub(re.escape(secret) + end, REDACTED, text)
    return text


def _hidden(plain: object, secrets: Sequence[str]) -> object:
    if isinstance(plain, dict):
        return {_hide(key, secrets): _hidden(value, secrets) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_hidden(value, secrets) for value in plain]
    return _hide(plain, secrets) if isinstance(plain, str) else plain
