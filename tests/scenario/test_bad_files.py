"""Files that are wrong, each with the complete list of what is wrong with it.

A new case is a new file in ``bad/`` and beside it ``FILE.expected``, with a line
``line:column: message`` for each problem.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from osmef.errors import InputError
from osmef.scenario.load import load

BAD = Path(__file__).parent / "bad"
FILES = sorted(path for path in BAD.iterdir() if path.suffix != ".expected")
PYDANTIC = re.compile(
    r"Input should|validation error|pydantic|Extra inputs|Field required|dict_|ctx"
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_reports_all_problems_at_their_places(path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(path)
    found = [f"{p.line}:{p.column}: {p.message}" for p in caught.value.problems]
    assert found == Path(f"{path}.expected").read_text().splitlines()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_problem_has_file_and_cure_in_plain_words(path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(path)
    assert caught.value.exit_code == 2
    for problem in caught.value.problems:
        assert problem.file == str(path)
        assert problem.cure
        assert not PYDANTIC.search(str(problem).removeprefix(str(path)))
        assert len(problem.message) < 200


def test_no_expectation_lacks_its_file() -> None:
    expectations = {path.name for path in BAD.glob("*.expected")}
    assert expectations == {f"{path.name}.expected" for path in FILES}


@pytest.mark.parametrize("amount", ["5", "0.5"])
def test_the_cure_for_a_sum_without_currency_is_valid(tmp_path: Path, amount: str) -> None:
    file = tmp_path / "sum.yaml"
    file.write_text(f"name: t\nbudget: {amount}\n")
    with pytest.raises(InputError) as caught:
        load(file)
    (problem,) = caught.value.problems
    assert problem.cure == f"write it with its currency: {amount} USD"
    file.write_text(f"name: t\nbudget: {amount} USD\n")
    load(file)
