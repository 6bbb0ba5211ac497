"""What others took of the machines in a trial, whatever its workload is."""

from __future__ import annotations

from collections.abc import Iterable

from osmef.analysis.contention import contention
from osmef.results.measure import Measure
from osmef.workloads.base import Ran

OTHERS = Measure(
    name="cpu_others_percent", unit="%", better="neither", label="CPU of others",
    over_pairs="worst",
    help="CPU time in user mode of programs that are not of the trial, in percent of all CPUs of"
    " the endpoint where it was most; what they used within the kernel is not in it",
    source="proc(5), `/proc/stat`",
)  # fmt: skip
STEAL = Measure(
    name="cpu_steal_percent", unit="%", better="neither", label="CPU steal", over_pairs="worst",
    help="CPU time that the hypervisor gave to others, in percent of all CPUs of the endpoint where"
    " it was most; `null` where the kernel does not tell",
    source="proc(5), `/proc/stat`",
)  # fmt: skip
MEASURES = (OTHERS, STEAL)
"""What every trial tells beside the numbers of its workload."""


def machine_metrics(ran: Iterable[Ran]) -> dict[str, float | None]:
    """Return these numbers of a trial, of the results of all that ran in it."""
    results = [result for one in ran for result in one.results]
    own_s = sum(result.process.cpu_user_s for result in results)
    found = contention([result.endpoint for result in results], own_s)
    return {OTHERS.name: found.others, STEAL.name: found.steal}
