"""Collect the facts of an endpoint, in one go."""

from __future__ import annotations

import secrets
from collections import defaultdict

from pydantic import JsonValue

from osmef.facts.source import MAX_INTERFACES, parts, script
from osmef.facts.table import FACTS, INTERFACE_FACTS, Fact
from osmef.facts.virtualisation import technology
from osmef.remote.session import Session

SOURCES = tuple(dict.fromkeys(fact.source for fact in (*FACTS, *INTERFACE_FACTS)))

_MOST_NAME = 64
"""Of characters; the kernel has interfaces of 15."""

Texts = dict[int, dict[str, str]]


def collect(session: Session) -> dict[str, JsonValue]:
    """Return the facts of an endpoint; what it does not tell is None. Raises ReachError.

    Needs a POSIX shell and ``cat`` there, and no privileges. Counters are of all interfaces; the
    rest is of the first 32 that are not the loopback.
    """
    boundary = secrets.token_hex(16)
    output = session.run(["sh", "-s"], stdin=script(SOURCES, boundary))
    return read(output.stdout, boundary)


def read(output: bytes, boundary: str) -> dict[str, JsonValue]:
    """Return the facts that the script's output tells. Whatever it is, this does not raise."""
    texts = parts(output, boundary)
    groups: dict[str, dict[str, JsonValue]] = defaultdict(dict)
    for fact in FACTS:
        group, _dot, key = fact.key.rpartition(".")
        groups[group][key] = _value(fact, texts, "")
    groups["virtualisation"]["technology"] = _technology(groups["virtualisation"])
    names = {
        name
        for texts_of_source in texts.values()
        for name in texts_of_source
        if 0 < len(name) <= _MOST_NAME
    }
    groups["interfaces"] = {
        name: {fact.key: _value(fact, texts, name) for fact in INTERFACE_FACTS}
        for name in sorted(names)[:MAX_INTERFACES]
    }
    return {**groups.pop(""), **groups}


def _value(fact: Fact, texts: Texts, interface: str) -> JsonValue:
    text = texts.get(SOURCES.index(fact.source), {}).get(interface)
    return None if text is None else fact.read(text)


def _technology(group: dict[str, JsonValue]) -> str | None:
    hypervisor, vendor, product = (
        str(group[key]) if group[key] else None for key in ("hypervisor", "vendor", "product")
    )
    flag = group["hypervisor_flag"]
    return technology(hypervisor, vendor, product, flag if isinstance(flag, bool) else None)
