"""stress-ng: operations of a stressor.

Source: stress-ng(1) and stress-ng.c of 0.12 to 0.19. A bogo operation is one round of a stressor's
loop, another one for each stressor, and for each version. Rates are those of all instances
together, per second that passes, and per second of CPU time, of the user's and the kernel's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from osmef.errors import OutputError
from osmef.formats import amount, failed, first, of_one_run, positive, shows_tail, whole
from osmef.results.measure import Better, Measure, OverPairs
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, ProgramsSettings, Where
from osmef.workloads.reading import OutputStream
from osmef.workloads.tool import Tool

_LINE = r"^stress-ng: (?:info|metrc): +\[[0-9]+\] "
_FAILED = re.compile(
    r"^(?:stress-ng: (?:fail|error): +\[[0-9]+\] (.*)|.*(unrecognized option .*)"
    r"|stress-ng: info: +\[[0-9]+\] (unsuccessful run .*|metrics untrustworthy: [1-9].*))",
    re.MULTILINE,
)
_INSTANCES = re.compile(_LINE + r"dispatching hogs: ([0-9]+) (\S+)$", re.MULTILINE | re.ASCII)
_DONE = re.compile(_LINE + r"successful run completed in \S+", re.MULTILINE)
_ROW = re.compile(
    _LINE + r"(\S+) +([0-9]+) +([0-9]\S*) +([0-9]\S*) +([0-9]\S*) +([0-9]\S*) +([0-9]\S*)(?: .*)?$",
    re.MULTILINE | re.ASCII,
)


@dataclass(frozen=True)
class StressNgOutput:
    """Output of one stressor. The rate per CPU second is None without measurable CPU time."""

    stressor: str
    instances: int
    bogo_ops: int
    elapsed_s: float
    user_s: float
    system_s: float
    bogo_ops_per_s: float
    bogo_ops_per_cpu_s: float | None


@shows_tail
def read(text: str) -> StressNgOutput:
    """Read the output of one stressor. Raises OutputError, also for a failure."""
    refused = _FAILED.search(text)
    if refused:
        raise failed("stress-ng", next(filter(None, refused.groups())))
    row = of_one_run(_ROW, text, "stress-ng")
    first(_DONE, text, "successful end")
    return StressNgOutput(
        stressor=row[1],
        instances=whole(first(_INSTANCES, text, "number of instances")[1], "the instances"),
        bogo_ops=whole(row[2], "the bogo operations"),
        elapsed_s=positive(row[3], "the time"),
        user_s=amount(row[4], "the time of the user"),
        system_s=amount(row[5], "the time of the kernel"),
        bogo_ops_per_s=positive(row[6], "the bogo operations/s"),
        bogo_ops_per_cpu_s=amount(row[7], "the bogo operations per CPU second") or None,
    )


_NAME = r"^[a-z0-9][a-z0-9_-]{0,60}$"


class StressNgSettings(ProgramsSettings):
    """stress-ng: one stressor, on all CPUs of the sender."""

    kind: Literal["stress-ng"] = Field(default="stress-ng", description="the kind of workload")
    stressor: str = Field(
        default="cpu", pattern=_NAME, description="`cpu`, `matrix`, `vm`, `hdd`: see stress-ng(1)"
    )
    method: str | None = Field(
        default=None,
        pattern=_NAME,
        description="what it does, if it has a choice: `fft` of cpu; by default all, in turn",
    )
    threads: int | None = Field(
        default=None, ge=1, le=4096, description="instances; by default one a CPU"
    )


class StressNg(Tool[StressNgSettings]):
    """Instances on the sender."""

    Settings = StressNgSettings
    example = """\
endpoints: {loopback: {}}
workload: {kind: stress-ng, stressor: cpu, method: fft}"""
    programs = (Program("stress-ng"),)
    output_measures = (
        Measure(
            name="bogo_ops_per_s", unit="1/s", better=Better.HIGHER, label="bogo operations",
            head="bogo ops\n/s", digits=".2f", over_pairs=OverPairs.SUM, leading=True,
            source="stress-ng(1)", help="rounds of all instances, per second that passes",
        ),
        Measure(
            name="bogo_ops_per_cpu_s", unit="1/s", better=Better.HIGHER, digits=".2f",
            over_pairs=OverPairs.MEAN, source="stress-ng(1)",
            help="rounds per second of CPU time that the instances got",
        ),
    )  # fmt: skip

    def runs(self) -> Sequence[ProgramRun]:
        """Return stress-ng at the sender, with its files in the run's own directory."""
        s = self._settings
        method = [] if s.method is None else [f"--{s.stressor}-method", s.method]
        argv = [
            *("stress-ng", f"--{s.stressor}", str(s.threads or "{cpus}"), *method),
            *("--timeout", f"{math.ceil(s.duration)}s", "--metrics-brief", "--temp-path", "{dir}"),
        ]
        return (ProgramRun(on=Where.SENDER, argv=argv),)

    def parse(self, ended: Sequence[EndedProgram]) -> Mapping[str, float | None]:
        """Read the one row, which some versions print to stderr; another stressor is an error."""
        printed = ended[-1].printed
        output = read(printed.text(OutputStream.STDOUT) + printed.text(OutputStream.STDERR))
        if output.stressor != self._settings.stressor:
            raise OutputError(f"it ran the stressor {output.stressor}", tail=printed.tail)
        return {
            "bogo_ops_per_s": output.bogo_ops_per_s,
            "bogo_ops_per_cpu_s": output.bogo_ops_per_cpu_s,
        }
