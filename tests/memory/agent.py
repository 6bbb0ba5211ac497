"""An agent in memory: it speaks the protocol of docs/agent-protocol.md, and measures nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import osmef
from osmef.agent.messages import PROTOCOL
from tests.memory.model import Event
from tests.memory.network import Network, Place, TrialJob

_SERVES = ("ping", "pong")
_KINDS = ("bulk", "udp", "exchange", "sizes", "siege", *_SERVES)
_STEER = ("start", "stop", "write", "abort")
_KILLED = 128 + 9

_COMPACT = (",", ":")

Say = Callable[[str], None]


@dataclass
class Fault:
    """What an agent does with a command of a trial, in the place of what it should do.

    It dies, passes it over, or ends its job with an error of this kind. ``then`` is called before;
    it does what it should where nothing else is asked for.
    """

    endpoint: str
    trial: int
    command: str
    dies: bool = False
    passes_over: bool = False
    error: str | None = None
    then: Callable[[], None] | None = None

    def meets(self, endpoint: str, command: Mapping[str, Any]) -> bool:
        """Tell whether it is about this command at this endpoint."""
        trial = str(command.get("id", "")).partition(".")[0]
        wanted = (self.endpoint, str(self.trial), self.command)
        return wanted == (endpoint, trial, command.get("cmd"))


Heed = Callable[[str, Mapping[str, Any]], Fault | None]
"""Told of each command at an endpoint; returns the fault that is about it, if there is one."""


class Agent:
    """A process that takes lines and tells lines. ``status`` is set once it has ended."""

    def __init__(self, place: Place, network: Network, say: Say) -> None:
        self.place = place
        self.status: int | None = None
        self._network = network
        self._say = say
        self._job: TrialJob | None = None
        self._last: str | None = None

    def end(self, status: int = 0) -> None:
        """End as its input ends, or as it is killed; its peers see that."""
        with self._network.lock:
            self.status = status if self.status is None else self.status
            job, self._job = self._job, None
            if job is not None:
                self._network.leave(job)

    def tell(self, job: TrialJob, event: Event) -> None:
        """Tell an event of the job that runs; the job has ended then, if it is the last one."""
        if job is not self._job:
            return
        if event["event"] in {"result", "error"}:
            self._job, self._last = None, job.command["id"]
        self._send({"event": event["event"], "id": job.command["id"], **event})

    def obey(self, line: str, heed: Heed) -> None:
        """Do what a line says, unless a fault is about it."""
        with self._network.lock:
            command: dict[str, Any] = json.loads(line)
            fault = heed(self.place.name, command)
            if fault is not None and fault.then is not None:
                fault.then()
            if fault is not None and fault.dies:
                self.end(_KILLED)
            elif fault is not None and fault.error is not None:
                self._fail(command, fault.error)
            elif fault is None or not fault.passes_over:
                self._obey(command)

    def _fail(self, command: dict[str, Any], kind: str) -> None:
        job = self._job = self._job or TrialJob(self, command)
        self._network.leave(job)
        self.tell(job, {"event": "error", "kind": kind, "flow": 3, "message": "it is told to"})

    def _obey(self, command: dict[str, Any]) -> None:
        name = command.get("cmd")
        if name == "clock":
            real_ns, steady_ns = self.place.clock_ns()
            self._send({"event": "clock", "realtime_ns": real_ns, "monotonic_ns": steady_ns})
        elif name == "interface":
            self._send({"event": "interface", "name": "lo"})
        elif name == "carried":
            moved = self._network.carried[self.place.name]
            counts = {key: [0, moved] for key in ("rx_bytes", "tx_bytes")}
            counts |= {key: [0, moved // 1500] for key in ("rx_packets", "tx_packets")}
            self._send({"event": "carried", "interfaces": {"name": ["lo", "eth0"], **counts}})
        elif name in _KINDS:
            self._take(command)
        elif name in _STEER:
            self._steer(str(name), command)
        else:
            self._refuse(
                "cmd must be clock, interface, carried, start, stop, write, abort or a kind of job"
            )

    def _take(self, command: dict[str, Any]) -> None:
        if self._job is not None:
            self._refuse("a job is running; abort it or wait for its end")
            return
        job = self._job = TrialJob(self, command)
        if job.kind == "ping":
            self._network.connect(job)
        if job.kind in _SERVES or command.get("side") == "listen":
            self._network.listen(job)
        else:
            self._network.arm(job)

    def _steer(self, name: str, command: dict[str, Any]) -> None:
        job, id_ = self._job, command.get("id")
        if job is None or job.command["id"] != id_:
            if id_ != self._last:
                self._refuse("there is no job with this id")
        elif name == "start":
            self._network.start(job, int(command.get("at_monotonic_ns", 0)))
        elif name == "stop" and job.kind in _SERVES:
            self._network.stop(job)
        elif name == "stop":
            self._refuse("this job ends by itself; abort it to end it early")
        elif name == "write":
            self._refuse("this job accepts no input")
        else:
            self._network.leave(job)
            message = "the controller aborted the job"
            self.tell(job, {"event": "error", "kind": "aborted", "flow": None, "message": message})

    def _refuse(self, message: str) -> None:
        self._send({"event": "error", "id": None, "kind": "protocol", "message": message})

    def _send(self, event: Event) -> None:
        self._say(json.dumps(event))


class Agents:
    """A process that has agents under it, and passes on what is said."""

    def __init__(self, place: Place, network: Network, say: Say) -> None:
        self._place, self._network, self._say = place, network, say
        self._agents: dict[int, Agent] = {}
        self._highest = -1

    def begin(self, machine: str, pid: int) -> None:
        """Say hello."""
        told = {"protocol": PROTOCOL, "version": osmef.__version__, "machine": machine, "pid": pid}
        self._say(json.dumps({"event": "hello", **told}))

    def obey(self, line: str, heed: Heed) -> None:
        """Open an agent, or have one do what a line says."""
        command: dict[str, Any] = json.loads(line)
        number = command.pop("agent")
        agent = self._agents.get(number)
        if command["cmd"] == "open" and number > self._highest:
            self._highest = number
            self._agents[number] = Agent(self._place, self._network, self._saying(number))
        elif agent is not None:
            agent.obey(json.dumps(command), heed)
            if agent.status is not None:
                del self._agents[number]
                signal = agent.status - 128
                told = {"event": "ended", "status": None, "signal": signal, "message": ""}
                self._say(json.dumps({"agent": number, **told}, separators=_COMPACT))
        elif number > self._highest:
            message = "there is no agent of this number"
            told = {"event": "error", "id": None, "kind": "protocol", "message": message}
            self._say(json.dumps(told))

    def _saying(self, number: int) -> Say:
        return lambda line: self._say(f'{{"agent":{number},{line[1:]}')

    def end(self) -> None:
        """End them all as their input ends."""
        for agent in self._agents.values():
            agent.end()
