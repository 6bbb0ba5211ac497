"""An endpoint with everything on it that a run needs: session, agent, location."""

from __future__ import annotations

import contextlib
import random
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from osmef.agent.client import AgentClient
from osmef.agent.deploy import Deployment, deploy
from osmef.engine.settle import Settled
from osmef.errors import OsmefError
from osmef.facts.collect import collect
from osmef.providers.base import Endpoint, Order
from osmef.remote.session import Session
from osmef.remote.workdir import directory_of
from osmef.scenario.location import Location
from osmef.scenario.ports import DATA_PORTS

_POLL_S = 0.05
_MOST_AT_ONCE = 16
# sshd allows 10 programs at once in a connection (MaxSessions); some are for other things.
_AGENTS_A_SESSION = 7


class Station:
    """An endpoint that is reached and ready. Lost sessions and agents are opened anew."""

    def __init__(self, endpoint: Endpoint, location: Location, run: str) -> None:
        self.endpoint = endpoint
        self.location = location
        self.lost: OsmefError | None = None
        """Why it can't be measured any more, once its cloud has it no more."""
        self._directory = directory_of(run, endpoint.name)
        self._agents: dict[str, AgentClient] = {}
        self._used: dict[str, Session] = {}
        self._more: list[Session] = []
        # Not always the same ones, so that runs on one machine rarely meet.
        self._next_port = random.choice(DATA_PORTS)  # noqa: S311 - no secret
        self._session, self.deployment = self._reach()

    @property
    def name(self) -> str:
        """The endpoint's name."""
        return self.endpoint.name

    def _reach(self) -> tuple[Session, Deployment]:
        """Connect and put the agent there; after an error no session stays open."""
        session = Session.open(self.endpoint.login)
        try:
            if self._agents:  # one that a hanging sshd keeps alive would hold its file
                session.remove_directory(self.deployment.directory)
            return session, deploy(session, self._directory)
        except BaseException:
            session.close()
            raise

    def check(self) -> None:
        """Raise why it can't be measured any more, if it can't."""
        if self.lost is not None:
            raise self.lost

    def agent(self, role: str) -> AgentClient:
        """Return a living agent for a role. Raises ReachError, AgentError, and why it is lost."""
        self.check()
        agent = self._agents.get(role)
        if agent is None or agent.gone is not None:
            if not self._session.is_open:
                self._session.close()  # also its jump host, which may well be there
                self._session, self.deployment = self._reach()
            session = self._used[role] = self._roomy_session(role)
            agent = self._agents[role] = AgentClient.start(session, self.deployment)
        return agent

    def _roomy_session(self, role: str) -> Session:
        """Return a session that takes one more agent, a new one if need be."""
        self._more = [session for session in self._more if session.is_open]
        others = [used for name, used in self._used.items() if name != role]
        for session in (self._session, *self._more):
            if sum(used is session for used in others) < _AGENTS_A_SESSION:
                return session
        self._more.append(Session.open(self.endpoint.login))
        return self._more[-1]

    def data_ports(self, count: int) -> int:
        """Return the first of so many data ports in a row, in turn: the next call gets others."""
        if self._next_port + count > DATA_PORTS.stop:
            self._next_port = DATA_PORTS.start
        first, self._next_port = self._next_port, self._next_port + count
        return first

    def facts(self) -> dict[str, Any]:
        """Collect the endpoint's metadata, clock offset and agent included."""
        agent = self.agent("facts")
        clock = agent.clock_offset()
        return {
            **collect(self._session),
            "clock_offset_s": clock.offset_s,
            "clock_offset_uncertainty_s": clock.uncertainty_s,
            "agent_sha256": self.deployment.binary.sha256,
        }

    def close(self) -> None:
        """End the agents, remove what was put there, and disconnect. Never raises."""
        for agent in self._agents.values():
            agent.close()
        with contextlib.suppress(OsmefError):
            self._session.remove_directory(self.deployment.directory)
        for session in (*self._more, self._session):
            session.close()


def open_stations(settled: Settled, order: Order) -> dict[str, Station]:
    """Reach all endpoints at once and put the agent on each. Raises the first error.

    After an error or a stop no session stays open.
    """
    pool = ThreadPoolExecutor(max_workers=min(_MOST_AT_ONCE, len(settled.endpoints)))
    futures: list[Future[Station]] = [
        pool.submit(Station, endpoint, settled.places[name], order.run)
        for name, endpoint in settled.endpoints.items()
    ]
    try:
        pending = set(futures)
        while pending:
            order.check()
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
    """Close all stations at once."""
    if stations:
        with ThreadPoolExecutor(max_workers=min(_MOST_AT_ONCE, len(stations))) as pool:
            list(pool.map(Station.close, stations.values()))
