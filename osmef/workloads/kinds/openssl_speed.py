"""openssl speed: how fast CPUs encrypt, hash, sign and agree on keys."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from osmef.errors import OutputError
from osmef.formats.openssl_speed import OpensslSpeed as Told
from osmef.formats.openssl_speed import Operation, read
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.fields import Size
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, ProgramsSettings, Where
from osmef.workloads.tool import Tool

_SOURCE = "openssl-speed(1)"
_SIGNATURE = re.compile(r"(rsa|dsa)[0-9]+|ecdsa[a-z0-9]+|ed25519|ed448")
_EXCHANGE = re.compile(r"ecdh[a-z0-9]+")


class OpensslSpeedSettings(ProgramsSettings):
    """openssl speed: one algorithm of OpenSSL, on all CPUs of the sender."""

    kind: Literal["openssl-speed"] = Field(
        default="openssl-speed", description="the kind of workload"
    )
    algorithm: str = Field(
        default="aes-256-gcm",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_/-]{0,60}$",
        description="a cipher or digest, such as `sha256` or `chacha20-poly1305`; signatures, such"
        " as `rsa2048`, `ecdsap256` or `ed25519`; or an exchange of keys: `ecdhx25519`",
    )
    threads: int | None = Field(
        default=None, ge=1, le=4096, description="processes (-multi); by default one a CPU"
    )
    block: Size = Field(
        default=16384, ge=1, le=2**30, description="of a cipher or digest: bytes at once (-bytes)"
    )

    @property
    def operation(self) -> Operation:
        """The operation of the algorithm."""
        if _SIGNATURE.fullmatch(self.algorithm):
            return "signature"
        return "exchange" if _EXCHANGE.fullmatch(self.algorithm) else "bulk"


def _rate(name: str, label: str, told: str, *, leading: bool = True) -> Measure:
    return Measure(
        name=name, unit="1/s", better=Better.HIGHER, label=label, head=f"{label}\n/s",
        digits=".1f", over_pairs=OverPairs.SUM, leading=leading, source=_SOURCE, help=told,
    )  # fmt: skip


class OpensslSpeed(Tool[OpensslSpeedSettings]):
    """One process a CPU on the sender."""

    Settings = OpensslSpeedSettings
    example = "endpoints: {loopback: {}}\nworkload: {kind: openssl-speed, algorithm: rsa2048}"
    programs = (Program("openssl", version=("version",)),)
    told_of_bulk = (
        Measure(
            name="processed_bytes_per_s", unit="B/s", better=Better.HIGHER, label="processed",
            head="processed", over_pairs=OverPairs.SUM, leading=True,
            source=_SOURCE, help="bytes that all processes encrypt or hash, per second that passes",
        ),
    )  # fmt: skip
    told_of_signatures = (
        _rate("signatures_per_s", "signed", "signatures that all processes make"),
        _rate("verifications_per_s", "verified", "signatures that they verify", leading=False),
    )
    told_of_exchanges = (
        _rate("exchanges_per_s", "exchanged", "secrets that all processes derive of two keys"),
    )

    told = (*told_of_bulk, *told_of_signatures, *told_of_exchanges)

    def tells(self) -> Sequence[Measure]:
        """Return the measures of the operation."""
        of = {"signature": self.told_of_signatures, "exchange": self.told_of_exchanges}
        return of.get(self._settings.operation, self.told_of_bulk)

    def runs(self) -> Sequence[ProgramRun]:
        """Return openssl at the sender; signing takes one half of the time."""
        s = self._settings
        operation = s.operation
        seconds = math.ceil(s.duration / 2 if operation == "signature" else s.duration)
        what = ["-bytes", f"{s.block:.0f}", "-evp"] if operation == "bulk" else []
        # Without -elapsed it counts the CPU's seconds: what a guest does not get would not show.
        options = [
            "-mr",
            "-elapsed",
            "-seconds",
            str(seconds),
            "-multi",
            str(s.threads or "{cpus}"),
        ]
        argv = ["openssl", "speed", *options, *what, s.algorithm]
        return (ProgramRun(on=Where.SENDER, argv=argv),)

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the sum of all processes; another operation is an error."""
        s, printed = self._settings, ended[-1].printed
        told = read(printed.text_of_stdout)
        if told.operation != s.operation or (
            told.operation == "bulk" and [*told.bytes_per_s] != [s.block]
        ):
            raise OutputError("this is of another algorithm or size", tail=printed.tail)
        return _numbers(told)


def _numbers(told: Told) -> Mapping[str, float | None]:
    match told.operation:
        case "signature":
            return {
                "signatures_per_s": told.signatures_per_s,
                "verifications_per_s": told.verifications_per_s,
            }
        case "exchange":
            return {"exchanges_per_s": told.exchanges_per_s}
        case "bulk":
            return {"processed_bytes_per_s": next(iter(told.bytes_per_s.values()))}
