"""Plan of a campaign: study, length, cost and exclusive resources of each platform."""

from __future__ import annotations

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from osmef.campaigns.process_identity import this_machine
from osmef.campaigns.schedule.calendar import (
    ClockChange,
    Opening,
    PlannedSession,
    Platform,
    clock_changes,
    openings,
    sessions,
)
from osmef.campaigns.schedule.load import LoadedCampaign
from osmef.campaigns.schedule.model import Campaign, Vms
from osmef.engine.check import check_study
from osmef.engine.cost import PlannedCost, cost_of, has_price_list
from osmef.engine.plan import Plan, make_plan
from osmef.errors import InputError
from osmef.scenario.clouds.base import CloudSettings, PublicCloudSettings
from osmef.scenario.clouds.libvirt import LibvirtSettings
from osmef.scenario.clouds.local import LocalSettings
from osmef.scenario.clouds.openstack import OpenStackSettings
from osmef.scenario.clouds.static import CloudWithHosts
from osmef.scenario.fields import EndpointKind, Money, parse_money
from osmef.scenario.study import Study


@dataclass(frozen=True)
class PlatformPlan:
    """The plan of a platform: its study, and the length and cost of a session.

    ``kept``: whether its VMs are kept from session to session.
    """

    study: Study
    seconds: float
    cost: PlannedCost
    kept: bool = False

    @property
    def amount(self) -> float:
        """The cost of a session, as far as it is known."""
        return self.cost.money.amount if self.cost.money else 0.0

    @property
    def exclusive_resources(self) -> frozenset[str]:
        """The exclusive resources of a session: those of all clouds that it measures."""
        clouds = self.study.scenario.clouds.values()
        return frozenset().union(*(exclusive_resources(settings) for settings in clouds))

    @property
    def resource_lines(self) -> str:
        """Its exclusive resources as the database stores them, a line each."""
        return "\n".join(sorted(self.exclusive_resources))


@dataclass(frozen=True)
class PlannedRow:
    """A planned session, its exclusive resources as text, and the digest of its study."""

    session: PlannedSession
    cloud: str
    study: str = ""


@dataclass(frozen=True)
class CampaignPlan:
    """A campaign and the plan of each platform."""

    campaign: Campaign
    parts: Mapping[Platform, PlatformPlan]

    def rows(self) -> list[PlannedRow]:
        """Return all its sessions with their exclusive resources."""
        known = {
            name: (part.resource_lines, part.study.digest) for name, part in self.parts.items()
        }
        return [PlannedRow(one, *known[one.platform]) for one in sessions(self.campaign)]


def plan_campaign(loaded: LoadedCampaign) -> CampaignPlan:
    """Plan each platform. Raises InputError for what a cloud does not support.

    A budget of unknown prices, or in another currency, is an error, too.
    """
    parts: dict[Platform, PlatformPlan] = {}
    for platform, study in loaded.studies.items():
        check_study(study)
        plan = make_plan(study, 0)
        kept = loaded.campaign.vms is Vms.KEPT and not _has_given_hosts(plan)
        parts[platform] = PlatformPlan(study, plan.estimate_s, cost_of(plan), kept)
    campaign_plan = CampaignPlan(loaded.campaign, parts)
    _check_budget(loaded, campaign_plan)
    return campaign_plan


def _has_given_hosts(plan: Plan) -> bool:
    """Return whether it measures static hosts: to keep one would lock others out."""
    clouds = plan.study.scenario.clouds
    return any(
        isinstance(clouds[one.site], CloudWithHosts)
        and (clouds[one.site].kind == "static" or one.kind is EndpointKind.HOST)
        for one in plan.endpoints
    )


def _check_budget(loaded: LoadedCampaign, campaign_plan: CampaignPlan) -> None:
    if loaded.campaign.budget is None:
        return
    budget = parse_money(loaded.campaign.budget)
    for platform, part in campaign_plan.parts.items():
        cost = part.cost
        if cost.vms and (cost.unknown or cost.money is None):
            what = ", ".join(cost.unknown) or "several currencies"
            message = f"the budget can't be held: {platform.shown}: no price of {what}"
        elif cost.money and cost.money.currency != budget.currency:
            message = (
                f"the budget is in {budget.currency}, {platform.shown} in {cost.money.currency}"
            )
        else:
            continue
        cure = "write the price under prices in the scenario, or remove budget"
        raise InputError(message, where=str(loaded.path), cure=cure)


# The column of held resources has room for 500.
_LONGEST = 400


def exclusive_resources(settings: CloudSettings) -> frozenset[str]:
    """Return the names of the exclusive resources, at least one; size and account do not count.

    A region of a public cloud is one. Each host is one, by any name, and so is this machine,
    for the local cloud as for guests of its libvirt.
    """
    found: set[str] = set()
    if isinstance(settings, LocalSettings):
        found = {_host("localhost")}
    elif isinstance(settings, PublicCloudSettings):
        found = {" ".join(filter(None, (settings.kind, settings.endpoint_url, settings.region)))}
    elif isinstance(settings, OpenStackSettings):
        found = {_openstack(settings)}
    elif isinstance(settings, LibvirtSettings):
        uris = list(settings.uris.values()) or [settings.uri]
        found = {_host(urlsplit(uri).hostname or "localhost") for uri in uris}
    if isinstance(settings, CloudWithHosts):
        found |= {_host(_address(host.ssh)) for host in settings.hosts.values()}
    return frozenset(map(_bounded, found or {settings.kind}))


def _bounded(name: str) -> str:
    """Return a name of a length that a database accepts: long ones end with a digest."""
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST // 2]} {hashlib.sha256(name.encode()).hexdigest()}"


def _openstack(settings: OpenStackSettings) -> str:
    """Return the name of a cloud, else the identity service's URL from the environment."""
    named = settings.cloud or os.environ.get("OS_CLOUD")
    region = settings.region or (None if named else os.environ.get("OS_REGION_NAME"))
    where = named or os.environ.get("OS_AUTH_URL", "").rstrip("/")
    return " ".join(filter(None, (settings.kind, where, region)))


def _address(destination: str) -> str:
    """Return the host of an ssh destination, ``[user@]host[:port]`` or a URL of it."""
    text = destination if "//" in destination else f"//{destination}"
    try:
        return urlsplit(text).hostname or destination
    except ValueError:  # a bare IPv6 address
        return destination.rpartition("@")[2]


def _host(name: str) -> str:
    here = name in {"localhost", "127.0.0.1", "::1"}
    return f"host {this_machine() if here else name.lower()}"


@dataclass(frozen=True)
class Week:
    """Seven days from the first on: slots by window, sessions, and seconds of measuring."""

    first: date
    slots: dict[str, int]
    sessions: int
    seconds: float


@dataclass(frozen=True)
class PaidPeriod:
    """A period in which the VMs of a platform are paid for, and their total time."""

    platform: Platform
    since: datetime
    until: datetime
    seconds: float

    @property
    def name(self) -> str:
        """The platform, for people."""
        return self.platform.shown


@dataclass(frozen=True)
class Preview:
    """The preview of a campaign. ``amounts`` is the cost by currency, ``unknown`` has no price.

    ``kept`` is how long kept VMs exist, including the time between sessions. Without ``charged`` no
    cloud has list prices: all is on machines of one's own.
    """

    campaign: Campaign
    openings: tuple[Opening, ...]
    clock_changes: tuple[ClockChange, ...]
    weeks: tuple[Week, ...]
    platforms: int
    sessions: int
    first: datetime
    last: datetime
    seconds: float
    amounts: dict[str, float]
    unknown: tuple[str, ...]
    notes: tuple[str, ...]
    charged: bool
    kept: tuple[PaidPeriod, ...] = ()

    @property
    def cost(self) -> str:
        """What it costs, in words."""
        known = " and ".join(f"{Money(amount, unit)}" for unit, amount in self.amounts.items())
        if self.unknown:
            missing = f"there is no price of {', '.join(self.unknown)}"
            return f"unknown, for {missing}" + (f"; the rest about {known}" if known else "")
        return f"about {known}" if known else "nothing by price list"

    def record(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "platforms": self.platforms,
            "sessions": self.sessions,
            "first": self.first.isoformat(),
            "last": self.last.isoformat(),
            "duration_s": self.seconds,
            "cost": self.amounts,
            "unpriced": list(self.unknown),
            "notes": list(self.notes),
            "time_zone": self.campaign.time_zone,
            "clock_changes": [one.record() for one in self.clock_changes],
            "order": self.campaign.order.value,
            "seed": self.campaign.seed,
            "kept_vms": [
                {"platform": one.name, "since": one.since.isoformat()}
                | {"until": one.until.isoformat(), "duration_s": one.seconds}
                for one in self.kept
            ],
            "weeks": [
                {"first": w.first.isoformat(), "slots": w.slots, "sessions": w.sessions}
                | {"duration_s": w.seconds}
                for w in self.weeks
            ],
            "calendar": [session for one in self.openings for session in one.record()],
        }


def preview(campaign_plan: CampaignPlan) -> Preview:
    """Compute the preview of a campaign: its calendar, length and cost."""
    planned = sessions(campaign_plan.campaign)
    amounts: dict[str, float] = defaultdict(float)
    unknown: dict[str, None] = {}
    paid = _paid(campaign_plan, planned)
    for one in paid:
        cost = campaign_plan.parts[one.platform].cost
        unknown |= dict.fromkeys(cost.unknown)
        if cost.per_hour:
            amounts[cost.per_hour.currency] += cost.per_hour.amount * one.seconds / 3600
    return Preview(
        campaign=campaign_plan.campaign,
        openings=tuple(openings(campaign_plan.campaign)),
        clock_changes=tuple(clock_changes(campaign_plan.campaign)),
        weeks=tuple(_weeks(campaign_plan, planned)),
        platforms=len(campaign_plan.parts),
        sessions=len(planned),
        first=planned[0].due,
        last=max(one.slot.closes for one in planned),
        seconds=sum(campaign_plan.parts[one.platform].seconds for one in planned),
        amounts=dict(amounts),
        unknown=tuple(unknown),
        notes=(*_too_expensive(campaign_plan), *_too_full(campaign_plan, planned)),
        charged=any(has_price_list(one.study.scenario) for one in campaign_plan.parts.values()),
        kept=tuple(one for one in paid if campaign_plan.parts[one.platform].kept),
    )


def _too_expensive(campaign_plan: CampaignPlan) -> Iterator[str]:
    """Yield notes on platforms of which the budget does not pay for one session."""
    if campaign_plan.campaign.budget is None:
        return
    budget = parse_money(campaign_plan.campaign.budget)
    for platform, part in campaign_plan.parts.items():
        if part.amount > budget.amount:
            cost = Money(part.amount, budget.currency)
            whose = f"no session of {platform.shown}, about {cost} each"
            yield f"the budget of {budget} pays for {whose}"


def past_notes(found: Preview, now: datetime) -> list[str]:
    """Return notes on the part of a campaign that is in the past."""
    gone, every = sum(one.closes <= now for one in found.openings), len(found.openings)
    if not gone:
        return []
    what = f"all {every}" if gone == every else f"{gone} of {every}"
    cure = "to measure then, set start, and a date in cron, to what comes next"
    return [f"{what} openings of its windows are over already; {cure}"]


def _paid(campaign_plan: CampaignPlan, planned: list[PlannedSession]) -> list[PaidPeriod]:
    """Return the times that VMs of each platform exist: in sessions, or also between them."""
    by_platform: dict[Platform, list[PlannedSession]] = defaultdict(list)
    for one in planned:
        by_platform[one.platform].append(one)
    found = []
    for platform, mine in by_platform.items():
        length = timedelta(seconds=campaign_plan.parts[platform].seconds)
        since, until = mine[0].due, mine[-1].due + length
        exists = until - since if campaign_plan.parts[platform].kept else len(mine) * length
        found.append(PaidPeriod(platform, since, until, exists.total_seconds()))
    return found


def _weeks(campaign_plan: CampaignPlan, planned: list[PlannedSession]) -> list[Week]:
    by_week: dict[int, list[PlannedSession]] = defaultdict(list)
    for one in planned:
        by_week[(one.slot.day - campaign_plan.campaign.start).days // 7].append(one)
    weeks = []
    for number, mine in sorted(by_week.items()):
        slots = Counter(slot.window for slot in {one.slot for one in mine})
        seconds = sum(campaign_plan.parts[one.platform].seconds for one in mine)
        first = campaign_plan.campaign.start + timedelta(weeks=number)
        weeks.append(Week(first, dict(slots), len(mine), seconds))
    return weeks


def _too_full(campaign_plan: CampaignPlan, planned: list[PlannedSession]) -> list[str]:
    """Return notes on windows too short for their sessions on one exclusive resource."""
    needed: dict[tuple[str, datetime, str], float] = defaultdict(float)
    window_s: dict[str, float] = {}
    names = {key: part.exclusive_resources for key, part in campaign_plan.parts.items()}
    for one in planned:
        part = campaign_plan.parts[one.platform]
        for name in names[one.platform]:
            needed[one.slot.window, one.slot.opens, name] += part.seconds
        length = (one.slot.closes - one.due).total_seconds()
        window_s[one.slot.window] = min(length, window_s.get(one.slot.window, length))
    if not campaign_plan.campaign.exclusive:
        return []
    full = {window for (window, _, _), seconds in needed.items() if seconds > window_s[window]}
    why = "its sessions take longer than it is open, and the last of them will be missed"
    return [f"window {window}: {why}" for window in sorted(full)]
