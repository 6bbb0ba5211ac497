"""HOW: what is run between endpoints."""

from osmef.workloads.base import Outcome
from osmef.workloads.ensemble import Job
from osmef.workloads.programme import Programme, measures_of
from osmef.workloads.tasks import Host, Pair

__all__ = ["Host", "Job", "Outcome", "Pair", "Programme", "measures_of"]
