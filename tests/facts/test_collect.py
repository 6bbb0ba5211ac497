import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import ReachError
from osmef.facts.collect import FACTS, INTERFACE_FACTS, SOURCES, collect, read, script
from osmef.remote.session import SshSession

BOUNDARY = "f" * 32
HERE = Path("/sys/class/net")

output = st.lists(
    st.binary()
    | st.just(f"\n{BOUNDARY} ".encode())
    | st.integers(0, 60).map(lambda number: f"{number} eth0\n".encode())
    | st.sampled_from([b"\n", b"0-1\n", b"1500\n"]),
    max_size=30,
).map(b"".join)


def run_here(shell: list[str], path: str | None = None) -> Any:
    env = {**os.environ, **({} if path is None else {"PATH": path})}
    done = subprocess.run(
        shell, input=script(SOURCES, BOUNDARY), capture_output=True, env=env, check=True
    )
    assert done.stderr == b""
    return read(done.stdout, BOUNDARY)


@pytest.mark.parametrize("shell", [["/bin/sh", "-s"], ["/bin/bash", "--posix", "-s"]], ids=str)
def test_facts_of_this_machine(shell: list[str]) -> None:
    if not Path(shell[0]).exists():
        pytest.skip(f"no {shell[0]} here")
    facts = run_here(shell)
    assert facts["hostname"] == os.uname().nodename
    assert facts["kernel"]["release"] == os.uname().release
    assert facts["cpu"]["allowed"] == len(os.sched_getaffinity(0))
    assert facts["cpu"]["online"] >= facts["cpu"]["allowed"]
    assert facts["memory"]["total_bytes"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    assert facts["tcp"]["congestion_control"] in facts["tcp"]["available_congestion_control"]
    for name in ("rmem", "wmem"):
        sysctl = Path(f"/proc/sys/net/ipv4/tcp_{name}").read_text()
        assert facts["tcp"][name] == [int(number) for number in sysctl.split()]
    assert facts["tcp"]["base_mss"] == int(Path("/proc/sys/net/ipv4/tcp_base_mss").read_text())
    assert facts["uptime_s"] > 0
    assert facts["time"].endswith("Z")
    assert "lo" in facts["counters"]
    for path in HERE.iterdir():
        if path.name != "lo":
            assert facts["interfaces"][path.name]["mtu"] == int((path / "mtu").read_text())
    assert "lo" not in facts["interfaces"]


def test_an_endpoint_without_programs_reports_fewer_facts(tmp_path: Path) -> None:
    """The script adds sbin to the path; without tc, date and ethtool the rest still holds."""
    (tmp_path / "cat").symlink_to("/bin/cat")
    facts = run_here(["/bin/sh", "-s"], path=str(tmp_path))
    assert facts["time"] is None
    usual = run_here(["/bin/sh", "-s"])
    for key in ("hostname", "kernel", "tcp", "net_core", "distribution", "virtualisation"):
        assert facts[key] == usual[key], "what files tell needs no grep"
    assert facts["cpu"] == usual["cpu"] | {"vulnerabilities": facts["cpu"]["vulnerabilities"]}
    assert facts["memory"]["total_bytes"] == usual["memory"]["total_bytes"]
    assert "lo" in facts["counters"]


def test_of_a_facts_file_only_the_needed_lines_are_read() -> None:
    marked = f"\n{BOUNDARY} 99999 \n"
    lines = "/proc/stat:cpu  100 0 0 0 0 0 0 0 0 0\n/proc/stat:cpu0 7 7 7 7 7 7 7 7 7 7\n"
    both = read((marked + lines).encode(), BOUNDARY)
    assert both == read((marked + lines.splitlines()[0]).encode(), BOUNDARY)
    assert both["cpu_time"] is not None


def test_nothing_that_identifies_a_machine_is_read() -> None:
    text = script(SOURCES, BOUNDARY).decode()
    for word in ("machine-id", "serial", "uuid", "address", "/etc/passwd", "boot_id"):
        assert word not in text


def test_the_script_holds_nothing_from_outside_but_the_boundary() -> None:
    first, second = script(SOURCES, "a" * 32), script(SOURCES, "b" * 32)
    assert first.replace(b"a" * 32, b"b" * 32) == second


def test_an_endpoint_without_any_output_has_every_fact_unknown() -> None:
    facts: Any = read(b"", BOUNDARY)
    for fact in FACTS:
        value = facts
        for key in fact.key.split("."):
            value = value[key]
        assert value is None
    assert facts["interfaces"] == {}
    assert facts["virtualisation"]["technology"] is None


def test_every_interface_has_every_fact() -> None:
    number = SOURCES.index(INTERFACE_FACTS[0].source)
    facts: Any = read(f"\n{BOUNDARY} {number} eth9\n1400\n".encode(), BOUNDARY)
    assert facts["interfaces"]["eth9"] == {fact.key: None for fact in INTERFACE_FACTS} | {
        "mtu": 1400
    }


def test_output_cannot_pass_for_another_part_without_the_boundary() -> None:
    number = SOURCES.index(INTERFACE_FACTS[0].source)
    facts: Any = read(f"\n{'0' * 32} {number} eth9\n1400\n".encode(), BOUNDARY)
    assert facts["interfaces"] == {}


def test_interfaces_without_end_are_cut_off() -> None:
    number = SOURCES.index(INTERFACE_FACTS[0].source)
    output = "".join(f"\n{BOUNDARY} {number} eth{at}\n1400\n" for at in range(1000))
    facts: Any = read(output.encode(), BOUNDARY)
    assert len(facts["interfaces"]) == 32


@given(output)
def test_no_output_makes_it_fail(text: bytes) -> None:
    json.dumps(read(text, BOUNDARY), allow_nan=False)


def test_all_facts_come_through_ssh_in_one_go(session: SshSession) -> None:
    facts: Any = collect(session)
    here = run_here(["/bin/sh", "-s"])
    changing = {"time", "uptime_s", "load", "memory", "counters", "cpu_time"}
    assert facts.keys() == here.keys()
    for key in facts.keys() - changing:
        assert facts[key] == here[key]


def test_an_endpoint_that_is_gone_is_an_error_of_its_own(session: SshSession) -> None:
    session.close()
    with pytest.raises(ReachError):
        collect(session)
