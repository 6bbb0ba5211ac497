"""Workloads: what is run between endpoints."""

from osmef.workloads.base import Outcome
from osmef.workloads.tasks import Host, Pair
from osmef.workloads.trial_runner import Job
from osmef.workloads.trial_workload import TrialWorkload, measures_of

__all__ = ["Host", "Job", "Outcome", "Pair", "TrialWorkload", "measures_of"]
