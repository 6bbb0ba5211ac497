"""A receiver that is a server which is there already: one end is ours, and asks it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from osmef.errors import OsmefError
from osmef.kinds import WORKLOADS
from osmef.scenario.base import conflict

_OWN = ("address", "port")


def with_server(data: Any) -> Any:
    """Return a scenario's values in which the workload has the server that is its receiver.

    The sender asks it alone, and is a ``loopback`` endpoint then. Anything else is as it was.
    Raises a conflict of what does not go together with such a receiver.
    """
    receiver = _server_of(data)
    if receiver is None:
        return data
    workload = data.get("workload") or {}
    workload = {"kind": workload} if isinstance(workload, str) else workload
    host, port = _where(receiver)
    workload = _with_server(workload, host, port)
    if workload is None:
        return data
    sender = data["endpoints"].get("sender") or {}
    _check_sender(sender)
    _check_background(data.get("background"))
    more = {key: end for key, end in data["endpoints"].items() if key not in {"sender", "receiver"}}
    return {
        **data,
        "endpoints": {"loopback": sender, **more},
        "workload": workload,
    }


def _server_of(data: Any) -> Mapping[str, Any] | None:
    endpoints = data.get("endpoints") if isinstance(data, Mapping) else None
    receiver = endpoints.get("receiver") if isinstance(endpoints, Mapping) else None
    has = isinstance(receiver, Mapping) and receiver.get("address") is not None
    return receiver if has else None


def _where(receiver: Mapping[str, Any]) -> tuple[str, int | None]:
    for key in receiver:
        if key not in _OWN:
            raise conflict(
                f"receiver is a server that is there already, and {key} is of what OSMeF makes",
                f"remove {key}, or address",
                f"endpoints.receiver.{key}",
            )
    try:
        host = str(ipaddress.ip_address(receiver["address"]))
    except ValueError:
        raise conflict(
            f"{str(receiver['address'])[:60]!r} is no address",
            "write a numeric one such as 192.0.2.7, for endpoints look no names up, and its port"
            " as port",
            "endpoints.receiver.address",
        ) from None
    port = receiver.get("port")
    if port is not None and (type(port) is not int or not 0 < port < 65536):
        raise conflict(
            f"there is no port {str(port)[:20]}",
            "write one from 1 to 65535",
            "endpoints.receiver.port",
        )
    return host, port


def _check_sender(sender: Any) -> None:
    if not isinstance(sender, Mapping):
        return
    if sender.get("count", 1) != 1:
        raise conflict(
            "a server that is there already is asked by one endpoint",
            "remove count",
            "endpoints.sender.count",
        )
    for key in _OWN:
        if sender.get(key) is not None:
            raise conflict(
                f"sender has no {key}: it is the end that is ours",
                f"remove {key}; addresses of machines of yours are in the inventory",
                f"endpoints.sender.{key}",
            )


def _check_background(background: Any) -> None:
    """Refuse one that would stay on the endpoint that asks, beside the path to the server."""
    kind = background.get("kind", "btc") if isinstance(background, Mapping) else background
    try:
        settings = WORKLOADS.settings(kind)
    except (OsmefError, AttributeError, TypeError):
        return
    if settings.between_agents:
        raise conflict(
            f"{kind} needs an agent at both ends, and receiver is a server",
            "remove background, or use one that runs on the sender alone, such as stress-ng",
            *("background", "endpoints.receiver.address"),
        )


def _with_server(workload: Any, host: str, port: int | None) -> Mapping[str, Any] | None:
    """Return the workload with its ``server``; None where it is of no kind, which others tell."""
    try:
        settings = WORKLOADS.settings(workload.get("kind", "btc"))
    except (OsmefError, AttributeError, TypeError):
        return None
    if not settings.servers_there:
        raise conflict(
            f"{workload.get('kind', 'btc')} needs an agent at both ends, and receiver is a server",
            "use a workload with a server of its own kind: " + ", ".join(_kinds_with_servers()),
            *("endpoints.receiver.address", "workload"),
        )
    if workload.get("server") is not None:
        raise conflict(
            "the server that is asked is named twice",
            "remove workload.server, or endpoints.receiver",
            *("workload.server", "endpoints.receiver.address"),
        )
    found: Mapping[str, Any] = settings.asking(host, port, workload)
    return found


def _kinds_with_servers() -> list[str]:
    models = WORKLOADS.all_settings()
    return [model.model_fields["kind"].default for model in models if model.servers_there]
