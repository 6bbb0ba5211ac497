"""A campaign that is really measured, as a program that says how far its sessions are.

python -m tests.campaigns.measured CAMPAIGN_FILE DATABASE OUT
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from osmef.campaigns.conductor.cleanup import ConductorContext
from osmef.campaigns.conductor.conductor import Conductor
from osmef.campaigns.executors.session import (
    CancellableSessions,
    SessionJob,
    SessionResult,
    ThreadExecutor,
    measure,
)
from osmef.campaigns.process_identity import this_process
from osmef.campaigns.schedule.calendar import RealClock
from osmef.campaigns.schedule.load import read_campaign
from osmef.campaigns.schedule.plan import plan_campaign
from osmef.campaigns.state.rows import CampaignPhase
from osmef.campaigns.state.store import Store
from osmef.engine.cancellation import CancellationToken
from osmef.engine.events import Observer
from osmef.engine.plan import PlannedTrial


class Told(Observer):
    """Says each step and trial before it begins."""

    def activity(self, text: str) -> None:
        say("step", text)

    def trial_started(self, planned: PlannedTrial) -> None:
        say("trial", str(planned.index))


def say(kind: str, text: str) -> None:
    sys.stdout.write(f"{kind} {text}\n")
    sys.stdout.flush()


def run(work: SessionJob, stop: CancellationToken) -> SessionResult:
    return measure(work, stop, Told())


def conduct(file: Path, database: str, out: Path) -> CampaignPhase:
    loaded = read_campaign(file)
    campaign_plan, name = plan_campaign(loaded), loaded.campaign.name
    store = Store(database)
    about = {"file": str(file), "text": loaded.text, "out": str(out)}
    store.register(name, about, campaign_plan.rows(), datetime.now(UTC))
    stop, executor = CancellationToken(), ThreadExecutor(1)
    context = ConductorContext(
        this_process(), RealClock(), executor, CancellableSessions(stop, run).measure, say
    )
    phase = Conductor(store, store.campaign(name), campaign_plan, context, stop).run()
    executor.close()
    store.close()
    return phase


if __name__ == "__main__":
    sys.exit(conduct(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])) is not CampaignPhase.ENDED)
