"""Options in percent, with and without the sign."""

from __future__ import annotations

import json

import pytest

from osmef.cli.main import make_app
from tests.cli.test_advice import SAMPLE


def _answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as end:
        make_app(words)(words)
    printed = capsys.readouterr()
    return end.value.code, printed.out, " ".join(printed.err.replace("│", " ").split())


def test_the_sign_may_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    told = [
        _answer(capsys, "statistics", SAMPLE, "--json", *option)
        for option in ((), ("--error", "5"), ("--error", "5%"), ("--error", "5 %"))
    ]
    assert all(one == told[0] for one in told)
    assert json.loads(told[0][1])["cells"]


@pytest.mark.parametrize(
    "words",
    [
        ("statistics", SAMPLE, "--error", "five"),
        ("statistics", SAMPLE, "--error", "0"),
        ("compare", SAMPLE, SAMPLE, "--margin", "-1%"),
        ("compare", SAMPLE, SAMPLE, "--margin", "nan"),
        ("plot", "pingpong-latency", SAMPLE, "--bands", "50%,x"),
    ],
)
def test_an_invalid_percentage_is_rejected(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    code, out, told = _answer(capsys, *words)
    assert (code, out) == (2, "")
    assert words[-2] in told
    assert "%" in told or "percent" in told
