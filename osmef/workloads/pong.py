"""The agent's HTTP server, as the server of programs that measure one."""

from __future__ import annotations

from osmef.agent.deploy import AGENT
from osmef.workloads.programs import Run, Where

PONG = Run(
    on=Where.RECEIVER,
    argv=[AGENT, "pong", "--bind", "{bind}", "--port", "{port}"],
    ready="port",
    serves=True,
)
"""A server at the receiver, which every endpoint has; it has a thread for each CPU."""


def url(size: int) -> str:
    """Return the URL of an answer with so many bytes of payload, which has to be 4 at least."""
    return f"http://{{host}}:{{port}}/pong/{size}"
