"""What a test wants to go wrong with a server."""

from __future__ import annotations

import re
from pathlib import Path


def wanted(state: Path, fault: str, server: str) -> bool:
    """Tell whether a test wants this fault for a server, given as "HOST FLAVOR NAME".

    Its file has a pattern.
    """
    try:
        pattern = (state / "faults" / fault).read_text()
    except FileNotFoundError:
        return False
    return bool(re.search(pattern, server))
