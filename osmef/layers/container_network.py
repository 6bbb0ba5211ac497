"""Networks for containers of a runtime that makes none itself."""

from __future__ import annotations

from typing import Any

from osmef.layers.base import End, Ground, Layer
from osmef.layers.kinds.bridge import into_bridge
from osmef.layers.kinds.macvlan import Macvlan, MacvlanSettings
from osmef.layers.kinds.veth_nat import VethNat, VethNatSettings


class Bridged(VethNat):
    """The network that engines have by default: a bridge, and translated addresses."""

    def join(self, end: End, outer: str, ground: Ground) -> str:
        """Attach the cable to a bridge of its own."""
        return into_bridge(end, outer, self.mtu(end, 0, ground))


def network_for(network: str, mtu: int | None, ports: int) -> Layer[Any] | None:
    """Return the layer that is a container's network; None where it is that of the endpoint."""
    if network == "macvlan":
        return Macvlan(MacvlanSettings(mtu=mtu))
    if network == "bridge":
        return Bridged(VethNatSettings(mtu=mtu, ports=max(8, ports)))
    return None
