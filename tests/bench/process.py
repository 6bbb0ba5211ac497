"""What a benchmark asks of its own process."""

from __future__ import annotations

import re
from pathlib import Path


def memory_mb(key: str) -> float:
    """Return what /proc says of this process (proc(5)), in MB."""
    found = re.search(rf"{key}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) * 1024 / 1e6
