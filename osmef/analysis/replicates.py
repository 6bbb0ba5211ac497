"""Units of replication: trials of a run, sessions of a campaign; and their platforms.

Trials of one session share its hour, its hosts and its neighbours, so where there are sessions the
session is the unit of replication, and its result is the median of its trials (Deval, "Empirical
Evaluation of Cloud IaaS Platforms using System-level Benchmarks", 2017, chapter 5).
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

PLATFORM = ("platform", "scenario", "provider", "sender_flavors", "receiver_flavors")
"""What may distinguish two platforms, of the columns of ``osmef.load``, the broadest first."""


PLACE = ("achieved_placement", "achieved_tenancy")
"""Where its ends stood, which a cloud may decide again for each run."""

_ALIKE = (("run", "cell"), ("scenario", "platform", "provider", "cell"))
_OF_RUN = ("platform", "scenario", "provider")


def settled(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with ``PLATFORM`` and ``PLACE`` of failed ones filled in from their cell.

    A trial that failed early may not tell it. It is taken to be as all others of its cell in its
    run, or, flavors and places, of its platform: where these have one value. What a trial that went
    well does not know stays unknown: it may be of any platform.
    """
    if "status" not in trials:
        return trials
    filled, failed = trials.copy(deep=False), trials["status"] != "ok"
    for name in (name for name in (*PLATFORM, *PLACE) if name in trials):
        for keys in _ALIKE[:1] if name in _OF_RUN else _ALIKE:
            unknown = filled[name].isna()
            if unknown.all() or not (unknown & failed).any():
                break
            there = [key for key in keys if key in filled and key != name]
            groups = filled.groupby(there, sort=False, dropna=False)[name]
            only = groups.transform("first").where(groups.transform("nunique") == 1)
            filled[name] = filled[name].where(~(unknown & failed), only)
    return filled


def is_loopback(trials: pd.DataFrame) -> pd.Series[bool]:
    """Return which trials of ``osmef.load`` are of a machine with itself."""
    if "senders" not in trials or "receivers" not in trials:
        return pd.Series(data=False, index=trials.index)
    return trials["senders"].notna() & trials["senders"].eq(trials["receivers"])


def has_sessions(*trials: pd.DataFrame) -> bool:
    """Return whether any trial of these frames of ``osmef.load`` is of a session."""
    return any("session" in frame and bool(frame["session"].notna().any()) for frame in trials)


def has_pairs(*trials: pd.DataFrame) -> bool:
    """Return whether any trial of these frames of ``osmef.load`` is on one pair of several."""
    return any("pair" in frame and bool(frame["pair"].notna().any()) for frame in trials)


def has_runs(trials: pd.DataFrame) -> bool:
    """Return whether trials of one cell are of several runs, each of which counts as one value."""
    return "run" in trials and trials["run"].nunique() > 1


def independent(
    trials: pd.DataFrame, metric: str, *, by_session: bool | None = None
) -> list[float]:
    """Return the independent replicates of a metric, in its unit and in their order.

    ``trials`` are those of one cell of one platform. ``by_session``: the median of each session, a
    run without sessions being one; else that of each pair of endpoints, where each has trials of
    its own, or each trial that has the metric; without, as the trials are.

    Assumed is that trials of one session, or on one pair, are not independent, and sessions and
    pairs are.

    Source: Hurlbert, "Pseudoreplication and the Design of Ecological Field Experiments", Ecological
    Monographs 54, 1984; Deval, 2017, chapter 5.
    """
    if metric not in trials:
        return []
    known = trials[trials[metric].notna()]
    sessions = has_sessions(trials) if by_session is None else by_session
    if not sessions and has_pairs(known):
        keys = [name for name in ("run", "pair") if name in known]
        medians = known.groupby(keys, sort=False, dropna=False)[metric].median()
        return [float(value) for value in medians]
    if not sessions:
        return [float(value) for value in known[metric]]
    return list(session_medians(known, metric).values())


def session_medians(trials: pd.DataFrame, metric: str) -> dict[str, float]:
    """Return the median of each session in the order in which they occur, by its name.

    A session is one of one run, and a run without any is one; the name is that of the run where
    several sessions are called alike.

    Assumed is what ``independent`` assumes.

    Source: that of ``independent``.
    """
    keys = [name for name in ("run", "session") if name in trials]
    known = trials[trials[metric].notna()]
    medians = known.groupby(keys, sort=False, dropna=False)[metric].median()
    sessions = medians.index.to_frame(index=False).astype(object)
    short = sessions[keys[-1]]
    names = [str(one) for one in (short.where(short.notna(), sessions[keys[0]]))]
    if len(set(names)) < len(names):
        names = [" ".join(map(str, row)) for row in sessions.to_numpy()]
    return dict(zip(names, map(float, medians), strict=True))


def platform_columns(*frames: pd.DataFrame, columns: Sequence[str] = PLATFORM) -> list[str]:
    """Return the columns that distinguish the platforms of frames of trials.

    Those are needed of which the trials of one cell have several values in any of the frames, or
    the whole frame in the case of scenarios, whose cells may be called alike and mean another
    thing. A column that a frame does not have, or has no value in, tells nothing.
    """
    found: list[str] = []
    for name in columns:
        if any(name not in frame or frame[name].isna().all() for frame in frames):
            continue
        within = found if name == "scenario" else [*found, "cell"]
        if any(_several(frame, within, name) for frame in frames):
            found.append(name)
    return found


def _several(frame: pd.DataFrame, within: Sequence[str], name: str) -> bool:
    if not within:
        return bool(frame[name].nunique(dropna=False) > 1)
    return bool((frame.groupby(list(within), dropna=False)[name].nunique(dropna=False) > 1).any())


def place_columns(trials: pd.DataFrame) -> list[str]:
    """Return the columns of ``PLACE`` with several values in a cell of a platform."""
    return [name for name in platform_columns(trials, columns=(*PLATFORM, *PLACE)) if name in PLACE]


def cell_names(trials: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Return the name of each trial's cell, after its ``platform_names`` by ``columns``."""
    pairs = zip(platform_names(trials, columns), trials["cell"], strict=True)
    return [f"{name}: {cell}" if name else str(cell) for name, cell in pairs]


def platform_names(trials: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Return the name of each trial's platform: the values of the columns that distinguish it.

    Flavors of both ends that are the same stand once.
    """
    texts = [["unknown" if one is None or one != one else str(one) for one in trials[name]]  # noqa: PLR0124 - NaN is not itself
             for name in columns]  # fmt: skip
    rows = zip(*texts, strict=True) if texts else [()] * len(trials)
    return [", ".join(dict.fromkeys(row)) for row in rows]
