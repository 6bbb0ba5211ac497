"""What limited a flow: the verdict, and the evidence beside it."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from osmef.scenario.base import Model


class Limit(StrEnum):
    """What kept a flow from being faster."""

    SENDER_CPU = "sender-cpu"
    RECEIVER_CPU = "receiver-cpu"
    RECEIVE_WINDOW = "receive-window"
    SEND_BUFFER = "send-buffer"
    NETWORK = "network"
    SENDER_IDLE = "sender-idle"
    SHAPER = "shaper"
    INCONCLUSIVE = "inconclusive"


class FlowLimit(Model):
    """What limited one connection. The keys of the evidence carry their units."""

    flow: int = Field(description="number of the connection, from 0")
    limited_by: Limit = Field(description="the verdict")
    evidence: dict[str, float | None] = Field(
        description="the numbers that it rests on; null for what the kernel does not tell"
    )
