"""Stations, which are deployed endpoints: SSH sessions, agents, location, facts, and their loss.

A cloud may take spare (spot) capacity back; a machine may break down, or boot.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from osmef.agent.client import AGENT, ANSWER_S, AgentClient, Agents, Deployment, deploy
from osmef.engine.placement import ProvisionedEndpoints
from osmef.engine.plan import PlannedTrial
from osmef.errors import (
    AgentError,
    CapacityError,
    CredentialsError,
    EndpointError,
    HostKeyError,
    Interrupted,
    LoginError,
    LostError,
    OsmefError,
    ReachError,
)
from osmef.facts.collect import change, collect, file_systems
from osmef.providers.base import Endpoint, RunContext
from osmef.providers.retry import Retry
from osmef.providers.sites import Sites
from osmef.remote.session import RemoteProcess, SshSession, wait_for_ssh
from osmef.remote.workdir import clear, directory_of, remove, scratch_prefix
from osmef.results.observations import Carried
from osmef.results.rundir import RunDirectory
from osmef.results.trial import Trial
from osmef.scenario.fields import DATA_PORTS, RUN_DIRECTORY
from osmef.scenario.location import Gone, Location
from osmef.supply.program import Program
from osmef.units import counted

if TYPE_CHECKING:
    from osmef.supply.supply import (
        Supplied,  # slow to load
        Supplier,  # slow to load
    )

_POLL_S = 0.05
_MOST_AT_ONCE = 16
# sshd allows 10 programs at once in a connection (MaxSessions); some are for other things.
_PLACES_A_SESSION = 6
# An endpoint that works hard answers late; one that is silent for so long is lost.
_ANSWER_S = 10.0
# A container engine takes its time to start a program in a container.
_INSIDE_S = 60.0


class Station:
    """A deployed endpoint. Lost sessions and agents are reopened.

    ``lost`` is why it can't be measured: it is awaited, given up, or no longer exists;
    ``lost_at`` is when that was found.
    """

    def __init__(self, endpoint: Endpoint, location: Location, run: str) -> None:
        self.endpoint = endpoint
        self.location = location
        self.lost: OsmefError | None = None
        self.lost_at: datetime | None = None
        self._run = run
        self._directory = directory_of(run, endpoint.name)
        self._scratch: list[str] = []
        self._closing = threading.Lock()
        self._closed = False
        self._roles: dict[str, AgentClient] = {}
        self._agents: dict[tuple[str, ...], Agents] = {}  # by the prefix of its command line
        self._used: dict[tuple[str, ...], SshSession] = {}
        self._more: list[SshSession] = []
        self._supplied: list[Supplied] = []
        self._states: dict[str, str | None] = {}  # of the files of programs, when they were right
        self._cleanup: RemoteProcess | None = None
        self._keeps_lock = False
        self._addresses: dict[str, str] = {}  # of other hosts, by the names that it knows
        self.reserved: set[int] = set()
        """Data ports that no job gets: layers have them."""
        self.layers: dict[str, Any] = {}
        """What is known of the layers in which it is measured, by their short names."""
        # Not always the same ones, so that runs on one machine rarely meet.
        self._next_ports: dict[range, int] = {
            DATA_PORTS: random.choice(DATA_PORTS)  # noqa: S311 - no secret
        }
        self._session, self.deployment = self._deploy(SshSession.open(endpoint.login))
        try:
            self._agents_in(())  # where they can't run, as in a home without execution, none can
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """The endpoint's name."""
        return self.endpoint.name

    @property
    def label(self) -> str:
        """The endpoint's name for messages, with that of its machine in an inventory."""
        machine = self.endpoint.login.name
        return self.name if machine == self.name else f"{self.name} ({machine})"

    @property
    def session(self) -> SshSession:
        """The SSH session for programs; replaced when it is lost."""
        return self._session

    @property
    def directory(self) -> str:
        """The run's directory on it, from where agents are started."""
        return self._directory

    def _deploy(self, session: SshSession, *, again: bool = False) -> tuple[SshSession, Deployment]:
        """Deploy the agent and all programs; after an error the session is closed."""
        try:
            if again:  # an agent that a hanging sshd keeps alive would hold its file
                remove(session, self._run, self.name)
                for parent in self._elsewhere:
                    clear(session, scratch_prefix(self._run, self.name), parent)
            deployment = deploy(session, self._directory)
            self._clean_up_after(session, deployment)
            for supplied in self._supplied:
                supplied.push(session)
        except BaseException:
            session.close()
            raise
        return session, deployment

    def _clean_up_after(self, session: SshSession, deployment: Deployment) -> None:
        """Have a machine that stays remove the run's files when the connection ends."""
        if self.endpoint.lock is None:
            return
        if self._cleanup is not None:
            self._cleanup.close()
        argv = [f"./{deployment.path}", "cleanup", self._directory, *self.endpoint.lock]
        self._cleanup = session.start(argv)
        if self._keeps_lock:
            self._cleanup.send_line("keep the lock")

    def keep_lock(self) -> None:
        """Have the machine's lock outlive the connection.

        By the lock it is known whose the layers are that are on the machine.
        """
        if self._cleanup is not None and not self._keeps_lock:
            self._keeps_lock = True
            self._cleanup.send_line("keep the lock")

    def provide(self, programs: Iterable[Program], supplier: Supplier) -> None:
        """Supply further programs for the rest of the run.

        Raises SupplyError where one can't be supplied, ReachError.
        """
        from osmef.supply.supply import supply  # noqa: PLC0415 - slow to load, and few need it

        machine = self.deployment.binary.machine
        for program in programs:
            supplied = supply(program, self._session, machine, self._directory, supplier)
            supplied.push(self._session)
            self._supplied.append(supplied)
        self.check_programs()

    @property
    def has_brought(self) -> bool:
        """Whether programs were supplied to it."""
        return any(supplied.files for supplied in self._supplied)

    def check_programs(self) -> None:
        """Verify the supplied programs; send modified ones again.

        Raises EndpointError that names a file that was cut, changed or removed.
        """
        wrong: list[EndpointError] = []
        with contextlib.suppress(ReachError):  # its next use raises the error
            for supplied in self._supplied:
                try:
                    known = self._states.get(supplied.program)
                    self._states[supplied.program] = supplied.verify(self._session, known)
                except ReachError:
                    raise
                except EndpointError as error:
                    wrong.append(error)
                    supplied.push(self._session)
        if wrong:
            raise wrong[0]

    def register_program_directories(self, directories: Iterable[str]) -> None:
        """Register the parents of programs' own directories."""
        self._scratch = list(directories)

    @property
    def _elsewhere(self) -> list[str]:
        return [one for one in self._scratch if one != RUN_DIRECTORY]

    def scratch(self, directory: str, job: str) -> str:
        """Return the path of a job's own directory below this one, which does not exist yet."""
        return f"{self._path(directory)}/{scratch_prefix(self._run, self.name)}{job}"

    def _path(self, directory: str) -> str:
        return self._directory if directory == RUN_DIRECTORY else directory

    def command_line(self, argv: Sequence[str]) -> list[str]:
        """Resolve a command line to the paths of the agent and of supplied programs."""
        data = {name: path for one in self._supplied for name, path in one.data.items()}
        starts = {one.program: one.argv for one in self._supplied} | {AGENT: (f"./{AGENT}",)}
        first, *others = argv
        if first in starts:
            return [*starts[first], *(data.get(word, word) for word in others)]
        # What starts others, such as sh or taskset, gets their paths.
        known = {name: (path,) for name, path in data.items()} | starts
        return [one for word in argv for one in known.get(word, (word,))]

    @cached_property
    def cpus(self) -> int:
        """How many CPUs programs may use there. Raises ReachError, EndpointError."""
        found = self._session.word(["nproc"])
        if not found.isdecimal():
            raise EndpointError(
                "it does not report how many CPUs it has: nproc prints no number",
                where=self.label,
                cure="write the number of threads into the scenario",
            )
        return int(found)

    def address_of(self, name: str) -> str:
        """Look up the address of another host there, once for a run.

        Of several the one that programs there would take first (RFC 6724). Raises ReachError,
        EndpointError.
        """
        if name not in self._addresses:
            reported = self._session.run(["getent", "ahosts", name])
            words = reported.stdout.decode(errors="replace").split()
            try:
                self._addresses[name] = str(ip_address(words[0]))
            except (IndexError, ValueError):
                raise EndpointError(
                    f"it finds no address of {name}",
                    where=self.label,
                    cure=f"try there: getent ahosts {name}; or write the address into the scenario",
                ) from None
        return self._addresses[name]

    def check(self) -> None:
        """Raise the error of a lost endpoint."""
        if self.lost is not None:
            raise self.lost

    def lose(self, error: OsmefError) -> None:
        """Mark the endpoint as lost, for this reason."""
        self.lost, self.lost_at = error, self.lost_at or datetime.now(UTC)

    @property
    def has_lost_agents(self) -> bool:
        """Whether an agent has ended unexpectedly."""
        return any(agent.gone is not None for agent in self._roles.values())

    def answers(self) -> bool:
        """Return whether all connections are alive."""
        return all(session.answers(_ANSWER_S) for session in (self._session, *self._more))

    def reach_again(self, retry: Retry) -> None:
        """Wait until it is reachable, and deploy again; then it is no longer lost.

        Raises why it could not be reached last; at once HostKeyError, and CredentialsError where
        there is no key to show.
        """
        self._disconnect()
        deadline = time.monotonic() + retry.limit_s

        def reach() -> tuple[SshSession, Deployment]:
            login = self.endpoint.login
            session = wait_for_ssh(login, deadline=deadline, check=retry.check)
            return self._deploy(session, again=True)

        found = retry.repeat(reach, _pause_after)  # what boots may go away once more
        with self._closing:
            if self._closed:
                found[0].close()
                raise Interrupted("the run has ended")
            self._session, self.deployment = found
            self.lost = self.lost_at = None

    def _disconnect(self) -> None:
        """Drop all connections, and with them the agents."""
        for session in (*self._more, self._session):
            session.close()
        for agents in self._agents.values():
            agents.close()
        if self._cleanup is not None:
            self._cleanup.close()
        self._more, self._roles, self._agents, self._used = [], {}, {}, {}

    def agent(self, role: str, prefix: Sequence[str] = ()) -> AgentClient:
        """Return a living agent for a role. Raises ReachError, AgentError, or why it is lost.

        ``prefix`` is put before its command line, to run it inside of a namespace or container.
        """
        self.check()
        agent = self._roles.get(role)
        if agent is None or agent.gone is not None:
            agent = self._roles[role] = self._agents_in(tuple(prefix)).open()
        return agent

    def _agents_in(self, prefix: tuple[str, ...]) -> Agents:
        """Return the living agents in a place, which share one multiplexer there."""
        agents = self._agents.get(prefix)
        if agents is not None and agents.gone is None:
            return agents
        if agents is not None:
            agents.close()
        if not self._session.is_open:
            self._session.close()  # also its jump host, which may well be there
            opened = SshSession.open(self.endpoint.login)
            self._session, self.deployment = self._deploy(opened, again=True)
        session = self._used[prefix] = self._session_with_free_channel(prefix)
        hello_s = _INSIDE_S if prefix else ANSWER_S
        agents = self._agents[prefix] = Agents.start(session, self.deployment, hello_s, prefix)
        return agents

    def _session_with_free_channel(self, prefix: tuple[str, ...]) -> SshSession:
        """Return a session with room for another channel, a new one if need be."""
        self._more = [session for session in self._more if session.is_open]
        others = [used for other, used in self._used.items() if other != prefix]
        for session in (self._session, *self._more):
            if sum(used is session for used in others) < _PLACES_A_SESSION:
                return session
        # One that is kept for the run has no room either.
        self._more.append(SshSession.open(replace(self.endpoint.login, kept=None)))
        return self._more[-1]

    def end_agents(self, beginning: str) -> None:
        """End the agents of roles with this prefix. Never raises.

        Those outside of all layers stay: they have nothing there.
        """
        for role in [role for role in self._roles if role.startswith(beginning)]:
            ended = self._roles.pop(role).agents
            for prefix in [one for one, agents in self._agents.items() if one and agents is ended]:
                self._agents.pop(prefix).close()
                self._used.pop(prefix, None)

    def data_ports(self, count: int, among: range | None = None) -> int:
        """Return the first of consecutive data ports, round-robin.

        Without those that are reserved; or only ``among`` some that are.
        """
        ports = among or DATA_PORTS
        first = self._next_ports.get(ports, ports.start)
        for _ in range(2 * len(ports)):
            if first + count > ports.stop:
                first = ports.start
            if among is not None or self.reserved.isdisjoint(range(first, first + count)):
                self._next_ports[ports] = first + count
                return first
            first += 1
        raise EndpointError("too few data ports are free", where=self.label)

    def facts(self) -> dict[str, Any]:
        """Collect the endpoint's metadata, with clock offset and agent."""
        agent = self.agent("facts")
        clock = agent.clock_offset()
        return {
            **collect(self._session),
            "clock_offset_s": clock.offset_s,
            "clock_offset_uncertainty_s": clock.uncertainty_s,
            "agent_sha256": self.deployment.binary.sha256,
            **({"programs": self._programs} if self._supplied else {}),
            **({"layers": dict(self.layers)} if self.layers else {}),
            **({"addresses": dict(self._addresses)} if self._addresses else {}),
            **({"file_systems": self._file_systems()} if self._scratch else {}),
        }

    def carried(self) -> Carried:
        """Return the traffic of its interfaces since they exist.

        Raises ReachError, AgentError.
        """
        reported = self.agent("facts").carried()
        cards = [number for number, name in enumerate(reported.name) if name != "lo"]
        return Carried(
            endpoint=self.name,
            received_bytes=sum(reported.rx_bytes[number] or 0 for number in cards),
            sent_bytes=sum(reported.tx_bytes[number] or 0 for number in cards),
        )

    def _file_systems(self) -> dict[str, Any]:
        paths = {one: self._path(one) for one in self._scratch}
        found = file_systems(self._session, list(paths.values()))
        return {one: found[path] for one, path in paths.items()}

    @property
    def _programs(self) -> dict[str, Any]:
        return {one.program: dict(one.facts) for one in self._supplied}

    def close(self) -> None:
        """End the agents, remove all files, and disconnect. Never raises."""
        with self._closing:
            self._closed = True
        if self.lost is None:
            for agents in self._agents.values():
                agents.close()
            with contextlib.suppress(OsmefError):
                remove(self._session, self._run, self.name)
        self._disconnect()


def _pause_after(error: Exception) -> float | None:
    """Return whether to retry an endpoint that was reached, and then lost."""
    is_retryable = isinstance(error, EndpointError) and not isinstance(error, HostKeyError)
    return 0.0 if is_retryable else None


def open_stations(provisioned: ProvisionedEndpoints, context: RunContext) -> dict[str, Station]:
    """Connect to all endpoints concurrently, and deploy the agent. Raises the first error.

    After an error or a stop no session stays open.
    """
    pool = ThreadPoolExecutor(max_workers=min(_MOST_AT_ONCE, len(provisioned.endpoints)))
    futures: list[Future[Station]] = [
        pool.submit(Station, endpoint, provisioned.locations[name], context.run)
        for name, endpoint in provisioned.endpoints.items()
    ]
    try:
        pending = set(futures)
        while pending:
            context.check()
            done, pending = wait(pending, timeout=_POLL_S)
            for future in done:
                future.result()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for future in futures:
            future.add_done_callback(_close_station)
        raise
    pool.shutdown()
    return {future.result().endpoint.name: future.result() for future in futures}


def _close_station(future: Future[Station]) -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().close()


def close_stations(stations: dict[str, Station]) -> None:
    """Close all stations concurrently."""
    if stations:
        with ThreadPoolExecutor(max_workers=min(_MOST_AT_ONCE, len(stations))) as pool:
            list(pool.map(Station.close, stations.values()))


Facts = dict[str, Any]

_RESUMED = "."


def first_moment(group: int, starts: int) -> str:
    """Return the name of the moment before a group, at the nth start of a run.

    A resumed run has new endpoints, whose counters restart: the facts after the group before are
    not theirs, and are kept.
    """
    return f"{group - 1:05}" + (f"{_RESUMED}{starts - 1:02}" if starts > 1 else "")


def creation_moment(moments: list[str]) -> str:
    """Return the moment at which an endpoint was last created."""
    return max((moment for moment in moments if _RESUMED in moment), default=moments[0])


def collect_facts(
    stations: dict[str, Station],
    directory: RunDirectory,
    moment: str,
    earlier: Mapping[str, Facts],
) -> dict[str, Facts]:
    """Write the facts of every endpoint to ``facts/MOMENT/``, and return them by endpoint.

    ``earlier`` are those of the moment before, if any: what has changed since is written, too. An
    endpoint that does not answer is recorded with the reason; the run goes on. Raises StorageError.
    """
    with ThreadPoolExecutor(max_workers=max(1, len(stations))) as pool:
        found = dict(zip(stations, pool.map(_facts, stations.values()), strict=True))
    for name, facts in found.items():
        changed = {"change": change(earlier[name], facts)} if name in earlier else {}
        directory.write_facts(moment, name, {**facts, **changed})
    return found


def _facts(station: Station) -> Facts:
    try:
        return station.facts()
    except OsmefError as error:
        return {"error": str(error)}


_OF_ENDPOINTS = (EndpointError, ReachError, HostKeyError, LoginError, AgentError, CredentialsError)
BROKEN = {one.kind for one in _OF_ENDPOINTS}
"""Kinds of failures of trials that a lost endpoint may be behind."""

Stations = Mapping[str, Station]


def loss_of(name: str) -> CapacityError:
    """Return the error of an endpoint that no longer exists in its cloud."""
    return CapacityError(
        "it no longer exists in its cloud: it was reclaimed, as spot VMs may be, or deleted",
        where=name,
        cure="measure again; if it was a spot VM, with spot: false",
    )


def lose(stations: Sequence[Station], locations: Sequence[Location]) -> list[Station]:
    """Mark the stations lost whose endpoints no longer exist in their cloud; return those.

    Earlier trials on it are kept: it has not moved.
    """
    gone = [
        station
        for station, location in zip(stations, locations, strict=True)
        if isinstance(location, Gone) and not isinstance(station.lost, CapacityError)
    ]
    for station in gone:
        station.lose(loss_of(station.label))
    return gone


def mark_lost(sites: Sites, stations: Sequence[Station]) -> None:
    """Mark endpoints lost that no longer exist in their cloud. The cloud's errors are ignored."""
    with contextlib.suppress(OsmefError):
        lose(stations, sites.describe([station.endpoint for station in stations]))


def lost_ends(sites: Sites, stations: Stations, trial: Trial) -> list[str]:
    """Return the ends of a failed trial that no longer exist, if that explains the failure."""
    if trial.failure is None or trial.failure.kind not in BROKEN:
        return []
    names = dict.fromkeys([*trial.senders, *trial.receivers])
    ends = [stations[name] for name in names if name in stations]  # a server there is not ours
    mark_lost(sites, ends)
    return [station.name for station in ends if station.lost is not None]


def is_measurable(planned: PlannedTrial, stations: Stations) -> bool:
    """Return whether none of the ends of a trial is lost."""
    return all(stations[end.name].lost is None for end in planned.cell.endpoints)


def lost_error(stations: Stations, left: Sequence[PlannedTrial], planned: int) -> LostError:
    """Return the error of a run that could not measure all ``planned`` trials."""
    needed = {end.name for one in left for end in one.cell.endpoints}
    lost = [station for name, station in stations.items() if name in needed and station.lost]
    said = [(station.label, _loss_text(station)) for station in lost]
    what = "; ".join(text for _, text in said[:1])
    if said[1:]:
        what = "; ".join(f"{name} {text}" for name, text in said)
    cures = dict.fromkeys(str(one.lost.cure) for one in lost if one.lost and one.lost.cure)
    cells = len({one.cell.cell.key for one in left})
    return LostError(
        f"{what}. Without {'it' if len(lost) == 1 else 'them'} {len(left)} of {planned} trials"
        f" could not be measured, of {counted(cells, 'cell')}; they remain to be measured",
        where=", ".join(name for name, _ in said),
        cure="; ".join(cures) or None,
    )


def _loss_text(station: Station) -> str:
    since = f"{station.lost_at:%Y-%m-%d %H:%M:%S} UTC" if station.lost_at else "the start"
    return f"lost since {since}: {station.lost.message if station.lost else ''}"
