"""Published results computed anew, line by line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from osmef.cli import console
from osmef.errors import InputError
from osmef.importers.published import Agreement, PublishedValue, check_folder
from tests.invoked import invoke
from tests.published import published


@pytest.fixture(scope="module")
def lines() -> list[PublishedValue]:
    return check_folder(published("deval-2017/sessions.csv").parents[1])


def test_every_published_value_is_the_same_or_known_to_be_wrong(
    lines: list[PublishedValue],
) -> None:
    counts = Counter(line.agreement for line in lines)
    assert counts == {Agreement.SAME: 125, Agreement.WRONG_THERE: 5}
    assert {line.source for line in lines if line.agreement is Agreement.WRONG_THERE} == {
        "Deval 2017, table 11",
        "Deval 2017, appendix D",
        "Venzano and Michiardi 2013",
    }


def test_token_buckets_are_within_3_percent_and_where_there_is_none_there_is_none(
    lines: list[PublishedValue],
) -> None:
    found = [line for line in lines if line.source == "Uta et al., NSDI 2020"]
    assert len(found) == 2 * 19 + 1
    for line in found:
        assert line.ours == (
            None if line.published is None else pytest.approx(line.published, 0.03)
        )


HEAD = "table,instance_class,metric,unit,platform,session,value,published_cov_percent\n"


def sessions(folder: Path, printed: str) -> Path:
    file = folder / "deval-2017" / "sessions.csv"
    file.parent.mkdir(parents=True)
    rows = (f"9,general,x,score,A,{n},{value},{printed}\n" for n, value in enumerate((8, 10, 12)))
    file.write_text(HEAD + "".join(rows))
    return folder


@pytest.mark.parametrize(
    ("printed", "expected"), [("20", Agreement.SAME), ("21", Agreement.DIFFERENT)]
)
def test_a_value_is_the_same_or_differs(tmp_path: Path, printed: str, expected: Agreement) -> None:
    (line,) = check_folder(sessions(tmp_path, printed))
    assert line.ours == pytest.approx(20)
    assert line.agreement is expected


def test_the_table_fits_the_terminal_and_the_exit_code_shows_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.out, "_width", 40)
    words = ["verify-methods", str(sessions(tmp_path, "21"))]
    done = invoke(*words)
    assert done.exit_code == 1
    lines = done.output.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.split()[:2] == ["published", "ours"])
    head, rule, *what, row, _, one, other, count = lines[begin:]
    left_out = [one, other]
    assert not rule.strip("─ ")
    assert max(map(len, (head, rule, *what, row, *left_out))) <= 40
    assert "CoV of general, x, A, %" in " ".join(what)
    assert row.split() == ["21", "20", "-4.76", "different"]
    assert " ".join(left_out) == "Left out, as 40 columns have no room: may be apart."
    assert count == "1 published value: 1 different"


def test_a_known_error_of_the_source_is_reported_with_its_reason() -> None:
    line = PublishedValue("a paper", "a number", 40.0, 31.0, 1.0, "it was cut")
    assert line.agreement is Agreement.WRONG_THERE
    assert line.deviation_percent == pytest.approx(-22.5)
    assert (
        PublishedValue("a paper", "a number", 40.0, 40.5, 1.0, "it was cut").agreement
        is Agreement.SAME
    )
    assert PublishedValue("a paper", "nothing", None, None, 0).agreement is Agreement.SAME
    assert PublishedValue("a paper", "nothing", None, 3.0, 0).agreement is Agreement.DIFFERENT


def test_a_folder_without_data_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no published data that is known"):
        check_folder(tmp_path)


@pytest.mark.parametrize("name", ["prices.csv", "pvalues.csv"])
def test_a_file_without_rows_is_named_in_the_error(tmp_path: Path, name: str) -> None:
    file = sessions(tmp_path, "20") / "deval-2017" / "sessions.csv"
    file.write_text("garbage\n")
    (file.parent / name).write_text("instance_class,platform\ngeneral,A\n")
    with pytest.raises(InputError, match="has no rows") as raised:
        check_folder(tmp_path)
    assert raised.value.where == str(file)


def test_one_value_that_is_printed_as_two_is_an_error(tmp_path: Path) -> None:
    file = sessions(tmp_path, "20") / "deval-2017" / "sessions.csv"
    file.write_text(file.read_text().replace(",20\n", ",21\n", 1))
    with pytest.raises(InputError, match="printed once, and here as 21 and 20"):
        check_folder(tmp_path)


def test_a_file_that_is_another_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "deval-2017").mkdir()
    (tmp_path / "deval-2017" / "sessions.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="not what was published"):
        check_folder(tmp_path)


@pytest.mark.parametrize("text", ["nan", "inf"])
def test_a_value_that_is_no_number_is_an_error(tmp_path: Path, text: str) -> None:
    file = sessions(tmp_path, "20") / "deval-2017" / "sessions.csv"
    file.write_text(file.read_text().replace(",8,20\n", f",{text},20\n"))
    with pytest.raises(InputError, match=f"not what was published: ValueError: '{text}' is no"):
        check_folder(tmp_path)
