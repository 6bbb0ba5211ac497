"""Files of lines as a kill, a disk or somebody else has left them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import StorageError
from osmef.results.files import FileLine, read_lines, read_whole


@given(st.binary(max_size=40), st.integers(1, 12))
def test_lines_are_those_of_the_file_but_for_long_ones(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, longest: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "file"
    path.write_bytes(data)
    *whole, rest = data.split(b"\n")
    expected = [(text, True) for text in whole] + ([(rest, False)] if rest else [])
    assert list(read_lines(path, longest)) == [
        FileLine(number, text if len(text) <= longest else None, is_whole)
        for number, (text, is_whole) in enumerate(expected, start=1)
    ]


def test_no_file_has_no_lines(tmp_path: Path) -> None:
    assert list(read_lines(tmp_path / "nothing")) == []
    with pytest.raises(StorageError):
        read_whole(tmp_path / "nothing")


@pytest.mark.parametrize("what", ["pipe", "directory", "device"])
def test_a_path_that_is_no_regular_file_does_not_block(tmp_path: Path, what: str) -> None:
    path = tmp_path / what
    if what == "pipe":
        os.mkfifo(path)
    elif what == "directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    for read in (lambda: list(read_lines(path)), lambda: read_whole(path)):
        with pytest.raises(StorageError, match=r"a named pipe|a directory|a device"):
            read()
