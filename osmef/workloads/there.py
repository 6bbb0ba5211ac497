"""Servers of programs that are there already, at an address that a scenario names."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, model_validator

from osmef.scenario.base import conflict
from osmef.workloads.programs import ProgramsSettings

if TYPE_CHECKING:
    from pydantic_core import PydanticCustomError

    from osmef.scenario.model import Scenario

_PORT = re.compile(r"\[?(?P<host>[^\]]*?)\]?(:(?P<port>[0-9]{1,5}))?")
_EXAMPLE = "192.0.2.7 or 192.0.2.7:5201, and [2001:db8::7]:5201"


def read_address(text: str, usual_port: int) -> tuple[str, int]:
    """Return a numeric address and a port, the usual one where none is written.

    Raises a conflict of ``server`` with what is wrong, and the cure.
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


class ServerSettings(ProgramsSettings):
    """Settings of a program that talks to a server of its own kind."""

    server: str | None = Field(
        default=None,
        description="a server of it that is there already, which OSMeF does not start: its numeric"
        " address, and port if need be; `endpoints` is a `loopback` then, the one that asks",
    )

    usual_port: ClassVar[int]

    @model_validator(mode="after")
    def _an_address(self) -> ServerSettings:
        if self.server is not None:
            read_address(self.server, self.usual_port)
        return self

    @property
    def there(self) -> tuple[str, int] | None:
        """Address and port of a server that is there already."""
        return None if self.server is None else read_address(self.server, self.usual_port)

    def warnings(self) -> Iterator[str]:
        """Say that nothing is known of a server that OSMeF has not started."""
        yield from super().warnings()
        if self.server is not None:
            yield (
                f"the other end is {self.server}, a server that OSMeF has not started: its machine,"
                " its distance and its CPU time are not known"
            )

    def problems(self, scenario: Scenario) -> Iterator[PydanticCustomError]:
        """Say who asks a server, and from where it can't be asked."""
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
