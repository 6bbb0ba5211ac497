"""Ping-pong over HTTP, as ppbench does: siege sends requests to ping, and ping to pong."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

import osmef
from osmef.results.observations import Purpose
from osmef.scenario.base import conflict
from osmef.scenario.fields import Duration, Size
from osmef.scenario.workload import Directions, WorkloadSettings
from osmef.supply.program import Program, SourceCode, Way
from osmef.units import format_duration, format_size
from osmef.workloads.base import End, Outcome, Part, PartResult, Step, Value, Workload
from osmef.workloads.programs import check_ways
from osmef.workloads.siege import MEASURES, check, cpu_metrics, request_metrics, siege_of
from osmef.workloads.tasks import PROGRAM

if TYPE_CHECKING:
    from pydantic_core import PydanticCustomError

    from osmef.scenario.model import Scenario


_ROOT = Path(osmef.__file__).parent
_PACKAGED = _ROOT / "agent" / "pingpong"
_SOURCES = _PACKAGED if _PACKAGED.is_dir() else _ROOT.parent / "agents" / "pingpong"
"""Where the programs lie: in an installed package, or in the source tree."""

_THERE: tuple[Way, ...] = ("present",)
"""An interpreter has hundreds of files besides itself, which no bundle holds."""

# Ruby's standard library has no HTTP server since 3.0. Status 127: it can't be run.
_WEBRICK = """\
begin
  require 'webrick'
rescue LoadError
  puts 'its webrick is missing: apt install ruby-webrick, or gem install webrick'
  exit 127
end
puts "#{RUBY_DESCRIPTION}, webrick #{WEBrick::VERSION}"
"""


class Implementation(StrEnum):
    """Languages of ping and pong; c is the agent itself."""

    C = "c"
    GO = "go"
    JAVA = "java"
    NODE = "node"
    PYTHON = "python"
    RUBY = "ruby"
    DART = "dart"


@dataclass(frozen=True)
class Language:
    """Supply and command line of ping and pong in a language."""

    program: Program
    """The files that are copied to the endpoint."""
    words: tuple[str, ...]
    """What starts it; its arguments go behind."""
    runtime: Program | None = None
    """What runs it there; nothing for a program by itself."""


def _interpreted(language: str, source: SourceCode, runtime: Program, *words: str) -> Language:
    program = Program(f"pingpong-{language}", source=source, how=("build",))
    return Language(program, (runtime.name, *words), runtime)


def _script(language: str, file: str, runtime: Program, *words: str) -> Language:
    source = SourceCode(steps=(), products=(file,), path=_SOURCES / language, language="script")
    return _interpreted(language, source, runtime, *words, file)


_GO = Program(
    "pingpong-go",
    source=SourceCode(
        steps=(("go", "build", "-trimpath", "-ldflags=-s -w", "-o", "made", "pingpong.go"),),
        products=("made",),
        path=_SOURCES / "go",
        language="go",
    ),
    how=("build",),
)
_JAVA = SourceCode(
    steps=(
        ("javac", "--release", "11", "-d", "made", "PingPong.java"),
        ("jar", "--create", "--file", "pingpong.jar", "-C", "made", "."),
    ),
    products=("pingpong.jar",),
    path=_SOURCES / "java",
    language="java",
)

LANGUAGES: Mapping[Implementation, Language] = {
    Implementation.GO: Language(_GO, (_GO.name,)),
    Implementation.JAVA: _interpreted(
        "java",
        _JAVA,
        Program("java", package="default-jre-headless", version=("-version",), how=_THERE),
        *("-cp", "pingpong.jar", "PingPong"),
    ),
    Implementation.NODE: _script(
        "node", "pingpong.js", Program("node", package="nodejs", how=_THERE)
    ),
    Implementation.PYTHON: _script("python", "pingpong.py", Program("python3", how=_THERE)),
    Implementation.RUBY: _script(
        *("ruby", "pingpong.rb"),
        Program("ruby", packages=("ruby-webrick",), how=_THERE, version=("-e", _WEBRICK)),
    ),
    Implementation.DART: _script("dart", "pingpong.dart", Program("dart", how=_THERE)),
}
"""All but the agent's own."""


SIZE = "{size}"
_USUAL_PORT = 8080
_EXAMPLE = "http://192.0.2.7:8080/mping/{size}"
_TARGET = re.compile(r"[!-~]{1,200}")
# RFC 952 and RFC 1123, section 2.1; underscores are in use all the same.
_NAME = re.compile(
    r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?"
)


@dataclass(frozen=True)
class ExistingServer:
    """An existing server: an address or a name, a port, and a path with ``{size}`` in it."""

    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Host and port in the syntax of a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_named(self) -> bool:
        """Whether the client endpoint has to look up its address."""
        return _is_name(self.host)


def _is_name(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False


def read_url(url: str, key: str) -> ExistingServer:
    """Parse a URL. Raises a conflict of that key with the cure."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise conflict(f"this is no URL: {error}", f"such as {_EXAMPLE}", key) from error
    if parts.scheme != "http" or not host or parts.username is not None:
        what = (
            "only http is asked" if parts.scheme == "https" else "this is no http URL of a server"
        )
        raise conflict(what, f"such as {_EXAMPLE}", key)
    if _is_name(host) and not _NAME.fullmatch(host):
        raise conflict(f"{host} is no address and no name of a host", f"such as {_EXAMPLE}", key)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if path.count(SIZE) != 1:
        how = "no" if SIZE not in path else "more than one"
        cure = f"write {SIZE} in place of the message size, such as {_EXAMPLE}"
        raise conflict(f"the path has {how} {SIZE}", cure, key)
    if parts.fragment or port == 0 or not _TARGET.fullmatch(path):
        what = "no server has the port 0" if port == 0 else "the path has what no request can have"
        cure = f"write it with its port, without #, spaces and other letters, such as {_EXAMPLE}"
        raise conflict(what, cure, key)
    return ExistingServer(host, 80 if port is None else port, path)


# The length of a trial is only known at its end; this is for the estimate.
_GUESSED_REQUEST_S = 0.001
_GUESSED_BYTES_PER_S = 100e6
_TIMEOUT_S = 600.0
# For a server that prints nothing but the reason of its end.
_MOST_OUTPUT = 100_000


Sizes = Annotated[
    list[Annotated[Size, Field(ge=1, le=2**30)]], Field(min_length=1, max_length=1000)
]
"""Sizes of messages; as many as fit in one command of the agent."""

# Of the requests: from there on the 99th percentile would be one of those that failed.
_MANY_FAILED_PERCENT = 1.0

_RATE_PERCENT = 95.0
"""Of the rate of requests: what is slower is noted."""

# What the agent keeps a record of.
_MOST_REQUESTS = 10_000_000

# The widest range that the agent draws from without replacement.
_WIDEST_RANGE = 100_000_000


class PingPongSettings(WorkloadSettings):
    """Ping-pong over HTTP, as ppbench: siege asks ping, which asks pong for messages of sizes."""

    kind: Literal["pingpong"] = Field(default="pingpong", description="the kind of workload")
    sizes: Sizes | None = Field(
        default=None, description="message sizes; by default they are drawn from a range"
    )
    min: Size = Field(default=1, ge=1, le=2**30, description="smallest size of the range")
    max: Size = Field(default=500_000, ge=1, le=2**30, description="largest size of the range")
    coverage: float = Field(
        default=0.002, gt=0, le=1, description="share of the sizes of the range that is drawn"
    )
    replacement: bool = Field(default=True, description="whether a size may be drawn again")
    seed: int = Field(
        default=0, ge=0, lt=2**31, description="of the draw; every trial asks for the same sizes"
    )
    repetitions: int = Field(default=1, ge=1, le=10_000_000, description="requests of each size")
    connections: int = Field(
        default=1, ge=1, le=1000, description="requests at a time of each pair"
    )
    rate: float | None = Field(
        default=None,
        ge=0.001,
        le=1e6,
        description="open loop: requests per second of each pair, timed from when they are due;"
        " by default the next one follows the answer at once",
    )
    relay: bool = Field(
        default=True,
        description="true: siege and ping at the sender, pong at the receiver, and what ping"
        " measures counts; false: siege asks pong itself",
    )
    implementation: Implementation = Field(
        default=Implementation.C,
        strict=False,
        description="the language of ping and pong: `c` is the agent itself, the others are"
        " programs of OSMeF's own",
    )
    server: str | None = Field(
        default=None,
        max_length=500,
        description="the URL of an HTTP server that is there already, such as"
        " `http://192.0.2.7:8080/mping/{size}`: siege asks that, from one endpoint, and neither"
        " ping nor pong is started. `endpoints: {receiver: {address: 192.0.2.7, port: 8080}}` says"
        " the same",
    )
    ways: list[Literal["present", "install"]] | None = Field(
        default=None,
        min_length=1,
        description="how what runs that language may be had, in this order: `present`, and"
        " `install`, which changes the endpoint; by default the first",
    )
    keep_alive: bool = Field(
        default=True, description="false: siege opens a new connection for each request"
    )
    retries: int = Field(
        default=10, ge=0, le=1000, description="how often ping repeats a request that failed"
    )
    timeout: Duration = Field(
        default=10.0,
        ge=0.1,
        le=3600.0,
        description="how long a request may take; ping gives up on pong after half of it",
    )
    deadline: Duration | None = Field(
        default=None,
        ge=0.1,
        le=86400.0,
        description="how long all requests of a trial may take; it fails then;"
        " by default twice the estimate, and at least 10 minutes",
    )

    takes_server: ClassVar = True

    @classmethod
    def with_server(
        cls, host: str, port: int | None, given: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the settings with the URL of ping, or with ``relay: false`` of pong."""
        path = "/pong/{size}" if given.get("relay") is False else "/mping/{size}"
        where = ExistingServer(host, _USUAL_PORT if port is None else port, path)
        others = {key: value for key, value in given.items() if key != "relay"}
        return {**others, "server": f"http://{where.authority}{path}"}

    @property
    def server_address(self) -> str | None:
        """Address and port of a server that is there already."""
        return None if self.foreign is None else self.foreign.authority

    @property
    def directions(self) -> Directions:
        """Which ways its data goes: a request is small."""
        return Directions.ONE

    @property
    def foreign(self) -> ExistingServer | None:
        """The existing server, if any."""
        return None if self.server is None else read_url(self.server, "server")

    def warnings(self) -> Iterator[str]:
        """Warn that an existing server is not observed."""
        if self.foreign is not None:
            yield (
                f"the requests went to {self.server}, a server that OSMeF has not started: its"
                " machine, its distance and its CPU time are not known"
            )

    def warnings_from_metrics(self, metrics: Mapping[str, float | None]) -> Iterator[str]:
        """Warn where so many requests failed that quantiles are wrong, or the rate wasn't kept."""
        failed, requests = (metrics.get(name) for name in ("failed_requests", "requests"))
        if failed and requests and 100 * failed >= _MANY_FAILED_PERCENT * requests:
            yield (
                f"of some trials {_MANY_FAILED_PERCENT:g} % of the requests failed, or more: times"
                " and rates are of those that went well, so quantiles are too low where others ran"
                " into the timeout"
            )
        if self.rate is not None and self._is_behind(self.rate, metrics):
            yield (
                f"in some trials less than {_RATE_PERCENT:g} % of the {self.rate:g} requests per"
                " second were reached: they waited for the answers to those before, and"
                " request_..._us has that waiting; ask for a lower rate, or for more connections"
            )

    def _is_behind(self, rate: float, metrics: Mapping[str, float | None]) -> bool:
        """Return whether a trial took longer than its rate and a usual request explain.

        Where only the last answer was late, most requests did not wait.
        """
        names = ("requests", "failed_requests", "requests_per_s", "request_p50_us",
                 "request_p99_us")  # fmt: skip
        total, failed, per_s, p50_us, p99_us = (metrics.get(name) or 0 for name in names)
        if not per_s:
            return False
        length_s = self.requests / rate
        behind_s = (total - failed) / per_s - length_s
        allowed_s = length_s * (100 / _RATE_PERCENT - 1) + p50_us / 1e6
        return behind_s > allowed_s and p99_us / 1e6 > behind_s / 4

    def problems(self, scenario: Scenario) -> Iterator[PydanticCustomError]:
        """Yield conflicts with a background, and with the client of an existing server."""
        if self.server is not None and scenario.endpoints.loopback is None:
            yield conflict(
                "a server that is there already is asked by one endpoint, and has none itself",
                "write endpoints: {loopback: {}}",
                *("workload.server", "endpoints"),
            )
        if self.server is not None and "local" in {one.kind for one in scenario.clouds.values()}:
            yield conflict(
                "endpoints of the local provider reach nothing but each other",
                "write provider: static, or a cloud whose endpoints reach the server",
                *("workload.server", "provider"),
            )
        if scenario.background and not self.rate:
            yield conflict(
                "without a rate the length of the background is not known",
                "write workload.rate, the requests per second",
                *("workload.rate", "background"),
            )

    @property
    def requests(self) -> int:
        """The number of requests between each pair in one trial."""
        # as the agent rounds: 0.29 of 100 is a little less than 29 in binary
        drawn = int((self.max - self.min + 1) * self.coverage + 0.5) or 1
        return self.repetitions * (len(self.sizes) if self.sizes else drawn)

    @model_validator(mode="after")
    def _sizes_or_a_range(self) -> PingPongSettings:
        for key in ("min", "max", "coverage", "replacement"):
            if self.sizes is not None and key in self.model_fields_set:
                raise conflict(f"with sizes, {key} has no effect", f"remove {key} or sizes", key)
        return self

    @model_validator(mode="after")
    def _each_way_once(self) -> PingPongSettings:
        check_ways(self.ways)
        return self

    @model_validator(mode="after")
    def _a_server_is_asked_as_it_is(self) -> PingPongSettings:
        if self.foreign is None:
            return self
        for key in ("implementation", "relay", "retries", "ways"):
            if key in self.model_fields_set:
                raise conflict(
                    f"of a server that is there already, {key} has no effect",
                    f"remove {key} or server",
                    *(key, "server"),
                )
        return self

    @model_validator(mode="after")
    def _ping_is_there_for_retries(self) -> PingPongSettings:
        if not self.relay and "retries" in self.model_fields_set:
            raise conflict(
                "without the relay, retries has no effect: it is ping that repeats a request",
                "remove retries, or relay",
                "retries",
            )
        return self

    @model_validator(mode="after")
    def _range_has_sizes(self) -> PingPongSettings:
        if self.min > self.max:
            raise conflict(
                "the smallest size is larger than the largest one",
                f"give a min of at most {format_size(self.max)}",
                *("min", "max"),
            )
        return self

    @model_validator(mode="after")
    def _range_can_be_drawn_from(self) -> PingPongSettings:
        if not self.replacement and self.max - self.min + 1 > _WIDEST_RANGE:
            raise conflict(
                f"without replacement the range may have {_WIDEST_RANGE} sizes",
                "leave replacement out, or take a narrower range",
                *("replacement", "max", "min"),
            )
        return self

    @model_validator(mode="after")
    def _requests_can_be_kept(self) -> PingPongSettings:
        if self.requests > _MOST_REQUESTS:
            raise conflict(
                f"a trial would make {self.requests} requests; {_MOST_REQUESTS} is the limit",
                "lower coverage or repetitions",
                *("repetitions", "coverage"),
            )
        return self

    @model_validator(mode="after")
    def _rate_keeps_the_deadline(self) -> PingPongSettings:
        length = self.requests / self.rate if self.rate else 0.0
        if self.deadline is not None and length > self.deadline:
            raise conflict(
                f"at this rate {self.requests} requests take {format_duration(length)},"
                " longer than the deadline",
                "raise deadline or rate, or ask for less",
                *("rate", "deadline"),
            )
        return self


class PingPong(Workload[PingPongSettings]):
    """HTTP requests, each recorded. Pong is at the receiver, all else at the sender."""

    Settings = PingPongSettings

    measures = MEASURES

    def needs(self, end: End) -> tuple[Program, ...]:
        """Return the programs of ping and pong in another language than the agent's."""
        s = self._settings
        language = None if s.server else LANGUAGES.get(s.implementation)
        if language is None or (end == "sender" and not s.relay):
            return ()
        if language.runtime is None:
            return (language.program,)
        ways: tuple[Way, ...] = tuple(s.ways) if s.ways is not None else language.runtime.how
        return (replace(language.runtime, how=ways), language.program)

    def parts(self) -> tuple[Part, ...]:
        """Return the one part; its length is an estimate, with a separate deadline."""
        s = self._settings
        siege = Step(
            *("sender", "siege", self._asked()), connections=s.connections, requests=s.requests
        )
        steps = (*self._servers(), siege)
        estimate = self._estimate_s()
        deadline = s.deadline or max(_TIMEOUT_S, 2 * estimate)
        return (Part(steps, duration_s=min(estimate, deadline), deadline_s=deadline),)

    def _servers(self) -> tuple[Step, ...]:
        """Return pong, and ping if it relays; none for an existing server."""
        s = self._settings
        if s.server is not None:
            return ()
        relay: dict[str, Value] = {"retries": s.retries, "timeout_s": s.timeout / 2}
        pong, ping = (
            (
                Step("receiver", "pong", {}, listens=True, serves=True),
                Step("sender", "ping", relay, listens=True, serves=True),
            )
            if s.implementation is Implementation.C
            else (
                self._program("receiver", "pong"),
                self._program(
                    *("sender", "ping", "--pong", "{host}:{upstream}"),
                    *("--retries", str(s.retries), "--timeout", f"{s.timeout / 2:g}"),
                ),
            )
        )
        return (pong, ping) if s.relay else (pong,)

    def _program(self, end: End, *words: str) -> Step:
        """Return ping or pong as a program of another language."""
        language = LANGUAGES[self._settings.implementation]
        argv = [*language.words, *words, "--bind", "{bind}", "--port", "{port}"]
        started: dict[str, Value] = {"argv": argv, "env": ["LC_ALL=C"], "most_output": _MOST_OUTPUT}
        return Step(
            *(end, PROGRAM, {**started, "serves": True, "ready": "tcp"}),
            listens=True,
            serves=True,
            output_bytes=_MOST_OUTPUT,
        )

    def _asked(self) -> dict[str, Value]:
        s, foreign = self._settings, self._settings.foreign
        sizes: dict[str, Value] = {
            "size_min": s.min,
            "size_max": s.max,
            "coverage": s.coverage,
            "replacement": s.replacement,
        }
        where: dict[str, Value] = (
            {"path": "/mping/{size}" if s.relay else "/pong/{size}"}
            if foreign is None
            else {"host": foreign.host, "port": foreign.port, "path": foreign.path}
        )
        if foreign is not None and foreign.is_named:
            where["authority"] = foreign.authority
        return {
            **where,
            **({"sizes": ",".join(map(str, s.sizes))} if s.sizes else sizes),
            "repetitions": s.repetitions,
            "seed": s.seed,
            "keep_alive": s.keep_alive,
            "rate_per_s": s.rate or 0,
            "timeout_s": s.timeout,
        }

    def _estimate_s(self) -> float:
        s = self._settings
        if s.rate is not None:
            return s.requests / s.rate
        size = sum(s.sizes) / len(s.sizes) if s.sizes else (s.min + s.max) / 2
        moving = s.requests * size / _GUESSED_BYTES_PER_S
        return moving + s.requests * _GUESSED_REQUEST_S / s.connections

    def outcome(
        self, trial: int, purpose: Purpose, pairs: Sequence[Sequence[PartResult]]
    ) -> Outcome:
        """Return the outcome with every request, and the metrics over all pairs."""
        from osmef.workloads.siege import requests_table  # noqa: PLC0415 - pyarrow is slow

        ran = [one for (one,) in pairs]
        foreign = self._settings.foreign
        if foreign is not None:  # the other end is no endpoint
            ran = [replace(one, receiver=foreign.authority) for one in ran]
        sieges = [siege_of(one) for one in ran]
        tables = [
            requests_table(one.requests, trial, purpose, one.sender, one.receiver) for one in ran
        ]
        for one, siege, table in zip(ran, sieges, tables, strict=True):
            check(one, siege, table)
        metrics: dict[str, float | None] = {
            **request_metrics(tables, [siege.elapsed_s for siege in sieges]),
            **cpu_metrics(ran, sieges),
        }
        return Outcome(metrics, requests=tables)
