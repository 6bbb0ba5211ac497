"""Merge of a run's tables in a process of its own, which alone loads Arrow.

Arrow takes about 50 MB of a process that has loaded it. A controller waits for weeks between
trials and needs it only for the moment of a merge. One that has loaded it anyway merges itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from osmef.errors import InputError, StorageError

_CURE = "free some memory: what was measured is kept"
# It imports from where the controller does, and nowhere else. Arrow does without NumPy, which
# takes longer to load than Arrow itself, and without what pickles functions.
_PROGRAM = """\
import json, sys
order = json.load(sys.stdin)
sys.path[:] = order.pop("path")
sys.modules.update(numpy=None, cloudpickle=None)
from osmef.results.merging import work
sys.exit(work(**order))
"""


def merge(table: str, file: BinaryIO, merged: Path, parts: Sequence[Path]) -> None:
    """Write the merged table to ``file``, as ``tables.merge`` does.

    Raises OSError, InputError for a damaged file, and StorageError if the process was killed.
    """
    if "pyarrow" in sys.modules:
        from osmef.results import tables  # noqa: PLC0415 - loads pyarrow

        tables.merge(table, file, merged, parts)
        return
    order = {"table": table, "merged": str(merged), "parts": list(map(str, parts))}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _PROGRAM],
        input=json.dumps({**order, "path": sys.path}).encode(),
        stdout=file,
        stderr=subprocess.PIPE,
        check=False,
        start_new_session=True,  # Ctrl-C is the controller's to answer
    )
    if done.returncode:
        raise _failure(done.stderr, done.returncode, merged)


def _failure(printed: bytes, status: int, merged: Path) -> Exception:
    """Return the error of that process: its last line has the arguments of ours."""
    try:
        reported: dict[str, Any] = json.loads(printed.splitlines()[-1])
    except (ValueError, IndexError):
        end = printed.decode(errors="replace").strip() or f"it ended with status {status}"
        return StorageError(f"can't merge this table: {end}", where=str(merged), cure=_CURE)
    if "errno" in reported:
        return OSError(reported["errno"], reported["why"])
    return InputError(reported["message"], where=reported["where"], cure=reported["cure"])


def work(table: str, merged: str, parts: Sequence[str]) -> int:
    """Merge to standard output in that process, and return its exit status."""
    from osmef.results import tables  # noqa: PLC0415 - loads pyarrow

    try:
        with open(1, "wb", closefd=False) as file:
            tables.merge(table, file, Path(merged), list(map(Path, parts)))
    except InputError as error:
        reported: dict[str, Any] = {
            "message": error.message, "where": error.where, "cure": error.cure
        }  # fmt: skip
    except OSError as error:
        reported = {"errno": error.errno, "why": error.strerror or str(error)}
    else:
        return 0
    sys.stderr.write(json.dumps(reported))
    return 1
