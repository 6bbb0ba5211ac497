"""Settings that all workloads have in common, and the field for any of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from osmef.kinds import WORKLOADS
from osmef.scenario.base import ByKind, Model, conflict
from osmef.scenario.fields import Share
from osmef.units import format_size

if TYPE_CHECKING:
    from osmef.scenario.model import Scenario


class PairsAt(StrEnum):
    """Concurrency of the pairs of a cell: measured at once, or in turn."""

    ONCE = "once"
    IN_TURN = "in turn"
    SIDE_BY_SIDE = "side by side"


class Pairs(Model):
    """Pairs of senders and receivers, in equal number, matched in order.

    They are all made before the first trial, and kept.
    """

    count: int = Field(ge=1, le=256, description="how many pairs")
    at: PairsAt = Field(
        default=PairsAt.IN_TURN,
        strict=False,
        description="`once`: a trial is all pairs, with one start; `in turn`: each pair has trials"
        " of its own, one after the other; `side by side`: the same, and those of pairs that share"
        " no host run at one time",
    )

    @property
    def trials(self) -> int:
        """How many trials a repetition of the cell has."""
        return 1 if self.at is PairsAt.ONCE else self.count

    @property
    def max_concurrent(self) -> int:
        """How many of these trials may run concurrently."""
        return self.count if self.at is PairsAt.SIDE_BY_SIDE else 1


def _count_alone(value: object) -> object:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return {"count": value} if is_count else value


AnyPairs = Annotated[Pairs, BeforeValidator(_count_alone, json_schema_input_type=int | Pairs)]
"""Pairs, or their number alone."""


MOST_TRIALS = 100_000
"""Trials that a cell can have."""

FEWEST_KNOWN = 8
"""The fewest values of an interval of the median that is valid at 95 % after each value."""


class UntilKnown(Model):
    """Trials until the interval of a cell's median is narrow enough, or there are too many."""

    until: Share = Field(
        description="how far the 95 % interval of the median may reach from its middle, as a share"
        " of the median; it is valid although it is checked after each trial"
    )
    least: int = Field(default=6, ge=1, le=MOST_TRIALS, description="good trials in any case")
    most: int = Field(
        default=30, ge=FEWEST_KNOWN, le=MOST_TRIALS, description="trials, known or not; 8 can do"
    )
    metric: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="the metric to be known so well; by default the first one of the workload",
    )

    @model_validator(mode="after")
    def _ends_after_it_began(self) -> UntilKnown:
        if self.least > self.most:
            raise conflict(
                f"least: {self.least} is more than most: {self.most}",
                "make most at least as large as least",
                *("least", "most"),
            )
        return self


def _count_or_rule(value: object) -> str:
    return _RULE if isinstance(value, dict | UntilKnown) else _COUNT


_COUNT, _RULE = "(count)", "(rule)"
REPEAT_TAGS = (_COUNT, _RULE)
"""What pydantic puts into the path of an error below ``repeat``; no key is called so."""

Repeat = Annotated[
    Annotated[int, Field(ge=1, le=MOST_TRIALS), Tag(_COUNT)] | Annotated[UntilKnown, Tag(_RULE)],
    Discriminator(_count_or_rule),
]
"""So many trials, or the rule that ends them."""


Role = Literal["sender", "receiver"]
"""The end at which an endpoint is; a loopback endpoint is at both."""


class Directions(Enum):
    """Which ways data goes, acknowledgements and messages within a frame aside."""

    ONE = "one"
    IN_TURNS = "both, one at a time"
    AT_ONCE = "both at once"

    @classmethod
    def of_messages(cls, size: int) -> Directions:
        """Return those of messages of so many bytes that go there and back."""
        return cls.IN_TURNS if size > _FRAME else cls.ONE


_FRAME = 1448
"""Payload bytes of TCP with timestamps in a frame of Ethernet (RFC 7323, RFC 894)."""


class WorkloadSettings(Model):
    """Settings of a workload. Each kind of workload has a subclass with its own keys."""

    kind: str = Field(description="the kind of workload")

    in_background: ClassVar[bool] = False
    """Whether it can run for a given time, as a background has to."""
    between_agents: ClassVar[bool] = False
    """Whether it goes from one of OSMeF's agents to another, and so not to a server."""
    together: ClassVar[bool] = False
    """Whether all endpoints run it as one, each as the sender of a pair, and not every pair for
    itself."""
    lasting: ClassVar[tuple[str, ...]] = ("duration",)
    """The keys of its length, which a background may not have."""

    takes_server: ClassVar[bool] = False
    """Whether it can be the client of an existing server, its ``server``."""

    @classmethod
    def with_server(
        cls, host: str, port: int | None, given: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the given settings with the ``server`` at an address; see ``takes_server``."""
        raise NotImplementedError

    @property
    def server_address(self) -> str | None:
        """Address and port of an existing server; None if both ends are ours."""
        return None

    @property
    def connections_per_pair(self) -> int | None:
        """Parallel connections of each pair: ``connections``; None for a workload without."""
        found: int | None = getattr(self, "connections", None)
        return found

    @property
    def changes_next_trial(self) -> bool:
        """Whether a trial changes the result of the next one, such as an emptied bucket."""
        return False

    @property
    def non_default(self) -> dict[str, Any]:
        """The non-default settings, without the kind and the paths of bundles."""
        return self.model_dump(
            mode="json", by_alias=True, exclude_defaults=True, exclude={"kind", "bundles"}
        )

    @property
    def directions(self) -> Directions:
        """The directions of its data on a path; both at once also where that is unknown."""
        return Directions.AT_ONCE

    def for_background(self, duration_s: float) -> Self:
        """Return the settings for a background of a duration in seconds."""
        return self.model_copy(update={"duration": duration_s})

    def problems(self, scenario: Scenario) -> Iterator[PydanticCustomError]:  # noqa: ARG002
        """Yield conflicts with the rest of the scenario."""
        yield from ()

    def warnings(self) -> Iterator[str]:
        """Yield warnings about settings that usual programs don't have."""
        yield from ()

    def warnings_from_facts(self, end: Role, facts: Mapping[str, Any]) -> Iterator[str]:  # noqa: ARG002
        """Yield warnings that follow from the facts of an endpoint."""
        yield from ()

    def warnings_from_metrics(self, metrics: Mapping[str, float | None]) -> Iterator[str]:  # noqa: ARG002
        """Yield warnings on contradictory metrics of a trial."""
        yield from ()


AnyWorkload = Annotated[WorkloadSettings, ByKind(WORKLOADS, "btc")]
"""Any workload's settings, distinguished by ``kind``; ``btc`` where that is not written."""

AnyBackground = Annotated[
    WorkloadSettings, ByKind(WORKLOADS, "btc", lambda model: bool(model.in_background))
]
"""Settings of a workload that runs for a given time, as a background has to."""


WORKLOAD_SETS = {"machine-vector": ("tachyon", "stream", "iozone", "iperf3")}
"""Workloads that a sweep names together: those that EasyCompare compares machine types by.

Source: Kratzke and Quint, "How to Operate Container Clusters more Efficiently?", 2015, section III.
"""

STAND_INS = {"tachyon": "sysbench"}
"""Workloads that measure the same component where the program of one of a set can't be supplied."""


class TransferDirection(StrEnum):
    """Direction of a bulk transfer's data."""

    FORWARD = "forward"
    REVERSE = "reverse"
    BOTH = "both"

    @property
    def directions(self) -> Directions:
        """Which ways data goes."""
        return Directions.AT_ONCE if self is TransferDirection.BOTH else Directions.ONE


def check_ascending(least: int, most: int) -> None:
    """Raise the conflict of a smallest message, in bytes, that is larger than the largest."""
    if least > most:
        raise conflict(
            "the smallest message is larger than the largest",
            f"give a max of at least {format_size(least)}",
            *("min", "max"),
        )


def without_background(key: str) -> PydanticCustomError:
    """Return the conflict of a key that needs a background."""
    return conflict(
        f"{key} goes with a background, and there is none",
        f"write a background, such as background: btc, or remove {key}",
        key,
    )
