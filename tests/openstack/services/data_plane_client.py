"""Ask the data plane: one line of JSON there, one back."""

from __future__ import annotations

import json
import socket
from typing import Any

_ANSWER_S = 60.0


def ask(path: str, request: dict[str, Any]) -> None:
    """Have a request carried out. Raises OSError with what went wrong."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_S)
        connection.connect(path)
        connection.sendall(json.dumps(request).encode() + b"\n")
        answer = json.loads(connection.makefile("rb").readline() or b'"no answer"')
    if answer is not None:
        raise OSError(answer)
