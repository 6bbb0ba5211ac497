from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from osmef.engine.station import Station
from osmef.errors import AgentError, EndpointError, ReachError
from osmef.providers.base import Endpoint, EndpointRequest
from osmef.remote.login import SshTimeouts
from osmef.remote.session import SshSession
from osmef.scenario.fields import DATA_PORTS, EndpointKind
from osmef.scenario.location import Location
from osmef.supply.program import Program
from osmef.supply.supply import Supplier
from tests.sshd import OPTIONS, Sshd
from tests.supply.made import packed
from tests.unique import unique

REQUEST = EndpointRequest("vm-1", "sender", EndpointKind.VM, None, "host-1", "tenant-1")


def test_an_endpoint_that_takes_no_agent_is_left_without_a_connection(tmp_path: Path) -> None:
    sshd = Sshd(tmp_path, options="AcceptEnv SHLVL")  # without the sftp subsystem
    endpoint = Endpoint(REQUEST, "id", sshd.login(), "192.0.2.1", None, None)
    try:
        with pytest.raises(ReachError, match="sftp"):
            Station(endpoint, Location(host="h", tenant="t"), tmp_path.name)
        for server in sshd.servers:
            server.wait(timeout=10)  # it ends with the connection
    finally:
        sshd.close()


def test_a_wrapper_command_gets_the_path_of_the_provided_program(
    sshd: Sshd, tmp_path: Path
) -> None:
    endpoint = Endpoint(REQUEST, "id", sshd.login(), "192.0.2.1", None, None)
    bundle = tmp_path / "seq.tar.gz"
    bundle.write_bytes(packed(Program("seq"), tmp_path / "tree"))
    station = Station(endpoint, Location(), f"{unique()}-{tmp_path.name}")
    try:
        station.provide([Program("seq", bundle=bundle, how=("bundle",))], Supplier())
        started = station.command_line(["seq", "seq", "3"])
        assert started[0].endswith(".so.2")
        assert started[-2:] == ["seq", "3"], "its own arguments are left as they are"
        assert station.command_line(["nice", "-n", "1", "seq", "3"]) == [
            "nice",
            "-n",
            "1",
            *started[:-2],
            "3",
        ]
        assert station.command_line(["nice", "true"]) == ["nice", "true"]
    finally:
        station.close()


def test_an_endpoint_with_a_broken_nproc_is_an_error(tmp_path: Path) -> None:
    nproc = tmp_path / "nproc"
    nproc.write_text("#!/bin/sh\necho many\n")
    nproc.chmod(0o755)
    path = f"PATH={tmp_path}:/usr/bin:/bin"
    sshd = Sshd(tmp_path, options=f"{OPTIONS}\nSetEnv {path}")
    endpoint = Endpoint(REQUEST, "id", sshd.login(), "192.0.2.1", None, None)
    station = Station(endpoint, Location(), f"{unique()}-{tmp_path.name}")
    try:
        with pytest.raises(EndpointError, match="nproc"):
            _ = station.cpus
    finally:
        station.close()
        sshd.close()


def test_a_hanging_sshd_costs_one_trial_and_is_reconnected(sshd: Sshd, tmp_path: Path) -> None:
    login = replace(sshd.login(), waits=SshTimeouts(answer_s=0.5))
    endpoint = Endpoint(REQUEST, "id", login, "192.0.2.1", None, None)
    station = Station(endpoint, Location(host="h", tenant="t"), tmp_path.name)
    held = station.agent("sender")
    sshd.stop()
    try:
        with pytest.raises(AgentError, match="no clock within"):
            held.clock_offset(0.5)
        with pytest.raises(ReachError, match="no answer"):
            station.agent("receiver")
        # The agent of before still runs there, on the file that is to be put.
        assert station.agent("receiver") is not held
        assert station.agent("receiver").clock_offset().uncertainty_s < 5
    finally:
        station.close()


def test_an_endpoint_takes_more_agents_than_programs_of_its_sshd(tmp_path: Path) -> None:
    sshd = Sshd(tmp_path, options=f"{OPTIONS}\nMaxSessions 10")
    endpoint = Endpoint(REQUEST, "id", sshd.login(), "192.0.2.1", None, None)
    station = Station(endpoint, Location(host="h", tenant="t"), f"{unique()}-{tmp_path.name}")
    try:
        agents = [station.agent(f"job-{number}") for number in range(16)]
        assert len({id(agent) for agent in agents}) == 16
        assert station.facts()["clock_offset_uncertainty_s"] < 5
        assert all(agent.clock_offset().uncertainty_s < 5 for agent in agents)
        assert len(sshd.servers) == 1
        agents[3].close()
        assert station.agent("job-3") is not agents[3]
        assert station.agent("job-4") is not agents[4], "they end together"
        inside = [station.agent(f"in-{place}:job-0", ("env", f"A={place}")) for place in range(7)]
        assert all(agent.clock_offset().uncertainty_s < 5 for agent in inside)
        assert len(sshd.servers) == 2
        station.end_agents("in-3")
        assert inside[3].gone is not None
        assert inside[4].gone is None
        station.agent("in-7:job-0", ("env", "A=7")).clock_offset()
        assert len(sshd.servers) == 2, "a new place takes that of the one before"
    finally:
        station.close()
        for server in sshd.servers:
            server.wait(timeout=10)
        sshd.close()


def test_a_login_that_is_kept_for_a_run_takes_more_agents_than_it_has_room_for(
    tmp_path: Path,
) -> None:
    sshd = Sshd(tmp_path, options=f"{OPTIONS}\nMaxSessions 10")
    kept = SshSession.open(sshd.login())
    login = replace(sshd.login(), kept=kept)
    endpoint = Endpoint(REQUEST, "id", login, "192.0.2.1", None, None)
    station = Station(endpoint, Location(host="h", tenant="t"), f"{unique()}-{tmp_path.name}")
    try:
        inside = [station.agent(f"in-{place}:job-0", ("env", f"A={place}")) for place in range(13)]
        assert all(agent.clock_offset().uncertainty_s < 5 for agent in inside)
        assert len(sshd.servers) == 3
        station.close()
        for server in sshd.servers[1:]:
            server.wait(timeout=10)
        assert kept.is_open, "it is of whom it was taken from"
    finally:
        station.close()
        kept.close()
        sshd.close()


def test_jobs_get_data_ports_in_turn(sshd: Sshd, tmp_path: Path) -> None:
    endpoint = Endpoint(REQUEST, "id", sshd.login(), "192.0.2.1", None, None)
    station = Station(endpoint, Location(), tmp_path.name)
    station.close()
    counts = [1, 100, 1, 400, 300, 1000, 1, 1]
    taken = [set(range(first := station.data_ports(n), first + n)) for n in counts]
    assert all(ports <= set(DATA_PORTS) for ports in taken)
    assert all(one.isdisjoint(other) for one, other in pairwise(taken[:-3]))
    assert taken[-2] != taken[-1]
