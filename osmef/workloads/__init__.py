"""HOW: what is run between two endpoints."""

from osmef.scenario.workload import WorkloadSettings
from osmef.workloads.base import Job, Outcome, Workload
from osmef.workloads.btc import BulkTransfer

__all__ = ["Job", "Outcome", "Workload", "workload_for"]


def workload_for(settings: WorkloadSettings) -> Workload:
    """Return the workload that the settings describe."""
    return BulkTransfer(settings)
