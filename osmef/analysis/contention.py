"""CPU contention: the share of an endpoint's CPUs that others used during a measurement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from osmef.results.observations import EndpointUse

OTHERS_PERCENT = 10.0
"""Of all CPUs of an endpoint that programs of others use: from there on it is reported."""
STEAL_PERCENT = 5.0
"""Of all CPUs of an endpoint that its hypervisor gives to others: likewise."""
TEN_TICKS_S = 0.1
"""USER_HZ is 100 on every Linux architecture but Alpha."""


@dataclass(frozen=True)
class Contention:
    """CPU shares used by others, in percent of the CPUs of the busiest endpoint.

    ``others`` is what programs that are not of the trial used in user mode, ``steal`` what the
    hypervisor gave to others. None where it is unknown.
    """

    others: float | None
    steal: float | None


def contention(uses: Iterable[EndpointUse], own_user_s: float) -> Contention:
    """Return the CPU contention of endpoints during a trial.

    ``own_user_s`` is the CPU time in user mode of all that the trial ran, at all ends. It is taken
    off each endpoint, as several may be one machine; so ``others`` is too small rather than too
    large. What others use within the kernel can't be told from the network's own work there, and is
    not in it.

    Assumed is that the agents were watched as long as their endpoints, but for some milliseconds.
    One that was not watched for ten ticks counts not: one tick more or less is a tenth of a CPU.

    Source: proc(5), ``/proc/stat``, where user time holds that of guests.
    """
    watched = [use for use in uses if use.elapsed_s >= TEN_TICKS_S and use.cpus > 0]
    others = [_percent(max(0.0, use.user_s + use.nice_s - own_user_s), use) for use in watched]
    steal = [_percent(use.steal_s, use) for use in watched if use.steal_s is not None]
    return Contention(max(others, default=None), max(steal, default=None))


def _percent(seconds: float, use: EndpointUse) -> float:
    return 100 * seconds / (use.cpus * use.elapsed_s)


def contended(others: Sequence[float], steal: Sequence[float]) -> str:
    """Describe the CPU contention over all trials, if it was substantial; "" otherwise.

    The middle of them counts: one busy trial of many is what the interval of a median allows for.

    Assumed is that what others take makes a result worse from ``OTHERS_PERCENT`` on, and
    ``STEAL_PERCENT``; these are choices, and no test.

    Source: OSMeF.
    """
    found = []
    if (share := _middle(others)) >= OTHERS_PERCENT:
        found.append(f"other programs used {share:.0f} % of an endpoint's CPUs")
    if (share := _middle(steal)) >= STEAL_PERCENT:
        found.append(f"the hypervisor gave {share:.0f} % of an endpoint's CPUs to others")
    return ", and ".join(found)


def _middle(values: Sequence[float]) -> float:
    """Return the lower median, 0 of nothing."""
    return sorted(values)[(len(values) - 1) // 2] if values else 0.0
