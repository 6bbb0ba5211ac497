"""Whether more trials failed on one side than on the other, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from osmef.analysis.beyond import hommel
from osmef.analysis.verdict import Verdict


def failed_more(a: pd.DataFrame, b: pd.DataFrame, level: float = 0.05) -> dict[str, object]:
    """Return how many trials of a cell failed on both sides, and whether the share differs.

    Keys: trials_a, failed_a, trials_b, failed_b, p of Fisher's exact test (two-tailed), and
    verdict: worse or better where p <= ``level``, the same where the shares are, else inconclusive.
    Empty where none failed. Assumed is that trials fail independently of each other.

    Source: Fisher, "Statistical Methods for Research Workers", 1934, section 21.02.
    """
    counts = [(len(one), int((one["status"] != "ok").sum())) if "status" in one else (len(one), 0)
              for one in (a, b)]  # fmt: skip
    (n_a, bad_a), (n_b, bad_b) = counts
    if not bad_a and not bad_b:
        return {}
    from scipy.stats import fisher_exact  # noqa: PLC0415 - slow to load

    table = np.array([[bad_a, n_a - bad_a], [bad_b, n_b - bad_b]])
    p = float(fisher_exact(table).pvalue)
    found = Verdict.INCONCLUSIVE
    if bad_a * n_b == bad_b * n_a:
        found = Verdict.SAME
    elif p <= level:
        found = Verdict.WORSE if bad_b * n_a > bad_a * n_b else Verdict.BETTER
    return {"trials_a": n_a, "failed_a": bad_a, "trials_b": n_b, "failed_b": bad_b, "p": p,
            "verdict": found}  # fmt: skip


def failures(
    a: Mapping[str, pd.DataFrame],
    b: Mapping[str, pd.DataFrame],
    common: Sequence[str],
    level: float,
) -> list[dict[str, object]]:
    """Return ``failed_more`` of the common cells, and as worse what only B has and all failed.

    ``common`` are cells of both sides, ``level`` the rate of false alarms of all of them together:
    their p, and that of all trials together, are corrected (``hommel``).

    Assumed is what these assume.

    Source: those of ``failed_more`` and ``hommel``.
    """
    found = [{"cell": cell} | failed_more(a[cell], b[cell], level) for cell in common]
    found = [one for one in found if "p" in one]
    if len(found) > 1:
        every = [pd.concat([of[cell] for cell in common]) for of in (a, b)]
        found.append({"cell": "all cells together"} | failed_more(every[0], every[1], level))
    corrected = hommel([float(str(one["p"])) for one in found])
    found = [_judged(one, p, level) for one, p in zip(found, corrected, strict=True)]
    alone = [{"cell": cell} | failed_more(trials.iloc[:0], trials, level)
             for cell, trials in b.items() if cell not in common]  # fmt: skip
    lost = [one | {"p": None, "verdict": Verdict.WORSE} for one in alone
            if "p" in one and one["failed_b"] == one["trials_b"]]  # fmt: skip
    return found + lost


def _judged(one: dict[str, object], p: float | None, level: float) -> dict[str, object]:
    is_sure = one["verdict"] is Verdict.SAME or (p is not None and p <= level)
    return one | ({"p": p} if is_sure else {"p": p, "verdict": Verdict.INCONCLUSIVE})
