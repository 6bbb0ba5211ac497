"""All facts of an endpoint: the key under which each is found, its source and its parser.

To add a fact, add a line here, a parser if none fits, and cases to ``tests/facts/data``.
Nothing that identifies a machine or a person is read: no machine id, serial number or address.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from osmef.facts import parsers
from osmef.facts.parsers import Parser
from osmef.facts.source import EACH_INTERFACE, Command, File, Source

_MOST_CHARACTERS = 1_000_000
"""Of a source: /proc/net/dev of some thousand interfaces."""


@dataclass(frozen=True)
class Fact:
    """One fact; a dot in its key leads into a group."""

    key: str
    source: Source
    parse: Parser

    def read(self, text: str) -> JsonValue:
        """Return what the text says, None if it says nothing that can be understood."""
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
    # By cat: a shell reads byte by byte, and the kernel gives a number's first byte only (proc(5)).
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
