"""What a conductor plays from: the campaign, and the study, length and cost of each platform."""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from osmef.campaigns.calendar import Platform, sessions
from osmef.campaigns.model import Campaign
from osmef.campaigns.read import Programme
from osmef.campaigns.store import PlannedRow
from osmef.engine.check import check_study
from osmef.engine.cost import PlannedCost, cost_of
from osmef.engine.plan import make_plan
from osmef.errors import InputError
from osmef.scenario.clouds.base import CloudSettings
from osmef.scenario.money import parse_money
from osmef.scenario.study import Study

# What says where a cloud is; all else says what is wanted from it.
_PLACE = ("cloud", "region", "uri", "connections", "hosts", "tenants", "endpoint_url")


@dataclass(frozen=True)
class Part:
    """A platform: its study, how long a session of it takes by plan, and what that costs."""

    study: Study
    seconds: float
    cost: PlannedCost

    @property
    def amount(self) -> float:
        """What a session costs, as far as it is known."""
        return self.cost.money.amount if self.cost.money else 0.0

    @property
    def clouds(self) -> tuple[str, ...]:
        """The clouds that it measures, each as a text that is the same for the same cloud."""
        clouds = self.study.scenario.clouds.values()
        return tuple(sorted({_cloud(settings) for settings in clouds}))


@dataclass(frozen=True)
class Score:
    """A campaign and its parts."""

    campaign: Campaign
    parts: Mapping[Platform, Part]

    def rows(self) -> list[PlannedRow]:
        """Return all its sessions, with the clouds that each measures."""
        return [PlannedRow(one, self.parts[one.platform].clouds) for one in sessions(self.campaign)]


def make_score(programme: Programme) -> Score:
    """Plan each platform. Raises InputError for what a cloud can't do.

    So it does for a budget that nobody can hold: of unknown prices, or in another currency.
    """
    parts: dict[Platform, Part] = {}
    for platform, study in programme.studies.items():
        check_study(study)
        plan = make_plan(study, 0)
        parts[platform] = Part(study, plan.estimate_s, cost_of(plan))
    score = Score(programme.campaign, parts)
    _check_budget(programme, score)
    return score


def _check_budget(programme: Programme, score: Score) -> None:
    if programme.campaign.budget is None:
        return
    budget = parse_money(programme.campaign.budget)
    for platform, part in score.parts.items():
        cost = part.cost
        if cost.vms and (cost.unknown or cost.money is None):
            what = ", ".join(cost.unknown) or "several currencies"
            message = f"the budget can't be held: {platform.name}: no price of {what}"
        elif cost.money and cost.money.currency != budget.currency:
            message = (
                f"the budget is in {budget.currency}, {platform.name} in {cost.money.currency}"
            )
        else:
            continue
        cure = "write the price under prices in the scenario, or remove budget"
        raise InputError(message, where=str(programme.path), cure=cure)


def _cloud(settings: CloudSettings) -> str:
    written = settings.model_dump(mode="json")
    place = {key: written[key] for key in _PLACE if written.get(key)}
    if not place:
        return f"{settings.kind} on {socket.gethostname()}"
    text = json.dumps(place, sort_keys=True)
    return f"{settings.kind} {hashlib.sha256(text.encode()).hexdigest()[:12]}"
