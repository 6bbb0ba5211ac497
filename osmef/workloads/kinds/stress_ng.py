"""stress-ng: operations of a stressor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from osmef.errors import OutputError
from osmef.formats.stress_ng import read
from osmef.results.measure import Better, Measure, OverPairs
from osmef.supply.program import Program
from osmef.workloads.programs import EndedProgram, ProgramRun, ProgramsSettings, Where
from osmef.workloads.reading import OutputStream
from osmef.workloads.tool import Tool

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
    told = (
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
        told = read(printed.text(OutputStream.STDOUT) + printed.text(OutputStream.STDERR))
        if told.stressor != self._settings.stressor:
            raise OutputError(f"it ran the stressor {told.stressor}", tail=printed.tail)
        return {
            "bogo_ops_per_s": told.bogo_ops_per_s,
            "bogo_ops_per_cpu_s": told.bogo_ops_per_cpu_s,
        }
