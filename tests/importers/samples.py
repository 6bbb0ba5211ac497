from __future__ import annotations

from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


def kind_of(path: Path) -> str:
    """Return the kind that the name of a sample begins with."""
    return path.name.partition("-")[0].partition(".")[0]


def outline(record: Any) -> dict[str, Any]:
    """Return what is expected of a record, as JSON has it."""
    return {
        "workload": record.workload,
        "place": record.place,
        "values": record.values,
        "senders": list(record.senders),
        "receivers": list(record.receivers),
        "connections": record.connections,
        "distance": record.distance,
        "started_at": record.started_at.isoformat() if record.started_at else None,
        "wall_s": record.wall_s,
        "session": record.session,
        "run": record.run,
        "provider": record.provider,
        "failure": record.failure.message if record.failure else None,
        "metrics": {k: None if v is None else float(f"{v:.9g}") for k, v in record.metrics.items()},
        "rows": [len(record.intervals), len(record.requests), len(record.sizes)],
    }
