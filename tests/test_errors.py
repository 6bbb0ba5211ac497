from __future__ import annotations

import errno
import inspect
import re

import pytest

from osmef import errors
from osmef.errors import InputError, OsmefError, Problem, StorageError, limit_cure

TREE = re.compile(r"(?P<indent>[ │]*)(?:[├└]── )?(?P<name>\w+) +exit (?P<code>\d)")


def all_errors() -> list[type[OsmefError]]:
    members = (value for _name, value in inspect.getmembers(errors, inspect.isclass))
    return [member for member in members if issubclass(member, OsmefError)]


def test_the_docstring_lists_the_whole_error_hierarchy() -> None:
    drawn = {m["name"]: int(m["code"]) for m in TREE.finditer(errors.__doc__ or "")}
    assert drawn == {error.__name__: error.exit_code for error in all_errors()}


def test_error_kinds_are_unique() -> None:
    kinds = [error.kind for error in all_errors()]
    assert len(kinds) == len(set(kinds))


@pytest.mark.parametrize(
    ("where", "cure", "text"),
    [
        (None, None, "disk is full"),
        ("results/", None, "results/: disk is full"),
        (None, "make room", "disk is full\n  cure: make room"),
        ("results/", "make room", "results/: disk is full\n  cure: make room"),
    ],
)
def test_an_error_message_has_location_text_and_cure(
    where: str | None, cure: str | None, text: str
) -> None:
    assert str(StorageError("disk is full", where=where, cure=cure)) == text


def test_problems_come_once_and_in_the_order_of_the_file() -> None:
    late = Problem("a.yaml", 10, 1, "late", "cure it")
    early = Problem("a.yaml", 2, 7, "early", "cure that")
    error = InputError.from_problems([late, early, late])
    assert error.problems == (early, late)
    assert str(error) == (
        "a.yaml:2:7: early\n  cure: cure that\na.yaml:10:1: late\n  cure: cure it"
    )


@pytest.mark.parametrize(
    ("error", "cure"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
        (OSError(errno.EAGAIN, "Resource temporarily unavailable"), "ulimit -u"),
        (RuntimeError("can't start new thread"), "ulimit -u"),
        (MemoryError(), "ulimit -v"),
    ],
)
def test_the_cure_of_an_exhausted_limit_names_it(error: Exception, cure: str) -> None:
    assert cure in (limit_cure(error) or "")


@pytest.mark.parametrize("error", [RuntimeError("a bug"), OSError("?"), OSError(errno.EIO, "?")])
def test_another_error_is_no_exhausted_limit(error: Exception) -> None:
    assert limit_cure(error) is None
