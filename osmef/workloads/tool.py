"""Base of workloads of one known program: command lines, and a parser of its output."""

from __future__ import annotations

import ipaddress
import math
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from pydantic import Field, model_validator

from osmef.agent.client import AGENT
from osmef.errors import OutputError, ProgramError
from osmef.results.measure import Better, Component, Measure, OverPairs
from osmef.scenario.base import conflict
from osmef.supply.program import Program
from osmef.workloads.programs import (
    USED,
    EndedProgram,
    ProgramRun,
    Programs,
    ProgramsSettings,
    Where,
    aggregate,
)

if TYPE_CHECKING:
    from pydantic_core import PydanticCustomError

    from osmef.scenario.model import Scenario


_PORT = re.compile(r"\[?(?P<host>[^\]]*?)\]?(:(?P<port>[0-9]{1,5}))?")
_EXAMPLE = "192.0.2.7 or 192.0.2.7:5201, and [2001:db8::7]:5201"


def read_address(text: str, usual_port: int) -> tuple[str, int]:
    """Parse a numeric address with an optional port.

    Raises a conflict of ``server`` with the reason and the cure.
    """
    found = _PORT.fullmatch(text)
    try:
        if ":" in text and not text.startswith("[") and text.count(":") > 1:
            host, port = str(ipaddress.IPv6Address(text)), usual_port
        elif found is None:
            raise ValueError
        else:
            host = str(ipaddress.ip_address(found["host"]))
            port = int(found["port"] or usual_port)
    except ValueError as error:
        cure = f"write its numeric address, for endpoints look no names up: {_EXAMPLE}"
        raise conflict(f"{text[:60]!r} is no address", cure, "server") from error
    if not 0 < port < 65536:
        raise conflict(f"there is no port {port}", "write one from 1 to 65535", "server")
    return host, port


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class ServerSettings(ProgramsSettings):
    """Settings of a program with a server of its own kind."""

    server: str | None = Field(
        default=None,
        description="a server of it that is there already, which OSMeF does not start: its numeric"
        " address, and port if need be; `endpoints` is a `loopback` then, the one that asks."
        " `endpoints: {receiver: {address: 192.0.2.7, port: 5201}}` says the same",
    )

    usual_port: ClassVar[int]
    takes_server: ClassVar = True

    @classmethod
    def with_server(
        cls, host: str, port: int | None, given: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the given settings with the ``server`` at an address."""
        return {**given, "server": _authority(host, cls.usual_port if port is None else port)}

    @property
    def server_address(self) -> str | None:
        """Address and port of an existing server as text."""
        return None if self.server_endpoint is None else _authority(*self.server_endpoint)

    @model_validator(mode="after")
    def _an_address(self) -> ServerSettings:
        if self.server is not None:
            read_address(self.server, self.usual_port)
        return self

    @property
    def server_endpoint(self) -> tuple[str, int] | None:
        """Address and port of an existing server."""
        return None if self.server is None else read_address(self.server, self.usual_port)

    def warnings(self) -> Iterator[str]:
        """Warn that an existing server is not observed."""
        yield from super().warnings()
        if self.server is not None:
            yield (
                f"the other end is {self.server}, a server that OSMeF has not started: its machine,"
                " its distance and its CPU time are not known"
            )

    def problems(self, scenario: Scenario) -> Iterator[PydanticCustomError]:
        """Yield conflicts of an existing server."""
        yield from super().problems(scenario)
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


PONG = ProgramRun(
    on=Where.RECEIVER,
    argv=[AGENT, "pong", "--bind", "{bind}", "--port", "{port}"],
    ready="port",
    serves=True,
)
"""A server at the receiver, which every endpoint has; it has a thread for each CPU."""


def url(size: int) -> str:
    """Return the URL of a response with so many bytes of payload, at least 4."""
    return f"http://{{host}}:{{port}}/pong/{size}"


def _time(name: str, text: str, **more: object) -> Measure:
    over = OverPairs.MEAN if name.endswith("_mean_us") else OverPairs.WORST
    return Measure(
        name=name, unit="us", better=Better.LOWER, help=text, over_pairs=over, **more
    )  # fmt: skip


def _times(of: str, label: str, what: str) -> tuple[Measure, ...]:
    """Return the measures of latency; median and p99 have columns."""
    quantiles = {"p50": "50", "p90": "90", "p99": "99", "p999": "99.9"}
    shown: dict[str, dict[str, object]] = {
        one: {"head": f"{label}\n{one}\nµs", "digits": ".1f", "leading": one == "p50"}
        for one in ("p50", "p99")
    }
    return (
        _time(f"{of}_min_us", f"shortest {what}", label=f"{label} min"),
        _time(f"{of}_mean_us", f"mean {what}", label=f"{label} mean"),
        *(
            _time(
                f"{of}_{name}_us", f"{percent} % of these times are not longer: {what}",
                label=f"{label} {name}", **shown.get(name, {}),
            )
            for name, percent in quantiles.items()
        ),
        _time(f"{of}_max_us", f"longest {what}", label=f"{label} max"),
    )  # fmt: skip


_ALL = (
    Measure(
        name="goodput_bps", unit="bit/s", better=Better.HIGHER, label="goodput", head="goodput",
        over_pairs=OverPairs.SUM, leading=True, component=Component.NETWORK,
        help="what the receiver got, per second; summed over connections and pairs",
    ),
    Measure(
        name="sent_bps", unit="bit/s", better=Better.NEITHER, label="sent",
        over_pairs=OverPairs.SUM, help="what the sender sent, per second",
    ),
    Measure(
        name="retransmits", unit="1", better=Better.LOWER, head="retr.", digits=".0f",
        over_pairs=OverPairs.SUM, help="segments that were sent again, TCP",
    ),
    Measure(
        name="loss_percent", unit="%", better=Better.LOWER, head="loss\n%", digits=".2f",
        over_pairs=OverPairs.WORST, help="datagrams that were lost, UDP",
    ),
    Measure(
        name="jitter_us", unit="us", better=Better.LOWER, label="jitter", head="jitter\nµs",
        digits=".1f", over_pairs=OverPairs.WORST, help="interarrival jitter of the datagrams, UDP",
    ),
    Measure(
        name="exchanges_per_s", unit="1/s", better=Better.HIGHER, label="exchanges",
        head="done\n/s", digits=".0f", over_pairs=OverPairs.SUM,
        help="requests with their responses, per second; summed over the pairs",
    ),
    *_times("rtt", "RTT", "time from a request to its response"),
    Measure(
        name="requests_per_s", unit="1/s", better=Better.HIGHER, label="requests",
        head="requests\n/s", digits=".0f", over_pairs=OverPairs.SUM, leading=True,
        help="requests that were answered, per second; summed over the pairs",
    ),
    *_times("request", "request", "time from a request to the end of its answer"),
    Measure(
        name="received_bytes_per_s", unit="B/s", better=Better.HIGHER, label="received",
        over_pairs=OverPairs.SUM, help="bytes of the answers with their heads",
    ),
    Measure(
        name="failed_requests", unit="1", better=Better.LOWER, head="failed", digits=".0f",
        over_pairs=OverPairs.SUM, least=1, help="requests without a good answer",
    ),
)  # fmt: skip
_BY_NAME = {one.name: one for one in _ALL}


def common(source: str, *names: str) -> tuple[Measure, ...]:
    """Return measures that several programs share, with this one's ``source``."""
    return tuple(_BY_NAME[name].model_copy(update={"source": source}) for name in names)


def lost_percent(sent: float | None, lost: float | None) -> float | None:
    """Return the loss in percent; None where it is unknown."""
    return None if not sent or lost is None else 100 * max(0.0, lost) / sent


def missing(sent: float | None, came: float | None) -> float | None:
    """Return sent minus received; None where one is unknown."""
    return None if sent is None or came is None else sent - came


class TransportProtocol(StrEnum):
    """The transport protocol."""

    TCP = "tcp"
    UDP = "udp"


Direction = Literal["forward", "reverse"]
"""From sender to receiver, or back."""


def options(given: Mapping[str, object | None]) -> list[str]:
    """Return command line options with values; None omits one.

    True gives an option without a value, and False omits it.
    """
    found: list[str] = []
    for option, value in given.items():
        if value is True:
            found.append(option)
        elif value is not None and value is not False:
            found += [option, str(value)]
    return found


def whole_seconds(duration_s: float) -> int:
    """Return a duration for programs that need whole seconds."""
    return math.ceil(duration_s)


T = TypeVar("T", bound=ProgramsSettings)


class Tool(Programs[T]):
    """A workload of one program.

    A subclass has ``Settings``, ``output_measures``, ``runs()`` and ``parse()``. ``programs`` have
    to be installed on the endpoints; a missing one is supplied, if it can be.
    """

    programs: tuple[Program, ...] = ()
    output_measures: tuple[Measure, ...] = ()
    """What the program measures; each says how its values of several pairs are aggregated."""
    stoppable = False  # it runs for the duration, and most programs report only at their end

    reporting_program = -1  # the index in a pair of the program that prints the results

    def __init__(self, settings: T, *, background: bool = False) -> None:
        super().__init__(settings, background=background)
        self.measures = (*self.selected_measures(), *USED)

    @classmethod
    def every_measure(cls) -> tuple[Measure, ...]:
        """Return all measures of the program's output, and those of its resource usage."""
        return (*cls.output_measures, *USED)

    def selected_measures(self) -> Sequence[Measure]:
        """Return the measures that these settings select: by default all ``output_measures``."""
        return self.output_measures

    @abstractmethod
    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Parse the output of one pair: metrics by the names of ``selected_measures()``.

        If a program reports the view of both ends, the receiver's counts. Raises OutputError.
        """

    def numbers(self, pairs: Sequence[Sequence[EndedProgram]]) -> Mapping[str, float | None]:
        """Parse the output of each pair, and aggregate the metrics."""
        found = [self._of_pair(pair) for pair in pairs]
        return {
            one.name: aggregate(one.over_pairs, one.better, [pair[one.name] for pair in found])
            for one in self.selected_measures()
        }

    def _of_pair(self, pair: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Parse the output of one pair.

        If a program was stopped before it reported, as one in the background may be, all values
        are None. Raises OutputError, and ProgramError if ``parse()`` returns other names than it
        has declared.
        """
        names = [one.name for one in self.selected_measures()]
        last = pair[self.reporting_program]
        try:
            found = self.parse(pair)
        except OutputError as error:
            if any(one.result.stopped for one in pair if not one.run.ready):
                return dict.fromkeys(names)
            error.where = error.where or last.endpoint
            error.tail = error.tail or last.printed.tail
            raise
        declared = {one.name for one in self.output_measures}
        odd = sorted({*names} - found.keys() | found.keys() - declared)
        if odd:
            raise ProgramError(
                f"parse() and `output_measures` of {type(self).__name__} differ by"
                f" {', '.join(odd)}",
                where=last.endpoint,
                cure="name the same numbers in both",
            )
        return found
