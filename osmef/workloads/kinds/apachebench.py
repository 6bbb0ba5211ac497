"""ApacheBench (ab): HTTP requests, by one thread, to the agent's server.

Source: ab(1) and ab.c, version 2.3. Quantiles and times of a request are printed in ms, the former
as whole ones; the CSV of -e has them in microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

from pydantic import Field, model_validator

from osmef.errors import OutputError
from osmef.formats import Odd, Outputs, amount, failed, is_count, only, positive, shows_tail, whole
from osmef.scenario.base import conflict
from osmef.scenario.fields import Size
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, ProgramsSettings, Where
from osmef.workloads.reading import OutputStream
from osmef.workloads.tool import PONG, Tool, common, options, url, whole_seconds

BANNER = "This is ApacheBench"
_NUMBERS = {
    "concurrency": r"Concurrency Level: +([0-9]+)",
    "elapsed_s": r"Time taken for tests: +([0-9.]+) seconds",
    "complete": r"Complete requests: +([0-9]+)",
    "failed": r"Failed requests: +([0-9]+)",
}
_RATE = re.compile(r"^Requests per second: +(\S+)", re.MULTILINE)
_LENGTH = re.compile(r"^Document Length: +(?:([0-9]+) bytes|Variable)", re.MULTILINE | re.ASCII)
_DOCUMENTS = re.compile(r"^HTML transferred: +([0-9]+) bytes", re.MULTILINE | re.ASCII)
_RECEIVED = re.compile(r"^Total transferred: +([0-9]+) bytes", re.MULTILINE | re.ASCII)
_BAD_STATUS = re.compile(r"^Non-2xx responses: +(\S+)", re.MULTILINE)
_HOST = re.compile(r"^Server Hostname: +(\S+)", re.MULTILINE)
_SETTINGS = {
    "path": re.compile(r"^Document Path: +(\S+)", re.MULTILINE),
    "port": re.compile(r"^Server Port: +([0-9]{1,5})\b", re.MULTILINE | re.ASCII),
    "tls": re.compile(r"^SSL/TLS Protocol: +(\S+)", re.MULTILINE),
}
_KEPT_ALIVE = re.compile(r"^Keep-Alive requests: ", re.MULTILINE)
_BEGUN = re.compile(r"^Benchmarking (\S+) (?:\[.*?\] )?\(be patient\)(?:\.\.\.)?(.*)", re.MULTILINE)
_SENT_BODIES = re.compile(r"^Total body sent: ", re.MULTILINE)
_NOTHING = re.compile(r"^Total transferred: +0 bytes", re.MULTILINE | re.ASCII)
_DIFFER = re.compile(r"^ +\(Connect: .*\bLength: [1-9]", re.MULTILINE | re.ASCII)
_LAST = re.compile(r"^Total:( +[0-9.]+){3,5}\s*$", re.MULTILINE | re.ASCII)
_PERCENTAGES = "Percentage of the requests served within a certain time (ms)"
_LONGEST = re.compile(r"^ 100% +[0-9]+ \((?:longest|last) request\)", re.MULTILINE | re.ASCII)
_ROUNDED_S = 0.001
_CSV_HEAD = "Percentage served,Time in ms\n"
_QUANTILE = re.compile(r"^ +(50|66|75|80|90|95|98|99|100)% +([0-9]+)\b", re.MULTILINE | re.ASCII)


@dataclass(frozen=True)
class ApachebenchOutput:
    """Output of one program run. ``settings`` are path, port, TLS, and whether it kept connections.

    ``failed`` are the requests that ab counts as failed, or those without a status of 2xx, of
    which ``bad_status`` is the number, whichever are more: ab may count one answer as both.
    ``document_bytes`` is the length of a document, or the mean where they may differ (-l) or did;
    ``quantiles_us`` is by percent; ``received_bytes`` are those of all answers with their heads.
    """

    line: int
    host: str | None
    concurrency: int
    elapsed_s: float
    complete: int
    failed: int
    bad_status: int
    document_bytes: int
    requests_per_s: float | None
    received_bytes: int | None
    settings: Mapping[str, str | bool | None]
    quantiles_us: Mapping[int, float]


@dataclass(frozen=True)
class Failed:
    """Output of a program run without any response, with its error message."""

    line: int
    host: str
    error: str
    concurrency: int | None = None
    settings: Mapping[str, str | bool | None] = field(default_factory=dict)


@shows_tail
def read(text: str) -> ApachebenchOutput:
    """Read the output of one run. Raises OutputError, also without any response."""
    run = only(read_all(text), "ab")
    if isinstance(run, Failed):
        raise failed("ab", run.error)
    if run.requests_per_s is None:  # what follows on the failed ones may be missing, too
        raise _ended("rate")
    return run


def read_quantiles(text: str, complete: int) -> dict[int, float]:
    """Read the CSV of -e: microseconds, by whole percent from 0 to 100. Raises OutputError.

    Some versions omit the last one, the longest time. ab uses the time with the index ``0.5 +
    complete * percent / 100``, from 0: with few requests that does not exist for the highest
    percentages, and the printed value is no time. These are left out, except that of 100.
    """
    _, head, rows = text.partition(_CSV_HEAD)
    found = {
        whole(percent, "a percent"): 1000 * amount(ms, "a quantile")
        for percent, ms in (row.partition(",")[::2] for row in rows.split())
    }
    if not head or list(found) not in ([*range(100)], [*range(101)]):
        raise OutputError("there are no quantiles of ab: did it come to its end?")
    return {
        percent: time
        for percent, time in found.items()
        if percent in {0, 100} or int(0.5 + complete * percent / 100) < complete
    }


def read_all(text: str) -> Outputs[ApachebenchOutput | Failed]:
    """Read the outputs of several runs in a text, failed ones among them.

    Output without all numbers is reported as odd. Raises OutputError where there is none.
    """
    if BANNER not in text:
        raise OutputError("there is no output of ab in it", line=1)
    found: list[ApachebenchOutput | Failed] = []
    odd: list[Odd] = []
    start = text.index(BANNER)
    line = text.count("\n", 0, start) + 1
    for output in text[start:].split(BANNER)[1:]:
        try:
            found.append(_run(output, line))
        except OutputError as error:
            odd.append(Odd(line, error.message))
        line += output.count("\n")
    return Outputs(tuple(found), tuple(odd))


def _run(output: str, line: int) -> ApachebenchOutput | Failed:
    if "<table" in output:
        raise OutputError("this is HTML, of -w; ab without it is read")
    host = _HOST.search(output)
    begun = _BEGUN.search(output)
    if begun and (_NOTHING.search(output) or not host):
        return _failed(begun, output, line, reported=host is not None)
    reported = {name: _number(output, name) for name in _NUMBERS}
    if not _LAST.search(output) or (_PERCENTAGES in output and not _LONGEST.search(output)):
        raise _ended("table of times")
    complete = int(reported["complete"])
    length = _length(output, max(1, complete))
    status, rate = _BAD_STATUS.search(output), _RATE.search(output)
    received = _RECEIVED.search(output)
    bad = whole(status[1], "Non-2xx responses") if status else 0
    per_s = amount(rate[1], "Requests per second") if rate else None
    return ApachebenchOutput(
        line=line,
        host=host[1] if host else None,
        concurrency=int(reported["concurrency"]),
        elapsed_s=_elapsed_s(reported["elapsed_s"], complete, per_s),
        complete=complete,
        failed=max(int(reported["failed"]), bad),
        bad_status=bad,
        document_bytes=length,
        requests_per_s=per_s,
        received_bytes=whole(received[1], "Total transferred") if received else None,
        settings=_settings(output),
        quantiles_us={
            int(q): 1000 * float(ms) for q, ms in _QUANTILE.findall(output) if is_count(ms)
        },
    )


def _elapsed_s(printed_s: float, complete: int, per_s: float | None) -> float:
    """Return the time, printed in ms, by the requests per second where these are more exact."""
    if per_s and complete and 0.01 / per_s < 0.001 / max(printed_s, 1e-9):
        exact_s = complete / per_s
        if abs(exact_s - printed_s) <= _ROUNDED_S:
            return exact_s
    return positive(f"{printed_s}", "elapsed_s")


def _failed(begun: re.Match[str], output: str, line: int, *, reported: bool) -> Failed:
    if not reported:
        broken = begun[2].strip(" .") or "ab did not come to its end"
        return Failed(line, begun[1], broken)
    concurrency = int(_number(output, "concurrency"))
    return Failed(line, begun[1], "no request was answered", concurrency, _settings(output))


def _number(output: str, name: str) -> float:
    found = re.search(rf"^{_NUMBERS[name]}", output, re.MULTILINE | re.ASCII)
    if found is None:
        raise _ended(name)
    return amount(found[1], name) if name == "elapsed_s" else whole(found[1], name)


def _ended(name: str) -> OutputError:
    return OutputError(f"ab did not come to its end: there is no {name}")


def _length(output: str, complete: int) -> int:
    length, all_of_them = _LENGTH.search(output), _DOCUMENTS.search(output)
    differ = _DIFFER.search(output) and all_of_them
    if length is not None and length[1] and not differ:
        return whole(length[1], "length")
    if length is None or all_of_them is None:
        raise _ended("length")
    return round(whole(all_of_them[1], "HTML transferred") / complete)


def _settings(output: str) -> dict[str, str | bool | None]:
    found = {name: one[1] for name, what in _SETTINGS.items() if (one := what.search(output))}
    values: dict[str, str | bool | None] = {"path": None, **found}
    if _KEPT_ALIVE.search(output):
        values["keep_alive"] = True
    if _SENT_BODIES.search(output):
        values["sends_body"] = True
    return values


_SOURCE = "ab(1)"
_MOST_REQUESTS = 50_000_000
_MOST_PER_S = 250_000
"""ab ends after a number of requests, and takes 40 bytes of memory for each that it may make."""
_QUANTILES = {"min": 0, "p50": 50, "p90": 90, "p99": 99, "max": 100}


class ApachebenchSettings(ProgramsSettings):
    """ApacheBench (ab): HTTP requests to the receiver, by one thread."""

    kind: Literal["apachebench"] = Field(default="apachebench", description="the kind of workload")
    connections: int = Field(default=1, ge=1, le=1000, description="requests at a time (-c)")
    size: Size = Field(default=1000, ge=4, le=2**30, description="payload of an answer")
    requests: int | None = Field(
        default=None, ge=1, le=_MOST_REQUESTS,
        description="how many (-n); by default as many as the duration lasts (-t)",
    )  # fmt: skip
    keep_alive: bool = Field(
        default=True, description="false: a new connection for each request (without -k)"
    )

    def for_background(self, duration_s: float) -> Self:
        """Return the settings of a background that lasts so long, however many requests."""
        return self.model_copy(update={"duration": duration_s, "requests": None})

    @model_validator(mode="after")
    def _requests_are_enough(self) -> ApachebenchSettings:
        if self.requests is not None and self.requests < self.connections:
            cure = "raise requests, or lower connections"
            raise conflict("there are fewer requests than connections", cure, "requests")
        return self


class Apachebench(Tool[ApachebenchSettings]):
    """ab, and the agent's HTTP server at the receiver."""

    Settings = ApachebenchSettings
    example = "workload: {kind: apachebench, connections: 10, duration: 10s}"
    programs = (Program("ab", package="apache2-utils", version=("-V",)),)
    output_measures = common(
        _SOURCE,
        *("requests_per_s", "request_min_us", "request_mean_us", "request_p50_us"),
        *("request_p90_us", "request_p99_us", "request_max_us"),
        *("received_bytes_per_s", "failed_requests"),
    )

    def runs(self) -> Sequence[ProgramRun]:
        """Return the server, and ab, with exact quantiles (-e)."""
        s = self._settings
        seconds = whole_seconds(s.duration)
        given = {
            "-q": True,
            "-k": s.keep_alive,
            "-c": s.connections,
            "-t": None if s.requests else seconds,  # before -n, which it sets
            "-n": s.requests or min(_MOST_REQUESTS, _MOST_PER_S * seconds),
            "-e": "/dev/stderr",
        }
        return (PONG, ProgramRun(on=Where.SENDER, argv=["ab", *options(given), url(s.size)]))

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the report, and the quantiles."""
        printed = ended[-1].printed
        output = read(printed.text_of_stdout)
        if output.failed >= output.complete:
            raise OutputError(f"all {output.complete} requests failed", tail=printed.tail)
        csv = printed.text(OutputStream.STDERR)
        quantiles = read_quantiles(csv, output.complete) if csv else {}
        received, rate = output.received_bytes, output.requests_per_s
        return {
            "requests_per_s": rate,
            "request_mean_us": 1e6 * output.concurrency / rate if rate else None,
            **{f"request_{name}_us": quantiles.get(q) for name, q in _QUANTILES.items()},
            "received_bytes_per_s": None if received is None else received / output.elapsed_s,
            "failed_requests": output.failed,
        }
