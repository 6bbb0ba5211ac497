"""A program of the field as a workload: one class that says what runs, and reads what it prints."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeVar

from osmef.errors import OutputError
from osmef.results.measure import Measure
from osmef.supply.program import Program
from osmef.workloads.programs import USED, Ended, Programs, ProgramsSettings, together

T = TypeVar("T", bound=ProgramsSettings)


class Tool(Programs[T]):
    """A workload that one program measures.

    A subclass has ``Settings``, ``told``, ``runs()`` and ``parse()``. ``programs`` are those that
    have to be on the endpoints; one that is not there is brought, if it can be.
    """

    programs: ClassVar[tuple[Program, ...]] = ()
    told: tuple[Measure, ...]
    """What the program measures; the numbers of several pairs go together as these say."""

    def __init__(self, settings: T, *, background: bool = False) -> None:
        super().__init__(settings, background=background)
        self.measures = (*self.told, *USED)

    @property
    def needs(self) -> tuple[Program, ...]:
        """The programs that have to be on the endpoints."""
        return self.programs

    @abstractmethod
    def parse(self, ended: Sequence[Ended]) -> Mapping[str, float | None]:
        """Return the numbers of one pair, by the names of ``told``, from what programs printed.

        What the receiver saw counts where a program tells both. Raises OutputError.
        """

    def numbers(self, pairs: Sequence[Sequence[Ended]]) -> Mapping[str, float | None]:
        """Parse what was printed between each pair, and put the numbers together."""
        found = [self._of_pair(pair) for pair in pairs]
        return {
            one.name: together(one.over_pairs, one.better, [pair[one.name] for pair in found])
            for one in self.told
        }

    def _of_pair(self, pair: Sequence[Ended]) -> Mapping[str, float | None]:
        try:
            return self.parse(pair)
        except OutputError as error:
            error.where = error.where or pair[-1].endpoint
            raise
