"""Workloads: what is run between endpoints."""

from osmef.workloads.base import Outcome
from osmef.workloads.tasks import AgentHost, Pair
from osmef.workloads.trial_runner import TrialJob
from osmef.workloads.trial_workload import TrialWorkload, measures_of

__all__ = ["AgentHost", "Outcome", "Pair", "TrialJob", "TrialWorkload", "measures_of"]
