"""What the settings of all clouds have in common."""

from __future__ import annotations

from abc import abstractmethod

from pydantic import Field

from osmef.scenario.base import Model


class CloudSettings(Model):
    """Where endpoints come from. Each kind of cloud has a subclass with its own keys."""

    kind: str = Field(description="the kind of cloud")

    @abstractmethod
    def lanes(self, parallel: int, kinds: int) -> int:
        """Return over how many sets of hosts, at least 1, the plan spreads the kinds of pairs.

        ``kinds`` is how many kinds of pairs the scenario has (placement, tenancy, flavors, layer),
        ``parallel`` how many trials it lets run at once. With 1 lane all kinds use the same two
        hosts, so that their numbers compare; trials of different lanes can run at once.
        """
