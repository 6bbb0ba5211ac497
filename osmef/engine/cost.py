"""Cost of a run: planned, within its budget while it runs, and final."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from osmef.engine.events import Provisioning
from osmef.engine.journal import History, Journal
from osmef.engine.plan import Plan
from osmef.errors import InputError
from osmef.prices.price_list import is_listed, read_book
from osmef.providers.base import EndpointRequest
from osmef.results.summary import Cost, HourlyPrice
from osmef.scenario.fields import EndpointKind, Money, Price, parse_money
from osmef.scenario.model import Scenario

_HOUR_S = 3600.0


class RunPrices:
    """The prices of a run's VMs. Raises InputError where a price list can't be read."""

    def __init__(self, scenario: Scenario) -> None:
        self._clouds = scenario.clouds
        self._book = read_book(scenario.prices)

    @property
    def on_demand(self) -> bool:
        """Whether list prices are what is paid, not only an upper bound."""
        return all(cloud.on_demand for cloud in self._clouds.values())

    def list_price(self, request: EndpointRequest, flavor: str | None = None) -> Price | None:
        """Return the list price of a VM, of the flavor that it got or else is to get."""
        name = flavor or self.flavor(request)
        settings = self._clouds[request.site]
        if name is None or request.kind is EndpointKind.HOST or not self.by_flavor(request):
            return None
        return self._book.find(settings.kind, settings.priced_region(request.zone), name)

    def by_flavor(self, request: EndpointRequest) -> bool:
        """Return whether what a VM costs is the price of its flavor alone."""
        return self._clouds[request.site].priced_by_flavor

    def flavor(self, request: EndpointRequest) -> str | None:
        """Return the name of its flavor; None where the provider chooses."""
        if request.flavor is None:
            return self._clouds[request.site].usual_flavor
        return request.flavor if isinstance(request.flavor, str) else None

    def label(self, request: EndpointRequest) -> str:
        """Return the name of the priced item, for messages."""
        name = self.flavor(request) or str(request.flavor or "default")
        settings = self._clouds[request.site]
        region = settings.priced_region(request.zone)
        what = f"{settings.kind} {name}" + (f" in {region}" if region else "")
        return what if self.by_flavor(request) else f"{what} with {settings.priced_apart}"

    def expected_price(self, request: EndpointRequest, flavor: str | None) -> HourlyPrice | None:
        """Return the price of a VM of this flavor; None where it is unknown."""
        return self.max_price(request, flavor) if self._clouds[request.site].on_demand else None

    def max_price(self, request: EndpointRequest, flavor: str | None) -> HourlyPrice | None:
        """Return the highest price of a VM of this flavor: spare capacity costs less."""
        price = self.list_price(request, flavor)
        return hourly(price) if price else None

    def price_query(self, request: EndpointRequest) -> tuple[str, str | None, str] | None:
        """Return kind, region and flavor to query a price API for; None without an API."""
        settings, name = self._clouds[request.site], self.flavor(request)
        if name is None or not is_listed(settings.kind, name):
            return None
        return settings.kind, settings.priced_region(request.zone), name


def hourly(price: Price) -> HourlyPrice:
    """Return a price for a summary."""
    return HourlyPrice(
        amount=price.money.amount,
        currency=price.money.currency,
        region=price.region,
        date=price.date,
        source=price.source,
    )


def hourly_of(
    tags: RunPrices, requests: Iterable[EndpointRequest], flavors: Mapping[str, str | None]
) -> Cost | None:
    """Return the highest hourly cost of all VMs, by the flavors as achieved.

    None where it is unknown.
    """
    vms = [request for request in requests if request.kind is EndpointKind.VM]
    return total(tags.max_price(request, flavors.get(request.name)) for request in vms)


def total(prices: Iterable[Cost | None]) -> Cost | None:
    """Return the sum; None if it is empty, one is unknown, or currencies differ."""
    known = list(prices)
    if not known or None in known:
        return None
    sums = [price for price in known if price is not None]
    if len({price.currency for price in sums}) > 1:
        return None
    return Cost(amount=sum(price.amount for price in sums), currency=sums[0].currency)


@dataclass(frozen=True)
class PlannedCost:
    """Planned cost of VMs. ``per_hour`` is the total, None where it is unknown.

    ``unknown`` names flavors without a price, and ``cure`` is what to do about a budget then. With
    spare capacity it is only the most that it can be: ``on_demand`` is false. ``since`` is the day
    of the oldest price.
    """

    vms: int
    hours: float
    per_hour: Cost | None
    unknown: tuple[str, ...]
    on_demand: bool
    cure: str = ""
    since: date | None = None

    @property
    def money(self) -> Money | None:
        """The planned cost."""
        if self.per_hour is None:
            return None
        return Money(self.per_hour.amount * self.hours, self.per_hour.currency)


def planned_cost(
    scenario: Scenario, requests: Sequence[EndpointRequest], seconds: float
) -> PlannedCost:
    """Return the planned cost of VMs for a time in seconds. Raises InputError."""
    tags = RunPrices(scenario)
    vms = [request for request in requests if request.kind is EndpointKind.VM]
    prices = {request: tags.list_price(request) for request in vms}
    without = [request for request, price in prices.items() if price is None]
    unknown = tuple(dict.fromkeys(tags.label(request) for request in without))
    per_hour = total(hourly(price) if price else None for price in prices.values())
    hours, cure = seconds / _HOUR_S, _cure(tags, without)
    since = min((price.date for price in prices.values() if price), default=None)
    return PlannedCost(len(vms), hours, per_hour, unknown, tags.on_demand, cure, since)


def _cure(tags: RunPrices, requests: Sequence[EndpointRequest]) -> str:
    """Return the cure for a budget with unknown prices."""
    if not all(tags.by_flavor(request) for request in requests):
        return "remove budget: hardware of one's own, and Tier 1, have no price by the flavor"
    named = [request for request in requests if tags.flavor(request) is not None]
    ways = ["name the flavor"] if len(named) < len(requests) else []
    ways += ["write the price under prices"] if named else []
    ways += [f"fetch it with `{command}`" for command in _fetching(tags, named)]
    return ", ".join([*ways, "or remove budget"])


def _fetching(tags: RunPrices, requests: Iterable[EndpointRequest]) -> Iterator[str]:
    """Yield the commands that fetch missing prices, one for each region of a cloud."""
    flavors: dict[tuple[str, str | None], dict[str, None]] = {}
    for request in requests:
        found = tags.price_query(request)
        if found is not None:
            flavors.setdefault(found[:2], {})[found[2]] = None
    for (kind, region), names in flavors.items():
        where = ["--region", region] if region else []
        words = [*where, *(word for name in names for word in ("--flavor", name))]
        yield shlex.join(["osmef", "prices", "update", kind, *words])


def cost_of(plan: Plan) -> PlannedCost:
    """Return the planned cost of a whole run. Raises InputError."""
    return planned_cost(plan.study.scenario, plan.endpoints, plan.estimate_s)


def has_price_list(scenario: Scenario) -> bool:
    """Return whether VMs of any of its clouds have list prices; those on one's own machines not."""
    return any(cloud.priced_region(None) for cloud in scenario.clouds.values())


def check_budget(plan: Plan, cost: PlannedCost, before: Spent | None = None) -> None:
    """Raise InputError where the planned cost exceeds the budget, or is unknown."""
    scenario = plan.study.scenario
    if scenario.budget is None or not cost.vms:
        return
    budget = parse_money(scenario.budget)
    problem = _over(budget, cost, before.money(budget.currency) if before else 0.0)
    if problem is not None:
        raise InputError.from_problems([plan.study.cells[0].problem("budget", *problem)])


def _over(budget: Money, cost: PlannedCost, before: float | None) -> tuple[str, str] | None:
    """Return the problem of a budget, and the cure."""
    if cost.unknown:
        what = ", ".join(cost.unknown)
        return f"the budget can't be kept: there is no price for {what}", cost.cure
    if before is None:
        cure = "remove budget, or measure the rest in a run of its own"
        return "the budget can't be kept: the cost of the run so far is not known", cure
    if cost.money is None or cost.money.currency != budget.currency:
        cure = "write the budget in the currency of the prices: currencies are never converted"
        return f"the budget is in {budget.currency}, and not all prices are", cure
    if before + cost.money.amount <= budget.amount:
        return None
    costs = Money(cost.money.amount, budget.currency)
    spent = f" after {Money(before, budget.currency)} so far" if before else ""
    message = f"the run would cost about {costs}{spent}, and its budget is {budget}"
    return message, "measure less or shorter, use smaller VMs, or raise the budget"


def affordable_s(scenario: Scenario, cost: PlannedCost, before: Spent) -> float | None:
    """Return how many seconds of all VMs the budget pays; None without a budget."""
    if scenario.budget is None or cost.per_hour is None:
        return None
    budget = parse_money(scenario.budget)
    gone = before.money(budget.currency)
    left = 0.0 if gone is None else max(0.0, budget.amount - gone)
    return left / cost.per_hour.amount * _HOUR_S


@dataclass(frozen=True)
class Spent:
    """Cost of a run so far by its journal, and its upper bound."""

    vm_hours: float
    parts: tuple[Cost | None, ...]
    most: tuple[Cost | None, ...]

    @property
    def cost(self) -> Cost | None:
        """The cost so far; None where a price is unknown, or currencies differ."""
        return total(self.parts)

    def money(self, currency: str) -> float | None:
        """Return the upper bound in this currency; None where it is unknown."""
        if not self.most:
            return 0.0
        whole = total(self.most)
        return whole.amount if whole and whole.currency == currency else None


def note_provision(
    journal: Journal, tags: RunPrices, requests: Iterable[EndpointRequest], deadline: float
) -> None:
    """Record in the journal that VMs begin to cost: prices as far as known, and the latest end."""
    vms = [request for request in requests if request.kind is EndpointKind.VM]
    prices = {request.name: tags.expected_price(request, None) for request in vms}
    most = {request.name: tags.max_price(request, None) for request in vms}
    journal.note(Provisioning(prices, most, deadline))


def spent(history: History) -> Spent:
    """Return the cost of a run: each VM in each of the journal's periods.

    With a damaged line in the journal that is not known.
    """
    hours = 0.0
    parts: list[Cost | None] = []
    most: list[Cost | None] = []
    if history.damage():  # an unknown currency
        parts, most = [None], [None]
    for period in history.cost_periods:
        length = max(0.0, (period.end - period.begin).total_seconds()) / _HOUR_S
        hours += length * len(period.prices)
        parts += [_for(length, price) for price in period.prices.values()]
        most += [_for(length, price) for price in period.most.values()]
    return Spent(hours, tuple(parts), tuple(most))


def _for(hours: float, price: HourlyPrice | None) -> Cost | None:
    return price and Cost(amount=price.amount * hours, currency=price.currency)
