"""Every reader reads what its program really prints as ``data/PROGRAM/NAME.json`` says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import osmef.workloads.kinds
from osmef.errors import OutputError
from tests.formats.samples import DATA, SAMPLES, name_of, outcome, read

READERS = {
    path.stem
    for path in Path(osmef.workloads.kinds.__file__).parent.glob("*.py")
    if "\ndef read(text: str)" in path.read_text()
}


@pytest.mark.parametrize("path", SAMPLES, ids=name_of)
def test_a_sample_is_read_as_expected(path: Path) -> None:
    found = outcome(path.parent.name, path.read_text())
    expected = path.with_suffix(".json")
    if not expected.exists():
        pytest.fail(f"check this, and write it to {expected}:\n{json.dumps(found, indent=1)}")
    assert found == json.loads(expected.read_text())


def test_every_reader_has_samples_and_every_sample_a_reader() -> None:
    assert {path.name for path in DATA.iterdir()} == READERS
    texts, expected = (
        {path.with_suffix("") for path in DATA.glob(f"*/*.{end}")} for end in ("txt", "json")
    )
    assert texts == expected


@pytest.mark.parametrize("program", sorted(READERS))
def test_two_runs_are_not_taken_for_one(program: str) -> None:
    for path in (DATA / program).glob("*.txt"):
        text = path.read_text()
        if program != "netpipe":  # a sweep over the sizes that are there, however often
            with pytest.raises(OutputError):
                read(program, f"{text}\n{text}")


@pytest.mark.parametrize("program", sorted(READERS))
@pytest.mark.parametrize("text", ["", "\n", "0\n" * 3, "Segmentation fault (core dumped)\n"])
def test_unparsable_output_is_an_error_that_shows_it(program: str, text: str) -> None:
    with pytest.raises(OutputError) as caught:
        read(program, text)
    assert caught.value.message
    assert caught.value.tail == text.strip()
    assert text.strip() in str(caught.value)
