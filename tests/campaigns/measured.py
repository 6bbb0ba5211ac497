"""A campaign that is really measured, as a program that says how far its sessions are.

python -m tests.campaigns.measured CAMPAIGN_FILE DATABASE OUT
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from osmef.campaigns.clock import RealClock
from osmef.campaigns.conduct import Conductor, Means
from osmef.campaigns.executor import Threads
from osmef.campaigns.holder import this_process
from osmef.campaigns.read import read_campaign
from osmef.campaigns.rows import Phase
from osmef.campaigns.score import make_score
from osmef.campaigns.session import End, Measurer, Work, measure
from osmef.campaigns.store import Store
from osmef.engine.observer import Observer
from osmef.engine.plan import PlannedTrial
from osmef.engine.stop import Stop


class Told(Observer):
    """Says each step and trial before it begins."""

    def step(self, text: str) -> None:
        say("step", text)

    def trial_started(self, planned: PlannedTrial) -> None:
        say("trial", str(planned.index))


def say(kind: str, text: str) -> None:
    sys.stdout.write(f"{kind} {text}\n")
    sys.stdout.flush()


def run(work: Work, stop: Stop) -> End:
    return measure(work, stop, Told())


def conduct(file: Path, database: str, out: Path) -> Phase:
    programme = read_campaign(file)
    score, name = make_score(programme), programme.campaign.name
    store = Store(database)
    about = {"file": str(file), "text": programme.text, "out": str(out)}
    store.enlist(name, about, score.rows(), datetime.now(UTC))
    stop, executor = Stop(), Threads(1)
    means = Means(this_process(), RealClock(), executor, Measurer(stop, run).measure, say)
    phase = Conductor(store, store.campaign(name), score, means, stop).run()
    executor.close()
    store.close()
    return phase


if __name__ == "__main__":
    sys.exit(conduct(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])) is not Phase.ENDED)
