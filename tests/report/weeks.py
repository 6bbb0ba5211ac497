"""A campaign of two weeks for tests of its report: a calendar, and trials of most sessions."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd

from osmef.analysis.seasons import session_trials
from osmef.report.campaign import PLANNED, CampaignData, recorded_prices, wanted_metrics
from tests.declared import with_measures

START = datetime(2027, 1, 4, tzinfo=UTC)
PLATFORMS = {"small": 1.0e9, "large": 4.0e9}
MISSED = range(8, 11)  # of the first platform


def planned(days: int = 14) -> pd.DataFrame:
    """The calendar; each day has a session at work time and one at night."""
    rows: list[dict[str, Any]] = []
    for number in range(2 * days):
        opens = START + timedelta(hours=9 + 12 * number)
        day = "weekend" if opens.weekday() >= 5 else "weekday"
        window = f"{day}-{'offpeak' if number % 2 else 'peak'}"
        for platform in PLATFORMS:
            lost = platform == "small" and number in MISSED
            rows.append(
                {
                    "platform": platform, "session": f"{opens:%m-%d} {window}", "window": window,
                    "opens": opens, "state": "missed" if lost else "done", "day": day,
                    "trials_ok": 0 if lost else 2, "trials_failed": 0, "cost": 0.01,
                    "currency": "USD", "why": "the window was closed" if lost else None,
                }
            )  # fmt: skip
    return pd.DataFrame(rows, columns=pd.Index(PLANNED))


def trials(calendar: pd.DataFrame, step: float = 0.0) -> pd.DataFrame:
    """Two trials of each session that was done; from half time on by ``step`` more."""
    rows: list[dict[str, Any]] = []
    draw = random.Random(3)  # noqa: S311 - noise
    done = calendar[calendar["state"] == "done"].to_dict("records")
    for number, row in enumerate(done):
        rate = PLATFORMS[row["platform"]] * (0.9 if row["window"] == "weekday-peak" else 1.0)
        rate *= draw.gauss(1, 0.004) + (step if number > len(done) / 2 else 0.0)
        rows += [
            {
                "run": f"r{number}", "scenario": "pair", "provider": "local", "cell": "all",
                "session": row["session"], "window": row["window"], "platform": row["platform"],
                "senders": "a", "receivers": "b", "price_per_hour": 0.2, "currency": "USD",
                "started_at": row["opens"] + timedelta(minutes=trial), "workload": "btc",
                "status": "ok", "aggregate_btc_bps": rate * (1 + 0.001 * trial),
            }
            for trial in range(2)
        ]  # fmt: skip
    return with_measures(pd.DataFrame(rows))


def campaign(step: float = 0.0, facts: Iterable[tuple[str, str]] = ()) -> CampaignData:
    """All of it, as a report wants it."""
    calendar = planned()
    of = session_trials(trials(calendar, step))
    return CampaignData(
        "weeks", of, wanted_metrics(of, []), recorded_prices(of), calendar, facts=tuple(facts)
    )
