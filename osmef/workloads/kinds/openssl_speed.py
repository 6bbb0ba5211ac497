"""openssl speed: how fast CPUs encrypt, hash, sign and agree on keys.

Source: openssl-speed(1) and speed.c of OpenSSL 1.1.1, 3.0 and 3.5. A line that begins with +F is
the sum of all processes of -multi, each of which has one behind Got: as well. Rates are per second
of CPU time of the process, and with -elapsed per second that passes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from osmef.errors import OutputError
from osmef.formats import failed, positive, shows_tail, whole
from osmef.results.measure import Better, Measure, OverPairs
from osmef.scenario.fields import Size
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, ProgramsSettings, Where
from osmef.workloads.tool import Tool

_FAILED = re.compile(r"^speed: (.*)", re.MULTILINE)
_SIZES = re.compile(r"^(?:Got: )?\+H:([0-9:]+)(?: from [0-9]+)?$", re.MULTILINE | re.ASCII)
_RESULT = re.compile(r"^\+F([2-6]?):(.*)$", re.MULTILINE)
_FORK = re.compile(r"^Forked child [0-9]+$", re.MULTILINE | re.ASCII)

Operation = Literal["bulk", "signature", "exchange"]


@dataclass(frozen=True)
class OpensslSpeedOutput:
    """Output of one program run: the algorithm's name if printed, and rates over all processes.

    Of ``bulk`` there are ``bytes_per_s`` by the size of a block in bytes, of a ``signature`` how
    many are made and verified per second, of an ``exchange`` of keys how many are made.
    """

    operation: Operation
    name: str | None
    processes: int
    bytes_per_s: Mapping[int, float]
    signatures_per_s: float | None = None
    verifications_per_s: float | None = None
    exchanges_per_s: float | None = None


@shows_tail
def read(text: str) -> OpensslSpeedOutput:
    """Read the output of one algorithm. Raises OutputError, also for a failure."""
    refused = _FAILED.search(text)
    if refused:
        raise failed("openssl speed", refused[1])
    found = list(_RESULT.finditer(text))
    if len(found) != 1:
        message = f"there are {len(found)} results of openssl speed, where one is expected"
        raise OutputError(message, cure="" if found else "it prints them with -mr")
    kind, fields = found[0][1], found[0][2].split(":")
    processes = len(_FORK.findall(text)) or 1
    match kind, fields:
        case "", [_, name, *rates]:
            return OpensslSpeedOutput("bulk", name, processes, _by_size(rates, text))
        case "5", [_, _, rate, _]:
            made = positive(rate, "the exchanges/s")
            return OpensslSpeedOutput("exchange", None, processes, {}, exchanges_per_s=made)
        case "6", [_, _, name, signed, verified]:
            return _signature(name, processes, signed, verified)
        case "2" | "3" | "4", [_, _, signed, verified, *_]:
            return _signature(None, processes, signed, verified)
    raise OutputError(f"this is no result of openssl speed: {found[0][0][:80]}")


def _signature(name: str | None, processes: int, signed: str, verified: str) -> OpensslSpeedOutput:
    return OpensslSpeedOutput(
        "signature",
        name,
        processes,
        {},
        signatures_per_s=positive(signed, "the signatures/s"),
        verifications_per_s=positive(verified, "the verifications/s"),
    )


def _by_size(rates: list[str], text: str) -> Mapping[int, float]:
    heads = {head[1] for head in _SIZES.finditer(text)}
    sizes = [whole(size, "a size") for head in heads for size in head.split(":")]
    if len(sizes) != len(rates):
        raise OutputError(f"there are {len(rates)} rates of {len(sizes)} sizes of a block")
    return {size: positive(rate, "the bytes/s") for size, rate in zip(sizes, rates, strict=True)}


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


def _rate(name: str, label: str, text: str, *, leading: bool = True) -> Measure:
    return Measure(
        name=name, unit="1/s", better=Better.HIGHER, label=label, head=f"{label}\n/s",
        digits=".1f", over_pairs=OverPairs.SUM, leading=leading, source=_SOURCE, help=text,
    )  # fmt: skip


class OpensslSpeed(Tool[OpensslSpeedSettings]):
    """One process a CPU on the sender."""

    Settings = OpensslSpeedSettings
    example = "endpoints: {loopback: {}}\nworkload: {kind: openssl-speed, algorithm: rsa2048}"
    programs = (Program("openssl", version=("version",)),)
    bulk_measures = (
        Measure(
            name="processed_bytes_per_s", unit="B/s", better=Better.HIGHER, label="processed",
            head="processed", over_pairs=OverPairs.SUM, leading=True,
            source=_SOURCE, help="bytes that all processes encrypt or hash, per second that passes",
        ),
    )  # fmt: skip
    signatures_measures = (
        _rate("signatures_per_s", "signed", "signatures that all processes make"),
        _rate("verifications_per_s", "verified", "signatures that they verify", leading=False),
    )
    exchanges_measures = (
        _rate("exchanges_per_s", "exchanged", "secrets that all processes derive of two keys"),
    )

    output_measures = (*bulk_measures, *signatures_measures, *exchanges_measures)

    def selected_measures(self) -> Sequence[Measure]:
        """Return the measures of the operation."""
        of = {"signature": self.signatures_measures, "exchange": self.exchanges_measures}
        return of.get(self._settings.operation, self.bulk_measures)

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
        output = read(printed.text_of_stdout)
        if output.operation != s.operation or (
            output.operation == "bulk" and [*output.bytes_per_s] != [s.block]
        ):
            raise OutputError("this is of another algorithm or size", tail=printed.tail)
        return _numbers(output)


def _numbers(output: OpensslSpeedOutput) -> Mapping[str, float | None]:
    match output.operation:
        case "signature":
            return {
                "signatures_per_s": output.signatures_per_s,
                "verifications_per_s": output.verifications_per_s,
            }
        case "exchange":
            return {"exchanges_per_s": output.exchanges_per_s}
        case "bulk":
            return {"processed_bytes_per_s": next(iter(output.bytes_per_s.values()))}
