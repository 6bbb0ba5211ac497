"""Collect the facts of an endpoint, in one go."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Sequence

from pydantic import JsonValue

from osmef.facts.parsers import integer, word
from osmef.facts.source import MAX_INTERFACES, parts, script
from osmef.facts.table import FACTS, INTERFACE_FACTS, Fact
from osmef.remote.session import Session

SOURCES = tuple(dict.fromkeys(fact.source for fact in (*FACTS, *INTERFACE_FACTS)))

_MOST_NAME = 64
# A part of what DMI calls the vendor or the product, in lower case, and the technology that puts
# it there. Clouds that changed their hypervisor name the product, so that is looked at first.
_MARKS = (
    ("vmware", "vmware"),
    ("virtualbox", "virtualbox"),
    ("bhyve", "bhyve"),
    ("parallels", "parallels"),
    ("kvm", "kvm"),
    ("openstack", "kvm"),
    ("google compute engine", "kvm"),
    ("qemu", "qemu"),
    ("hvm domu", "xen"),
    ("xen", "xen"),
    ("amazon ec2", "nitro"),
    ("microsoft corporation", "hyper-v"),
)
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


def technology(
    hypervisor: str | None, vendor: str | None, product: str | None, flag: bool | None
) -> str | None:
    """Return the technology: "kvm", "xen", "vmware" ..., "none" on bare metal, None if unknown.

    ``hypervisor`` is /sys/hypervisor/type, ``vendor`` and ``product`` are DMI's, and ``flag`` is
    the CPU's hypervisor flag. Without that flag an x86 CPU is real, whoever built the machine
    (Microsoft and Amazon sell bare metal, too); architectures that have none rely on DMI alone.
    """
    if hypervisor:
        return hypervisor.lower()
    if flag is False:
        return "none"
    for text in (product, vendor):
        for mark, name in _MARKS:
            if text and mark in text.lower():
                return name
    return None


_FORMAT = "%T %S %b %a"
"""Of stat(1), as coreutils and busybox have it: type, size of a block, blocks, those available."""


def file_systems(session: Session, directories: Sequence[str]) -> dict[str, JsonValue]:
    """Return what is known of the file system of each directory. Raises ReachError.

    None where the endpoint does not tell, such as of a directory that is not there.
    """
    told = {
        one: session.run(["stat", "-f", "-c", _FORMAT, "--", one]).stdout for one in directories
    }
    return {one: read_file_system(text.decode(errors="replace")) for one, text in told.items()}


def read_file_system(text: str) -> JsonValue:
    """Return a file system as stat(1) tells it. Whatever the text is, this does not raise."""
    try:
        kind, *numbers = text.split()
        size, blocks, available = (int(str(integer(number))) for number in numbers)
        return {
            "type": word(kind),
            "total_bytes": size * blocks,
            "available_bytes": size * available,
        }
    except ValueError:
        return None
