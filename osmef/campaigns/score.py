"""What a conductor plays from: the campaign, and the study, length and cost of each platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from osmef.campaigns.calendar import Platform, sessions
from osmef.campaigns.model import Campaign, Vms
from osmef.campaigns.places import places_of
from osmef.campaigns.read import Programme
from osmef.campaigns.rows import PlannedRow
from osmef.engine.check import check_study
from osmef.engine.cost import PlannedCost, cost_of
from osmef.engine.plan import Plan, make_plan
from osmef.errors import InputError
from osmef.scenario.clouds.inventory import CloudWithHosts
from osmef.scenario.fields import EndpointKind
from osmef.scenario.money import parse_money
from osmef.scenario.study import Study


@dataclass(frozen=True)
class Part:
    """A platform: its study, how long a session of it takes by plan, and what that costs.

    ``kept``: whether its VMs are kept from session to session.
    """

    study: Study
    seconds: float
    cost: PlannedCost
    kept: bool = False

    @property
    def amount(self) -> float:
        """What a session costs, as far as it is known."""
        return self.cost.money.amount if self.cost.money else 0.0

    @property
    def places(self) -> frozenset[str]:
        """The names of what it measures, of all its clouds."""
        clouds = self.study.scenario.clouds.values()
        return frozenset().union(*(places_of(settings) for settings in clouds))

    @property
    def cloud(self) -> str:
        """Its places in one text, a line each: what Session.places takes apart."""
        return "\n".join(sorted(self.places))


@dataclass(frozen=True)
class Score:
    """A campaign and its parts."""

    campaign: Campaign
    parts: Mapping[Platform, Part]

    def rows(self) -> list[PlannedRow]:
        """Return all its sessions, with what each measures."""
        known = {name: (part.cloud, part.study.digest) for name, part in self.parts.items()}
        return [PlannedRow(one, *known[one.platform]) for one in sessions(self.campaign)]


def make_score(programme: Programme) -> Score:
    """Plan each platform. Raises InputError for what a cloud can't do.

    So it does for a budget that nobody can hold: of unknown prices, or in another currency.
    """
    parts: dict[Platform, Part] = {}
    for platform, study in programme.studies.items():
        check_study(study)
        plan = make_plan(study, 0)
        kept = programme.campaign.vms is Vms.KEPT and not _has_given_hosts(plan)
        parts[platform] = Part(study, plan.estimate_s, cost_of(plan), kept)
    score = Score(programme.campaign, parts)
    _check_budget(programme, score)
    return score


def _has_given_hosts(plan: Plan) -> bool:
    """Tell whether it measures hosts that are there anyway: whoever keeps one locks others out."""
    clouds = plan.study.scenario.clouds
    return any(
        isinstance(clouds[one.site], CloudWithHosts)
        and (clouds[one.site].kind == "static" or one.kind is EndpointKind.HOST)
        for one in plan.endpoints
    )


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
