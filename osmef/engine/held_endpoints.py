"""Endpoints that are kept for several runs, with a run directory of their own.

Its journal is the ledger of all resources, so that a reaper can destroy them; the keys are in the
memory of the process that holds them, and go with it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from osmef.engine.cancellation import CancellationToken
from osmef.engine.check import check_provider
from osmef.engine.cost import RunPrices, hourly_of, note_provision
from osmef.engine.events import Ended, Event, Observer, Released, Started
from osmef.engine.journal import Journal, this_controller
from osmef.engine.placement import ProvisionedEndpoints, provision
from osmef.engine.plan import Plan, directories
from osmef.engine.recovery import moved_from
from osmef.engine.station import loss_of
from osmef.errors import (
    CapacityError,
    InputError,
    Interrupted,
    NotFoundError,
    OsmefError,
    ProviderError,
)
from osmef.providers.base import Endpoint, RunContext
from osmef.providers.parallel import map_concurrently
from osmef.providers.sites import sites_of
from osmef.remote.login import KeyPair
from osmef.remote.session import wait_for_ssh
from osmef.results.rundir import RunDirectory, new_path
from osmef.results.summary import Cost
from osmef.scenario.fields import tries_of
from osmef.scenario.location import Gone, Location, has_moved
from osmef.units import counted

PREFIX = "kept-"
"""Of the names of the directories of those who hold endpoints."""


@dataclass
class User:
    """Current user of the endpoints: observer of their events, and cancellation."""

    stop: CancellationToken
    observer: Observer


@dataclass
class HeldEndpoints:
    """Endpoints of a plan that are kept until ``close``.

    ``since`` is when their creation began, in UTC. One run at a time uses them. For ``reach_s``
    seconds they are asked whether they still answer.
    """

    plan: Plan
    directory: RunDirectory
    deadline: float
    user: User
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    reach_s: float = 20.0

    @classmethod
    def begin(cls, plan: Plan, out: Path, deadline: float, user: User) -> HeldEndpoints:
        """Return an instance in a new run directory under ``out``, without any resource yet.

        ``deadline`` is the UNIX time after which they are not needed. Raises StorageError.
        """
        path = new_path(out, PREFIX + plan.study.scenario.name)
        study = plan.study
        return cls(
            plan, RunDirectory.create_at(path, study.text, study.path.suffix), deadline, user
        )

    def __post_init__(self) -> None:
        self.sites = sites_of(self.plan.study.scenario)
        self.provisioned = ProvisionedEndpoints({}, {})
        self._journal = Journal(self.directory.journal)
        self._tags = RunPrices(self.plan.study.scenario)

    @property
    def id(self) -> str:
        """The name of its run directory, which is the mark of its resources."""
        return self.directory.id

    @property
    def per_hour(self) -> Cost | None:
        """The highest hourly cost of its VMs; None where it is unknown."""
        made = self.provisioned.endpoints
        flavors = {
            one.name: made[one.name].flavor for one in self.plan.endpoints if one.name in made
        }
        return hourly_of(self._tags, self.plan.endpoints, flavors)

    def note(self, event: Event) -> None:
        """Append an event of its users to the journal. Raises StorageError."""
        self._journal.note(event)

    def make(self) -> None:
        """Create the endpoints. Raises ProviderError, StorageError, Interrupted.

        Whatever exists after an error is destroyed by ``close``.
        """
        plan = self.plan
        check_provider(plan, self.user.stop.check)
        self.note(Started(seed=plan.seed, controller=this_controller(self.directory)))
        context = RunContext(
            run=self.id,
            requests=plan.endpoints,
            key=KeyPair.generate(f"osmef-{self.id}"),
            ledger=self._journal,
            deadline=self.deadline,
            progress=self._step,
            check=self._check,
            keep=self.directory.keep,
            planned=plan.endpoints,
            scratch=directories(plan.cells),
        )
        note_provision(self._journal, self._tags, plan.endpoints, self.deadline)
        self._step(f"provisioning {counted(len(plan.endpoints), 'endpoint')}, to be kept")
        tries = tries_of(plan.study.scenario.on_mismatch)
        self.provisioned = provision(self.sites, context, plan.cells, tries, self.note)

    def _step(self, line: str) -> None:
        self.user.observer.activity(line)

    def _check(self) -> None:
        self.user.stop.check()

    def verify(self, plan: Plan) -> None:
        """Check that the endpoints serve a plan: each is reachable, and its location is as planned.

        Raises OsmefError with the reason where they do not. What can't be read counts as unmoved.
        """
        if not self.provisioned.endpoints:
            raise ProviderError("their creation failed, and so did their cleanup")
        if plan.study.digest != self.plan.study.digest:
            raise InputError("what is to be measured has changed")
        self._step(f"checking {counted(len(self.provisioned.endpoints), 'endpoint')}")
        ends = list(self.provisioned.endpoints.values())
        try:
            locations = self.sites.describe(ends)
        except (NotFoundError, CapacityError, Interrupted):
            raise
        except OsmefError as error:  # of the cloud's, and nothing that the endpoints have done
            reported = f"the endpoints' present placement can't be read: {error.message}"
            self.user.observer.warning(reported)
            locations = [self.provisioned.locations[end.name] for end in ends]
        for end, location in zip(ends, locations, strict=True):
            if isinstance(location, Gone):
                raise loss_of(end.name)
            self._note_place(end.name, location)
        map_concurrently(self._reach, ends)

    def _note_place(self, name: str, location: Location) -> None:
        before = self.provisioned.locations[name]
        if has_moved(before, location):
            how = f"{moved_from(before, location)}, while it was kept"
            self.user.observer.warning(f"the cloud has moved {name}, {how}")
            self.provisioned.earlier.setdefault(name, []).append(before)
        self.provisioned.locations[name] = location

    def _reach(self, end: Endpoint) -> None:
        deadline = time.monotonic() + self.reach_s
        wait_for_ssh(end.login, deadline=deadline, check=self._check).close()

    def select(self, names: Sequence[str]) -> ProvisionedEndpoints:
        """Return the endpoints of these names."""
        provisioned = self.provisioned
        return replace(
            provisioned,
            endpoints={name: provisioned.endpoints[name] for name in names},
            locations={name: provisioned.locations[name] for name in names},
        )

    def close(self) -> None:
        """Destroy all endpoints; may be called again after a failure. Raises OsmefError.

        Connections to a cloud may be as old as the endpoints: where it fails over them, it is tried
        over new ones.
        """
        try:
            self._step("tearing down the kept endpoints")
        finally:
            self._destroy()
        if self._journal.unnoted is not None:
            raise self._journal.unnoted
        self.note(Released())
        self.note(Ended())
        self.directory.close()

    def _destroy(self) -> None:
        try:
            self.sites.close()
        except OsmefError:
            from osmef.engine.reap import destroy, leftovers  # noqa: PLC0415 - slow to load

            for left in destroy(leftovers(self.directory)):
                raise left.error from None
