"""HOW: what is run between endpoints."""

from osmef.workloads.base import Outcome
from osmef.workloads.ensemble import Host, Job, Pair
from osmef.workloads.programme import Programme

__all__ = ["Host", "Job", "Outcome", "Pair", "Programme"]
