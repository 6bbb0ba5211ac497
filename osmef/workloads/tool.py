"""A program of the field as a workload: one class that says what runs, and reads what it prints."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeVar

from osmef.errors import OutputError, ProgramError
from osmef.results.measure import Measure
from osmef.supply.program import Program
from osmef.workloads.programs import USED, Ended, Programs, ProgramsSettings, together

T = TypeVar("T", bound=ProgramsSettings)


class Tool(Programs[T]):
    """A workload that one program measures.

    A subclass has ``Settings``, ``told``, ``runs()`` and ``parse()``. ``programs`` are those that
    have to be on the endpoints; one that is not there is brought, if it can be.
    """

    programs: tuple[Program, ...] = ()
    told: tuple[Measure, ...] = ()
    """What the program measures; the numbers of several pairs go together as these say."""
    stoppable = False  # it runs for the duration, and most programs tell nothing before their end

    teller = -1  # which of a pair's programs prints the numbers

    def __init__(self, settings: T, *, background: bool = False) -> None:
        super().__init__(settings, background=background)
        self.measures = (*self.tells(), *USED)

    def tells(self) -> Sequence[Measure]:
        """Return those of ``told`` that a run with these settings gives: by default all."""
        return self.told

    @abstractmethod
    def parse(self, ended: Sequence[Ended]) -> Mapping[str, float | None]:
        """Return the numbers of one pair, by the names of ``tells``, from what programs printed.

        What the receiver saw counts where a program tells both. Raises OutputError.
        """

    def numbers(self, pairs: Sequence[Sequence[Ended]]) -> Mapping[str, float | None]:
        """Parse what was printed between each pair, and put the numbers together."""
        found = [self._of_pair(pair) for pair in pairs]
        return {
            one.name: together(one.over_pairs, one.better, [pair[one.name] for pair in found])
            for one in self.tells()
        }

    def _of_pair(self, pair: Sequence[Ended]) -> Mapping[str, float | None]:
        """Parse what was printed between one pair.

        All numbers are None where a program was stopped, as one of a background is, before it told
        them. Raises OutputError, and ProgramError where ``parse()`` tells others than ``told``.
        """
        names = [one.name for one in self.tells()]
        last = pair[self.teller]
        try:
            found = self.parse(pair)
        except OutputError as error:
            if any(one.result.stopped for one in pair if not one.run.ready):
                return dict.fromkeys(names)
            error.where = error.where or last.endpoint
            error.tail = error.tail or last.printed.tail
            raise
        odd = sorted({*names} - found.keys() | found.keys() - {one.name for one in self.told})
        if odd:
            raise ProgramError(
                f"parse() and told of {type(self).__name__} differ by {', '.join(odd)}",
                where=last.endpoint,
                cure="name the same numbers in both",
            )
        return found
