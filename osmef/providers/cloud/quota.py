"""Comparison of a plan's needs with an account's quotas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from osmef.errors import QuotaError
from osmef.providers.cloud.errors import USUAL_CURES, Meaning


@dataclass(frozen=True)
class Quota:
    """A quota: its limit, None for none, and its usage."""

    limit: float | None
    used: float = 0

    def lacks(self, need: int) -> bool:
        """Return whether an amount exceeds the rest."""
        return self.limit is not None and self.used + need > self.limit


def compare(
    where: str,
    need: Mapping[str, int],
    quotas: Mapping[str, Quota],
    cure: str = USUAL_CURES[Meaning.QUOTA],
) -> None:
    """Raise QuotaError with every exceeded quota, in the order of the needs.

    Both are by the names of the quotas; one that the cloud does not tell stops nobody here.
    """
    short = [
        f"{count} {what} (quota {quotas[what].limit:.10g}, in use {quotas[what].used:.10g})"
        for what, count in need.items()
        if count and what in quotas and quotas[what].lacks(count)
    ]
    if short:
        raise QuotaError(f"the plan needs {', '.join(short)}", where=where, cure=cure)
