"""Options that stand elsewhere, or that other programs have: the message says what to write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from osmef.cli.main import make_app

Told = Callable[[str], str]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """Return what a line is answered with that is refused."""

    def tell(line: str) -> str:
        words = line.split()
        with pytest.raises(SystemExit) as end:
            make_app(words)(words)
        printed = capsys.readouterr()
        assert (end.value.code, printed.out) == (2, "")
        return " ".join(printed.err.replace("│", " ").split())

    return tell


@pytest.mark.parametrize(
    ("line", "cure"),
    [
        ("run a.yaml --duration 10s", "--set workload.duration=10s"),
        ("run a.yaml --duration=10", "--set workload.duration=10s"),
        ("plan a.yaml --connections 1", "--set workload.connections=1"),
        ("validate --repeat 3 a.yaml", "--set repeat=3"),
        ("run a.yaml --flavor", "--set flavor=VALUE"),
        ("run a.yaml --workload.duration 1s", "--set workload.duration=1s"),
        ("run a.yaml -t 10", "--set workload.duration=10s"),
        ("run a.yaml -P8", "--set workload.connections=8"),
        ("run a.yaml -b 1Gbit/s", "--set workload.rate=1Gbit/s"),
        ("run a.yaml -R", "--set workload.direction=reverse"),
        ("quick left right -t 10", "--duration 10s"),
        ("quick left right -P 8", "--connections 8"),
        ("quick left right --window 1MB", "osmef init"),
        ("plot similarity --machines a.csv", "osmef plot similarity FILE"),
        ("similarity --machines a.csv", "osmef similarity FILE"),
    ],
)
def test_an_unknown_option_that_is_a_setting_is_reported_with_its_right_form(
    told: Told, line: str, cure: str
) -> None:
    answer = told(line)
    assert "No such option: " in answer
    assert cure in answer


@pytest.mark.parametrize("line", ["run a.yaml --colour red", "show a --duration 10s", "run -q a"])
def test_an_unknown_option_that_no_setting_replaces_is_reported_as_usual(
    told: Told, line: str
) -> None:
    answer = told(line)
    assert "No such option: " in answer
    assert "--set" not in answer


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (
            "import iperf a.json",
            "there is no 'iperf'; did you mean 'iperf3'? choose from: osmef2013,",
        ),
        ("export prometheus a", "there is no 'prometheus'; choose from: csv, ndjson, openmetrics,"),
        ("schema it's", """there is no "it's"; choose from: scenario, summary"""),
        ("campaign run a --executor dsk", "there is no 'dsk'; did you mean 'dask'? choose from:"),
        ("compare a b --fail-on regresion", "'regresion'; did you mean 'regression'? choose from:"),
    ],
)
def test_a_word_that_is_no_choice_is_answered_with_the_nearest(
    told: Told, line: str, answer: str
) -> None:
    assert answer in told(line)
    assert "Value error" not in told(line)


def test_the_help_of_import_names_the_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        make_app(["import"])(["import", "--help"])
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "Format of the files: osmef2013, ppbench, apachebench, iperf3, nuttcp" in shown
