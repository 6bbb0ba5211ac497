"""Telling somebody: a command that reads JSON, or a webhook that is posted to."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException

from osmef.campaigns.model import Notify

_TIMEOUT_S = 30.0


def notify(whom: Notify, message: Mapping[str, object]) -> list[str]:
    """Tell everybody named, and return why somebody could not be told.

    The command gets the message on its standard input, without a shell.
    """
    problems = []
    data = json.dumps(dict(message)).encode()
    if whom.command:
        try:
            subprocess.run(
                whom.command, input=data, timeout=_TIMEOUT_S, check=True, capture_output=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            problems.append(f"the command of notify: {error}")
    if whom.webhook:
        headers = {"Content-Type": "application/json"}
        try:
            request = urllib.request.Request(whom.webhook, data, headers)  # noqa: S310 - http(s)
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310
                pass
        except (OSError, ValueError, HTTPException) as error:
            problems.append(f"the webhook of notify: {error}")
    return problems
