"""MPI programs: one job over all endpoints of a trial."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from pydantic import Field

from osmef.results.measure import Better, Measure, OverPairs
from osmef.results.observations import InterfaceUse
from osmef.scenario.base import conflict
from osmef.scenario.fields import DATA_PORTS
from osmef.workloads.programs import (
    EndedProgram,
    ProgramRun,
    ProgramsSettings,
    Where,
    interfaces_of,
)
from osmef.workloads.tool import Tool

if TYPE_CHECKING:
    from pydantic_core import PydanticCustomError

    from osmef.scenario.model import Scenario

_ENVIRONMENT = {
    # Between endpoints the path that is measured and no other one: UCX would take all interfaces at
    # once, and InfiniBand. Processes of one endpoint have its memory.
    "UCX_TLS": "tcp,sm,self",
    "UCX_NET_DEVICES": "{interface}",
    "UCX_TCP_AF_PRIO": "{family}",
    "UCX_TCP_PORT_RANGE": f"{DATA_PORTS.start}-{DATA_PORTS.stop - 1}",
}

FINALIZE = (
    "osmef_finalize.c",
    """\
/* Ends a process of MPI with its exit, once all have come so far. MPICH 4.0 may wait for ever when
 * it finalises over TCP: one process blocks in a barrier of PMI while another one waits for its
 * acknowledgement (pmodels/mpich, pull request 6596). */
#include <mpi.h>
#include <stdio.h>

int MPI_Finalize(void)
{
    int flag;
    const int status = PMPI_Barrier(MPI_COMM_WORLD);
    const double until_s = PMPI_Wtime() + 0.1; /* what was sent has to get out */
    while (PMPI_Wtime() < until_s)
        PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    fflush(NULL);
    return status;
}
""",
)
"""Linked with programs that are built, it takes the place of MPICH's own: its name and text."""

MOVED = Measure(
    name="moved_mb", unit="MB", better=Better.NEITHER, label="traffic",
    head="moved\nMB", digits=".4g", over_pairs=OverPairs.ONLY, source="/proc/net/dev",
    help="what the endpoints sent to each other through the interfaces that were measured, headers"
    " included, while the job ran",
)  # fmt: skip


class MpiSettings(ProgramsSettings):
    """Settings of an MPI program."""

    processes: int = Field(default=1, ge=1, le=1024, description="processes on each endpoint")

    in_background: ClassVar = False
    together: ClassVar = True

    def problems(self, scenario: Scenario) -> Iterator[PydanticCustomError]:
        """Yield conflicts with the rest of the scenario."""
        yield from super().problems(scenario)
        if scenario.background is not None:
            yield conflict(
                f"{self.kind} is run by all endpoints together, and a background by pairs of them",
                "remove the background",
                *("background", "workload.kind"),
            )


M = TypeVar("M", bound=MpiSettings)


class MpiTool(Tool[M]):
    """An MPI program, with as many processes on each endpoint.

    A subclass has ``argv`` and ``parse``, which is given all processes in the order of their ranks.
    """

    are_ranks = True
    teller = 0

    @property
    @abstractmethod
    def argv(self) -> list[str]:
        """The command line of each process."""

    def runs(self) -> Sequence[ProgramRun]:
        """Return the processes of one endpoint."""
        one = ProgramRun(on=Where.SENDER, argv=self.argv, env=_ENVIRONMENT)
        return (one,) * self._settings.processes

    def numbers(self, pairs: Sequence[Sequence[EndedProgram]]) -> Mapping[str, float | None]:
        """Read the output of the processes of all endpoints. Raises OutputError."""
        return super().numbers([[one for endpoint in pairs for one in endpoint]])


def moved_mb(ended: Sequence[EndedProgram]) -> float | None:
    """Return the traffic that all endpoints sent at measured interfaces, in 10^6 bytes.

    Of two hosts it is what comes and goes at either of them, as Maliszewski et al. tabulate it
    ("Minimizing Communication Overheads in Container-based Clouds for HPC Applications", table II).
    Nothing leaves an endpoint that is alone. None where an endpoint does not tell.
    """
    if len({one.endpoint for one in ended}) == 1:
        return 0.0
    measured: list[InterfaceUse] = [one for one in interfaces_of(ended) if one.measured]
    sent = [one.tx_bytes for one in measured if one.tx_bytes is not None]
    everybody = {one.endpoint for one in ended}
    return 1e-6 * math.fsum(sent) if len(sent) == len(everybody) else None
