"""Facts of a layer's interfaces at one end, for comparison."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from osmef.errors import EndpointError
from osmef.layers.base import Attached, Layer
from osmef.layers.host import LayerHost
from osmef.layers.root import within


def facts_of(layer: Layer[Any], host: LayerHost, attached: Attached) -> dict[str, Any]:
    """Return the facts of a layer at one end."""
    found: dict[str, Any] = {"mtu_bytes": attached.mtu}
    with contextlib.suppress(EndpointError):
        for device in attached.devices:
            links = host.root.ask(attached.space, "-d", "link", "show", "dev", device)
            features = host.root.run(within(attached.space, ["ethtool", "-k", device]))
            told = {"features": features_of(features.stdout.decode(errors="replace"))}
            found.setdefault("interfaces", {})[device] = _told(links[0]) | told
        version = host.root.run(["cat", f"/sys/module/{layer.module}/version"])
        found["module_version"] = version.stdout.decode(errors="replace").strip()[:80] or None
        found |= layer.facts(host, attached)
    return found


def features_of(text: str) -> dict[str, bool] | None:
    """Return the offloads of an interface by ethtool(8); None where it prints nothing."""
    rows = [line.split(":")[:2] for line in text.splitlines() if line.count(":") == 1]
    found = {name.strip(): value.split()[:1] for name, value in rows}
    switches = {name: value == ["on"] for name, value in found.items() if value}
    return {name: on for name, on in switches.items() if name and found[name] in _SWITCH} or None


_SWITCH = (["on"], ["off"])
_TOLD = (
    *("mtu", "qdisc", "num_tx_queues", "num_rx_queues", "gso_max_size", "gro_max_size"),
    *("tso_max_size", "gso_max_segs"),
)


def _told(link: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details of an interface by ip(8), without those that differ from run to run."""
    info = link.get("linkinfo")
    found = {name: link[name] for name in _TOLD if name in link}
    if isinstance(info, dict):
        found |= {"kind": info.get("info_kind"), "data": info.get("info_data")}
    return found
