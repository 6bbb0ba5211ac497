"""Reader of the output of stress-ng with --metrics or --metrics-brief.

Source: stress-ng(1) and stress-ng.c of 0.12 to 0.19. A bogo operation is one round of a stressor's
loop, another one for each stressor, and for each version. Rates are those of all instances
together, per second that passes, and per second of CPU time, of the user's and the kernel's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from osmef.formats import failed, shows_tail
from osmef.formats.reading import amount, first, of_one_run, positive, whole

_LINE = r"^stress-ng: (?:info|metrc): +\[[0-9]+\] "
_FAILED = re.compile(
    r"^(?:stress-ng: (?:fail|error): +\[[0-9]+\] (.*)|.*(unrecognized option .*)"
    r"|stress-ng: info: +\[[0-9]+\] (unsuccessful run .*|metrics untrustworthy: [1-9].*))",
    re.MULTILINE,
)
_INSTANCES = re.compile(_LINE + r"dispatching hogs: ([0-9]+) (\S+)$", re.MULTILINE | re.ASCII)
_DONE = re.compile(_LINE + r"successful run completed in \S+", re.MULTILINE)
_ROW = re.compile(
    _LINE + r"(\S+) +([0-9]+) +([0-9]\S*) +([0-9]\S*) +([0-9]\S*) +([0-9]\S*) +([0-9]\S*)(?: .*)?$",
    re.MULTILINE | re.ASCII,
)


@dataclass(frozen=True)
class StressNg:
    """A run of one stressor. The rate per CPU second is None without measurable CPU time."""

    stressor: str
    instances: int
    bogo_ops: int
    elapsed_s: float
    user_s: float
    system_s: float
    bogo_ops_per_s: float
    bogo_ops_per_cpu_s: float | None


@shows_tail
def read(text: str) -> StressNg:
    """Read the output of one stressor. Raises OutputError, also for a failure."""
    refused = _FAILED.search(text)
    if refused:
        raise failed("stress-ng", next(filter(None, refused.groups())))
    row = of_one_run(_ROW, text, "stress-ng")
    first(_DONE, text, "successful end")
    return StressNg(
        stressor=row[1],
        instances=whole(first(_INSTANCES, text, "number of instances")[1], "the instances"),
        bogo_ops=whole(row[2], "the bogo operations"),
        elapsed_s=positive(row[3], "the time"),
        user_s=amount(row[4], "the time of the user"),
        system_s=amount(row[5], "the time of the kernel"),
        bogo_ops_per_s=positive(row[6], "the bogo operations/s"),
        bogo_ops_per_cpu_s=amount(row[7], "the bogo operations per CPU second") or None,
    )
