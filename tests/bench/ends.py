"""Agents driven by the protocol, in the room's namespaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.agents.lab import COOKIE, Agent, Event
from tests.bench.room import TIMEOUT_S, Place, ProgramError, Room

JOB = "bench"
PORT = 5310


@dataclass(frozen=True)
class Results:
    """What the two ends said last."""

    listener: Event
    connector: Event


def expect(agent: Agent, name: str) -> Event:
    """Return the next event of this name; raises ProgramError when the job fails before."""
    while (event := agent.event(TIMEOUT_S))["event"] != name:
        if event["event"] == "error":
            raise ProgramError(f"the agent says: {event['message']}")
    return event


def agent_at(room: Room, number: int, binary: Path) -> Agent:
    return Agent(*room.enter(number), binary)


def run_pair(ends: Sequence[Agent], place: Place, kind: str, **keys: object) -> Results:
    """Run a job between the agents at the client and at the server, which listens."""
    client, server = ends
    job = {"id": JOB, "cookie": COOKIE, "arm_timeout_s": 10, "stall_timeout_s": 10, **keys}
    server.command(kind, side="listen", bind=place.address, port=PORT, **job)
    expect(server, "listening")
    client.command(kind, side="connect", host=place.address, port=PORT, **job)
    for agent in ends:
        expect(agent, "connected")
    client.command("start", id=JOB)
    return Results(connector=expect(client, "result"), listener=expect(server, "result"))


@contextmanager
def pair(room: Room, place: Place, binary: Path) -> Iterator[tuple[Agent, Agent]]:
    """Start agents at the client's and at the server's end."""
    with (
        agent_at(room, place.client, binary) as client,
        agent_at(room, place.server, binary) as server,
    ):
        yield client, server
