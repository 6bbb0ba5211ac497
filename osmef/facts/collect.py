"""Collection of an endpoint's facts in one script, and differences between two collections."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from pydantic import JsonValue

from osmef.facts import parsers
from osmef.facts.parsers import Parser, integer, word
from osmef.remote.session import SshSession

EACH_INTERFACE = "$interface"
"""In a path or an argument: one source for each network interface but the loopback."""

MAX_INTERFACES = 32

_PATHS = 99999
"""Marks the part whose lines begin with the path of their file."""

_MOST_LINES = 100
"""Of a file that is not read whole."""

_HEAD = """\
PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C
export PATH LC_ALL
exec 2>/dev/null
show() {
  limit=$1 mark=$2
  [ -r "$3" ] || return
  mark "$mark"
  while [ "$limit" -gt 0 ] && { IFS= read -r line || [ -n "$line" ]; }; do
    printf '%s\\n' "$line"
    limit=$((limit - 1)) line=
  done <"$3"
}
run() {
  command -v "$2" >/dev/null || return
  mark "$1"
  shift
  "$@" </dev/null
}
"""


@dataclass(frozen=True)
class File:
    """A source: the first lines of a file, at most 100; with ``lines`` None all of it.

    A path has no colon, but that of an interface.
    """

    path: str
    lines: int | None = 1


@dataclass(frozen=True)
class Command:
    """A source: the output of a program, if the endpoint has it."""

    argv: tuple[str, ...]


Source = File | Command


def script(sources: Sequence[Source], boundary: str) -> bytes:
    """Return the shell script that prints each source behind a boundary line."""
    single: list[str] = []
    each: list[str] = []
    files = [(number, source) for number, source in enumerate(sources) if _is_single(source)]
    for number, source in enumerate(sources):
        if _is_single(source):
            continue
        per_interface = EACH_INTERFACE in str(source)
        mark = f'"{number} $interface"' if per_interface else f'"{number} "'
        (each if per_interface else single).append(_line(source, mark))
    loop = [
        f"count={MAX_INTERFACES}",
        "for path in /sys/class/net/*; do",
        "interface=${path##*/}",
        'case $interface in lo | -* | "*") continue ;; esac',
        '[ "$count" -gt 0 ] || break',
        "count=$((count - 1))",
        *each,
        "done",
        "exit 0",
    ]
    mark = f"mark() {{ printf '\\n%s %s\\n' {boundary} \"$1\"; }}"
    return "\n".join([_HEAD + mark, *single, *_print(files), *loop, ""]).encode()


def _is_single(source: Source) -> TypeGuard[File]:
    return isinstance(source, File) and EACH_INTERFACE not in source.path


def _print(files: Sequence[tuple[int, File]]) -> list[str]:
    """Return the lines that print files, by two processes where there is grep.

    A shell reads byte by byte, which takes some milliseconds for all of them.
    """
    whole = [(number, one) for number, one in files if one.lines is None]
    parts = [(number, one) for number, one in files if one.lines is not None]
    return [
        "if command -v grep >/dev/null; then",
        f'mark "{_PATHS} "',
        f'grep -Hs "" {" ".join(one.path for _, one in whole)} </dev/null',
        f'grep -Hs -m {_MOST_LINES} "" {" ".join(one.path for _, one in parts)} </dev/null',
        "else",
        *(f'[ -r {one.path} ] && mark "{number} " && cat {one.path}' for number, one in whole),
        *(_line(one, f'"{number} "') for number, one in parts),
        "fi",
    ]


def _line(source: File | Command, mark: str) -> str:
    if isinstance(source, Command):
        return f"run {mark} " + " ".join(f'"{word}"' for word in source.argv)
    return f'show {source.lines} {mark} "{source.path}"'


def parts(output: bytes, boundary: str) -> dict[int, dict[str, str]]:
    """Split the script's output by source and interface ("" for the endpoint as a whole).

    Whatever the output is, this does not raise: a part that makes no sense is left out.
    """
    found: dict[int, dict[str, str]] = defaultdict(dict)
    text = output.decode(errors="replace")
    for part in text.split(f"\n{boundary} ")[1:]:
        mark, _newline, body = part.partition("\n")
        number, _space, interface = mark.partition(" ")
        if number.isascii() and number.isdigit() and len(number) < 6:
            found[int(number)][interface] = body
    return dict(found)


_MOST_CHARACTERS = 1_000_000
"""Of a source: /proc/net/dev of some thousand interfaces."""


@dataclass(frozen=True)
class Fact:
    """A fact: a dotted key, a source and a parser."""

    key: str
    source: Source
    parse: Parser

    def read(self, text: str) -> JsonValue:
        """Parse the text, None if it can't be parsed."""
        if len(text) > _MOST_CHARACTERS:
            return None
        try:
            return self.parse(text)
        except (ValueError, LookupError, OverflowError):
            return None


_CPUINFO = File("/proc/cpuinfo", 30)
_STATUS = File("/proc/self/status", 100)
_FLAWS = "/sys/devices/system/cpu/vulnerabilities"
_DMI = "/sys/class/dmi/id/"


def _sysctl(path: str) -> File:
    # Whole: a shell reads byte by byte, and the kernel gives a number's first byte only (proc(5)).
    return File(f"/proc/sys/{path}", None)


def _ipv4(name: str, parse: Parser) -> Fact:
    return Fact(f"tcp.{name}", _sysctl(f"net/ipv4/tcp_{name}"), parse)


def _core(name: str, parse: Parser) -> Fact:
    return Fact(f"net_core.{name}", _sysctl(f"net/core/{name}"), parse)


FACTS = (
    Fact("time", Command(("date", "-u", "+%Y-%m-%dT%H:%M:%SZ")), parsers.time),
    Fact("uptime_s", File("/proc/uptime"), parsers.uptime_s),
    Fact("counters", File("/proc/net/dev", None), parsers.counters),
    Fact("cpu_time", File("/proc/stat"), parsers.cpu_time),
    Fact("load", File("/proc/loadavg"), parsers.load),
    Fact("memory", File("/proc/meminfo", 20), parsers.memory),
    Fact("hostname", _sysctl("kernel/hostname"), parsers.word),
    Fact("distribution", File("/etc/os-release", 40), parsers.distribution),
    Fact("kernel.release", _sysctl("kernel/osrelease"), parsers.word),
    Fact("kernel.version", _sysctl("kernel/version"), parsers.word),
    Fact("kernel.options", File("/proc/cmdline"), parsers.kernel_options),
    Fact("libc", Command(("getconf", "GNU_LIBC_VERSION")), parsers.word),
    Fact("cpu.model", _CPUINFO, parsers.cpu_model),
    Fact("cpu.flags", _CPUINFO, parsers.cpu_flags),
    Fact("cpu.vulnerabilities", Command(("grep", "-rs", ".", _FLAWS)), parsers.vulnerabilities),
    Fact("cpu.online", File("/sys/devices/system/cpu/online"), parsers.cpu_count),
    Fact("cpu.allowed", _STATUS, parsers.allowed_cpus),
    Fact(
        "cpu.governor",
        File("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        parsers.word,
    ),
    Fact("virtualisation.hypervisor_flag", _CPUINFO, parsers.hypervisor_flag),
    Fact("virtualisation.hypervisor", File("/sys/hypervisor/type"), parsers.word),
    Fact("virtualisation.vendor", File(_DMI + "sys_vendor"), parsers.word),
    Fact("virtualisation.product", File(_DMI + "product_name"), parsers.word),
    _ipv4("congestion_control", parsers.word),
    _ipv4("available_congestion_control", parsers.words),
    _ipv4("rmem", parsers.integers),
    _ipv4("wmem", parsers.integers),
    _ipv4("mem", parsers.integers),
    _ipv4("mtu_probing", parsers.integer),
    _ipv4("base_mss", parsers.integer),
    _ipv4("window_scaling", parsers.switch),
    _ipv4("timestamps", parsers.integer),
    _ipv4("sack", parsers.switch),
    _ipv4("dsack", parsers.switch),
    _ipv4("ecn", parsers.integer),
    _ipv4("recovery", parsers.integer),
    _ipv4("reordering", parsers.integer),
    _ipv4("moderate_rcvbuf", parsers.switch),
    _ipv4("adv_win_scale", parsers.integer),
    _ipv4("slow_start_after_idle", parsers.switch),
    _ipv4("no_metrics_save", parsers.switch),
    _ipv4("limit_output_bytes", parsers.integer),
    _ipv4("notsent_lowat", parsers.integer),
    Fact("qdiscs", Command(("tc", "qdisc", "show")), parsers.qdiscs),
    _core("default_qdisc", parsers.word),
    _core("rmem_max", parsers.integer),
    _core("wmem_max", parsers.integer),
    _core("netdev_max_backlog", parsers.integer),
    _core("netdev_budget", parsers.integer),
)

_NET = f"/sys/class/net/{EACH_INTERFACE}/"

INTERFACE_FACTS = (
    Fact("mtu", File(_NET + "mtu"), parsers.integer),
    Fact("state", File(_NET + "operstate"), parsers.word),
    Fact("speed_bps", File(_NET + "speed"), parsers.speed_bps),
    Fact("queue_length", File(_NET + "tx_queue_len"), parsers.integer),
    Fact("kind", File(_NET + "uevent", 10), parsers.kind),
    Fact("driver", File(_NET + "device/uevent", 20), parsers.driver),
    Fact("offloads", Command(("ethtool", "-k", EACH_INTERFACE)), parsers.offloads),
)


SOURCES = tuple(dict.fromkeys(fact.source for fact in (*FACTS, *INTERFACE_FACTS)))
_FILES = {one.path: (number, one.lines) for number, one in enumerate(SOURCES) if _is_single(one)}

_MOST_NAME = 64
# A part of DMI's vendor or product, in lower case, and the technology that puts
# it there. Clouds that changed their hypervisor name the product, so that is compared first.
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
Facts = Mapping[str, JsonValue]


def collect(session: SshSession) -> dict[str, JsonValue]:
    """Return the facts of an endpoint, with None for unknown ones. Raises ReachError.

    Needs a POSIX shell and ``grep`` or ``cat`` there, and no privileges. Counters are of all
    interfaces; other facts of the first 32 except the loopback.
    """
    boundary = secrets.token_hex(16)
    output = session.run(["sh", "-s"], stdin=script(SOURCES, boundary))
    return read(output.stdout, boundary)


def read(output: bytes, boundary: str) -> dict[str, JsonValue]:
    """Parse the script's output, whatever it is, without raising."""
    texts = parts(output, boundary)
    for number, text in _texts(texts.pop(_PATHS, {}).get("", "")).items():
        texts.setdefault(number, {})[""] = text
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


def _texts(output: str) -> dict[int, str]:
    """Return the text of each file, of lines that have its path before them."""
    lines: dict[str, list[str]] = defaultdict(list)
    for line in output.splitlines(keepends=True):
        path, _colon, text = line.partition(":")
        lines[path].append(text)
    return {
        number: "".join(lines[path][:most])
        for path, (number, most) in _FILES.items()
        if path in lines
    }


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
    """Return the virtualisation: "kvm", "xen", "vmware" ..., "none" on bare metal, None if unknown.

    ``hypervisor`` is /sys/hypervisor/type, ``vendor`` and ``product`` are DMI's, and ``flag`` is
    the CPU's hypervisor flag. Without that flag an x86 CPU is real, by any manufacturer
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
"""Format of stat(1) in coreutils and busybox: type, block size, blocks, available blocks."""


def file_systems(session: SshSession, directories: Sequence[str]) -> dict[str, JsonValue]:
    """Return the file system of each directory. Raises ReachError.

    None where the endpoint does not report it, such as for a missing directory.
    """
    reported = {
        one: session.run(["stat", "-f", "-c", _FORMAT, "--", one]).stdout for one in directories
    }
    return {one: read_file_system(text.decode(errors="replace")) for one, text in reported.items()}


def read_file_system(text: str) -> JsonValue:
    """Parse the output of stat(1) on a file system, whatever it is, without raising."""
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


def change(before: Facts, after: Facts) -> dict[str, JsonValue]:
    """Return the time between two collections, the interfaces' rates, and the CPU usage.

    Rates are ``rx_bps`` and ``tx_bps`` in bits per second, packets, errors and drops per second.
    CPU times are percent of all CPU time in between. Unknown values are None: of a counter that is
    missing or went backwards, and all after a restart of the endpoint.
    """
    elapsed = _difference(before, after, "uptime_s")
    known = elapsed or None
    then, now = _group(before, "counters"), _group(after, "counters")
    return {
        "elapsed_s": known,
        "interfaces": {
            name: _rates(_group(then, name), _group(now, name), known)
            for name in sorted(then.keys() & now.keys())
        },
        "cpu_percent": _cpu_percent(_group(before, "cpu_time"), _group(after, "cpu_time"), known),
    }


def _rates(then: Facts, now: Facts, elapsed: float | None) -> dict[str, JsonValue]:
    rates: dict[str, JsonValue] = {}
    for key in then.keys() & now.keys():
        counted = _difference(then, now, key)
        rate = None if elapsed is None or counted is None else counted / elapsed
        if key.endswith("_bytes"):
            rates[key.replace("_bytes", "_bps")] = None if rate is None else 8 * rate
        else:
            rates[f"{key}_per_s"] = rate
    return dict(sorted(rates.items()))


def _cpu_percent(then: Facts, now: Facts, elapsed: float | None) -> dict[str, JsonValue]:
    spent = {key: _difference(then, now, key) for key in sorted(then.keys() & now.keys())}
    # Guest time is counted within user time as well, and must not count twice (proc(5)).
    total = sum(s for key, s in spent.items() if s is not None and not key.startswith("guest"))
    known = elapsed is not None and total > 0
    return {
        key.removesuffix("_s"): 100 * s / total if known and s is not None else None
        for key, s in spent.items()
    }


def _difference(before: Facts, after: Facts, key: str) -> float | None:
    then, now = before.get(key), after.get(key)
    if not isinstance(then, int | float) or not isinstance(now, int | float):
        return None
    return now - then if now >= then else None


def _group(facts: Facts, key: str) -> Facts:
    group = facts.get(key)
    return group if isinstance(group, dict) else {}
