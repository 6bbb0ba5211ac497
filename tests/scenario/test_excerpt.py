"""The line of the file under a problem, with a mark at its place, unless it may hold a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmef.campaigns.schedule.load import read_campaign
from osmef.cli.main import make_app
from osmef.errors import InputError
from osmef.scenario.load import load
from osmef.scenario.node import SourceText

SECRET = "hunter2"  # noqa: S105 - it is none


def _excerpt(text: str, at: str) -> str:
    return SourceText("a.yaml", text).problem(text.index(at), "it is wrong", "fix it").excerpt


@pytest.mark.parametrize(
    ("text", "at", "excerpt"),
    [
        ("a: 1\nb: {c: 2}\n", "2", "b: {c: 2}\n       ^"),
        ("  a: x\n", "x", "  a: x\n     ^"),
        ("a:\tx\r\n", "x", "a: x\n   ^"),
        ("名: x\n", "x", "名: x\n    ^"),
        ("e\u0301: x\n", "x", "e\u0301: x\n   ^"),
        ("a: \x1b[31mx\n", "x", "a:  [31mx\n        ^"),
    ],
)
def test_the_mark_stands_below_the_place(text: str, at: str, excerpt: str) -> None:
    assert _excerpt(text, at) == excerpt


def test_a_long_line_is_cut_around_the_place() -> None:
    line, mark = _excerpt(f"a: {'b' * 300}X{'c' * 300}\n", "X").splitlines()
    assert len(line) < 120
    assert line[mark.index("^")] == "X"
    assert line.startswith("…")
    assert line.endswith("…")


def test_an_empty_line_is_not_shown() -> None:
    assert _excerpt("", "") == ""


@pytest.mark.parametrize(
    "text",
    [
        f"password: {SECRET}\n",
        f"{{user: me, api_token: {SECRET}}}\n",
        f"password:\n  {SECRET}\n",
        f"password:\n\n{SECRET}\n",
        f"password:\n- other\n- {SECRET}\n",
        f"notify:\n  command:\n  - curl\n  - {SECRET}\n",
        f'{{"secret":\n    ["a",\n     "{SECRET}"]}}\n',
        f"url: https://me:{SECRET}@cloud.example\n",
        f"private_key: |\n  -----BEGIN OPENSSH PRIVATE KEY-----\n  a\n  {SECRET}\n",
    ],
)
def test_possible_secrets_are_not_shown(text: str) -> None:
    assert _excerpt(text, SECRET) == ""


def test_the_lines_after_a_secret_are_shown() -> None:
    assert (
        _excerpt("password:\n  hidden\nname: x\nduration: 5\n", "5") == "duration: 5\n          ^"
    )


def test_a_campaigns_webhook_is_never_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(f"name: c\nscenarios: [x.yaml]\nnotify: {{webhook: 'ftp://{SECRET}'}}\n")
    with pytest.raises(InputError):
        read_campaign(file)
    with pytest.raises(SystemExit):
        make_app(["campaign"])(["campaign", "plan", str(file)])
    assert SECRET not in "".join(capsys.readouterr())


def test_the_first_problems_are_shown_in_their_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("name: a\nrepeat: x\n" + "".join(f"wrong-{n}: 1\n" for n in range(9)))
    with pytest.raises(SystemExit):
        make_app(["validate"])(["validate", str(file)])
    lines = capsys.readouterr().err.splitlines()
    place = lines.index("    repeat: x")
    assert lines[place + 1] == "            ^"
    assert lines[place - 1].startswith(f"{file}:2:9: ")
    assert lines[place + 2].startswith("  cure: ")
    assert sum("^" in line for line in lines) == 5


def test_the_message_of_the_error_has_no_lines_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("name: a\nrepeat: x\n")
    with pytest.raises(InputError) as caught:
        load(file)
    assert len(str(caught.value).splitlines()) == 2
    with pytest.raises(InputError) as caught:
        load(tmp_path / "a.yaml", {"repeat": "y"})
    (problem,) = caught.value.problems
    assert (problem.file, problem.excerpt) == ("--set repeat", "")
