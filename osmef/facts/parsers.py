"""Parsers from the text of a source to a fact.

A parser may raise ValueError or LookupError on a text that it does not understand; the fact is
None then. Quantities come with their unit in the name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable

from pydantic import JsonValue

from osmef.units import parse_rate, parse_size

Parser = Callable[[str], JsonValue]

# Times in /proc/stat are counted in USER_HZ, which is 100 on every Linux architecture but Alpha
# and IA-64 (proc(5), include/uapi/asm-generic/param.h).
_USER_HZ = 100

_WHOLE = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?", re.ASCII)
_MOST_TEXT = 1000
_MOST_NAME = 64
_MOST_CPUS = 2**20
_MOST_FLAGS = 500
_OF_ONE_MACHINE = re.compile(
    r"root|resume|host|ip|mac|uuid|user|ds$|crypt|luks|nfs|ssh|pass|key|token|secret|auth|cred",
    re.IGNORECASE,
)
_TELLING = re.compile(r"[/@:=]|[0-9a-fA-F]{8}|[0-9]+\.[0-9]+\.[0-9]+")

# Some drivers let -1 through as an unsigned number.
_SPEED_UNKNOWN = 2**32 - 1


def word(text: str) -> JsonValue:
    """Return a line of text, such as a name; None if it is empty."""
    return _short(text.strip()) or None


def words(text: str) -> JsonValue:
    """Return the words of a line."""
    return list(_short(text.strip()).split()) or None


def integer(text: str) -> JsonValue:
    """Return a whole number."""
    return _integer(text)


def integers(text: str) -> JsonValue:
    """Return several whole numbers, such as tcp_rmem's minimum, default and maximum."""
    return [_integer(number) for number in text.split()] or None


def switch(text: str) -> JsonValue:
    """Return a boolean setting: 0 or 1."""
    return {"0": False, "1": True}[text.strip()]


def time(text: str) -> JsonValue:
    """Return UTC in ISO 8601, as ``date`` prints it."""
    if (
        re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", text.strip())
        is None
    ):
        raise ValueError("not a time")
    return text.strip()


def uptime_s(text: str) -> JsonValue:
    """Return seconds since boot, from /proc/uptime."""
    return _real(text.split(maxsplit=1)[0])


def load(text: str) -> JsonValue:
    """Return the load averages and the number of tasks, from /proc/loadavg."""
    one, five, fifteen, tasks = text.split()[:4]
    running, total = tasks.split("/")
    return {
        "1min": _real(one),
        "5min": _real(five),
        "15min": _real(fifteen),
        "tasks_running": _integer(running),
        "tasks": _integer(total),
    }


def memory(text: str) -> JsonValue:
    """Return bytes of memory and swap, from /proc/meminfo."""
    keys = {
        "MemTotal": "total_bytes",
        "MemFree": "free_bytes",
        "MemAvailable": "available_bytes",
        "Buffers": "buffers_bytes",
        "Cached": "cached_bytes",
        "SwapTotal": "swap_total_bytes",
        "SwapFree": "swap_free_bytes",
    }
    fields = _fields(text)
    known = {keys[name]: _kibibytes(value) for name, value in fields.items() if name in keys}
    return {"total_bytes": known["total_bytes"], **{key: known.get(key) for key in keys.values()}}


def cpu_time(text: str) -> JsonValue:
    """Return CPU seconds since boot over all CPUs, steal and guest included, from /proc/stat."""
    name, *ticks = text.split("\n", 1)[0].split()
    kinds = [
        "user",
        "nice",
        "system",
        "idle",
        "iowait",
        "irq",
        "softirq",
        "steal",
        "guest",
        "guest_nice",
    ]
    if name != "cpu" or len(ticks) < 4:
        raise ValueError("not the line of all CPUs")
    seconds: dict[str, JsonValue] = {f"{kind}_s": None for kind in kinds}
    for kind, count in zip(kinds, ticks, strict=False):
        seconds[f"{kind}_s"] = _integer(count) / _USER_HZ
    return seconds


def cpu_model(text: str) -> JsonValue:
    """Return the name of the first CPU, from /proc/cpuinfo."""
    fields = _fields(text)
    for key in ("model name", "Processor", "cpu model", "cpu", "Hardware", "uarch"):
        if fields.get(key):
            return _short(fields[key])
    # Most ARM kernels give numbers only: implementer and part, as in the MIDR_EL1 register.
    return _short(f"ARM implementer {fields['CPU implementer']} part {fields['CPU part']}")


def cpu_flags(text: str) -> JsonValue:
    """Return the flags of the first CPU in alphabetical order, from /proc/cpuinfo."""
    fields = _fields(text)
    reported = fields.get("flags") or fields.get("Features") or fields["isa"]  # x86, ARM, RISC-V
    return [*sorted({_short(flag) for flag in reported.split()})[:_MOST_FLAGS]] or None


def vulnerabilities(text: str) -> JsonValue:
    """Return the kernel's status of each CPU vulnerability, from ``grep -r`` over sysfs.

    Source: Documentation/ABI/testing/sysfs-devices-system-cpu of Linux.
    """
    found: dict[str, JsonValue] = {}
    for line in text.splitlines()[:_MOST_FLAGS]:
        path, colon, reported = line.partition(":")
        if colon and reported.strip():
            found[_short(path.rpartition("/")[2])] = _short(reported.strip())
    return found or None


def kernel_options(text: str) -> JsonValue:
    """Return the kernel's command line without options that identify a machine or its owner.

    That is: values with a UUID, a path, an address or an assignment in them, and those of keys that
    may hold a secret.
    """
    kept: list[JsonValue] = []
    for word in text.split()[:_MOST_FLAGS]:
        if word == "--":  # what follows is the first process's
            break
        key, equals, value = word.partition("=")
        if not _OF_ONE_MACHINE.search(key) and not _TELLING.search(value):
            kept.append(_short(f"{key}{equals}{value}"))
        elif equals:
            kept.append(_short(f"{key}=..."))
    return kept or None


def hypervisor_flag(text: str) -> JsonValue:
    """Return whether an x86 CPU reports a hypervisor (CPUID.1:ECX[31]), from /proc/cpuinfo."""
    return "hypervisor" in _fields(text)["flags"].split()


def cpu_count(text: str) -> JsonValue:
    """Return the number of CPUs in a list such as ``0-3,8``."""
    count = 0
    for part in text.strip().split(","):
        first, _dash, last = part.partition("-")
        low, high = _integer(first), _integer(last or first)
        if not 0 <= low <= high < _MOST_CPUS:
            raise ValueError("not a range")
        count += high - low + 1
    return count


def allowed_cpus(text: str) -> JsonValue:
    """Return how many CPUs a process may run on, from /proc/self/status."""
    return cpu_count(_fields(text)["Cpus_allowed_list"])


def distribution(text: str) -> JsonValue:
    """Return the distribution, from os-release(5)."""
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    known: dict[str, JsonValue] = {
        name.lower(): _short(_unquoted(fields[name])) if name in fields else None
        for name in ("ID", "VERSION_ID", "PRETTY_NAME")
    }
    return known if any(known.values()) else None


def counters(text: str) -> JsonValue:
    """Return the counters of each interface, the loopback included, from /proc/net/dev."""
    kinds = ("bytes", "packets", "errors", "drops")
    interfaces: dict[str, JsonValue] = {}
    for line in text.splitlines()[2:]:
        name, _colon, numbers = line.strip().rpartition(":")
        values = [_integer(number) for number in numbers.split()]
        if not 0 < len(name) <= _MOST_NAME or len(values) < 12:
            raise ValueError("not a line of /proc/net/dev")
        received = zip((f"rx_{kind}" for kind in kinds), values[:4], strict=True)
        sent = zip((f"tx_{kind}" for kind in kinds), values[8:12], strict=True)
        interfaces[name] = dict([*received, *sent])
    return interfaces or None


def speed_bps(text: str) -> JsonValue:
    """Return the rate of a link; the kernel reports Mbit/s, and -1 for unknown."""
    megabits = _integer(text)
    return parse_rate(f"{megabits}Mbit/s") if 0 < megabits < _SPEED_UNKNOWN else None


def driver(text: str) -> JsonValue:
    """Return the name of a device's driver, from its uevent file."""
    return _short(_assignments(text)["DRIVER"])


def kind(text: str) -> JsonValue:
    """Return the kind of an interface such as bridge, bond or vxlan, from its uevent file."""
    return _short(_assignments(text)["DEVTYPE"])


def qdiscs(text: str) -> JsonValue:
    """Return the queueing disciplines of each interface, the root's first, from ``tc``."""
    lines = [line.split() for line in text.splitlines() if line.startswith("qdisc ")]
    found: dict[str, list[JsonValue]] = defaultdict(list)
    for line in sorted(lines, key=lambda line: "root" not in line):
        found[_short(line[line.index("dev") + 1])].append(_short(line[1]))
    return dict(found) or None


def offloads(text: str) -> JsonValue:
    """Return which offloads are on, from ``ethtool -k``."""
    found: dict[str, JsonValue] = {}
    for line in text.splitlines()[1:]:
        name, _colon, state = line.strip().partition(": ")
        if len(name) <= _MOST_NAME and state.split()[:1] in (["on"], ["off"]):
            found[name.replace("-", "_")] = state.split()[0] == "on"
    return found or None


def _integer(text: str) -> int:
    """Return a number as the kernel writes one, of 64 bits at most."""
    if _WHOLE.fullmatch(text.strip()) is None or not -(2**63) <= (number := int(text)) < 2**64:
        raise ValueError("not a whole number")
    return number


def _real(text: str) -> float:
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError("not a number")
    return float(text)


def _short(text: str) -> str:
    if len(text) > _MOST_TEXT:
        raise ValueError("not a name")
    return text


def _kibibytes(text: str) -> int:
    number, unit = text.split()
    if unit != "kB" or _integer(number) >= 2**54:  # kB is what the kernel calls 1024 bytes
        raise ValueError("not a size")
    return parse_size(f"{number}KiB")


def _fields(text: str) -> dict[str, str]:
    """Return the first value of each "name : value"."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(name.strip(), value.strip())
    return found


def _assignments(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _unquoted(text: str) -> str:
    return text.strip().strip("\"'")
