"""Which trials figures are drawn of."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from osmef.errors import InputError
from osmef.report.data import Data, read_machines, read_table
from osmef.results.summary import CellInfo, Summary
from tests.report.pingpong_run import request, write_run

SAMPLE = Path(__file__).parents[1] / "results" / "data" / "quickstart-20261121T031500Z-3f9a"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Make a run of four trials of two cells, whose keys have commas."""
    path = tmp_path / "run"
    shutil.copytree(SAMPLE, path)
    first, *_ = (path / "trials.jsonl").read_text().splitlines()
    lines = [
        json.dumps({**json.loads(first), "index": index, "repetition": index % 2,
                    "cell": f"connections={n},placement=any"})
        for index, n in enumerate((1, 1, 5, 5), start=1)
    ]  # fmt: skip
    (path / "trials.jsonl").write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ({"repetition": ["1"]}, [1, 3]),
        ({"trial": ["1,4"]}, [1, 4]),
        ({"trial": ["1", "4"]}, [1, 4]),
        ({"cell": ["connections=5,placement=any"]}, [3, 4]),
        ({"cell": ["connections=5,placement=any"], "repetition": ["0"]}, [4]),
    ],
)
def test_trials_are_chosen_by_any_of_the_values_of_each_column(
    run: Path, where: dict[str, list[str]], left: list[int]
) -> None:
    assert sorted(Data(run, where=where).trials["trial"]) == left


def test_trials_are_chosen_by_a_switch_as_it_is_written(run: Path) -> None:
    log = run / "trials.jsonl"
    records = [json.loads(line) for line in log.read_text().splitlines()]
    swept = [{**one, "values": {"relay": one["index"] > 2}} for one in records]
    log.write_text("".join(f"{json.dumps(one)}\n" for one in swept))
    assert Data(run, where={"relay": ["false"]}).trials["trial"].tolist() == [1, 2]


def test_trials_are_chosen_by_a_number_that_others_lack(run: Path) -> None:
    log = run / "trials.jsonl"
    records = [json.loads(line) for line in log.read_text().splitlines()]
    swept = [{**one, "values": {"n": one["index"]} if one["index"] > 2 else {}} for one in records]
    log.write_text("".join(f"{json.dumps(one)}\n" for one in swept))
    assert Data(run, where={"n": ["4"]}).trials["trial"].tolist() == [4]


def test_rows_of_other_trials_of_a_cell_are_left_out(
    make_cell: Callable[..., CellInfo], make_summary: Callable[..., Summary], tmp_path: Path
) -> None:
    cell = make_cell(workload="pingpong", key="all", metrics={})
    path = write_run(tmp_path, make_summary(cell, cell), [[request(10, 1.0)], [request(20, 1.0)]])
    assert sorted(Data(path).requests["size"]) == [10, 20]
    kept = Data(path, where={"trial": ["1"]}).requests
    assert (kept["size"].tolist(), kept["cell"].tolist()) == ([20], ["all"])


def test_limiting_factors_are_shown_for_whole_cells_only(run: Path) -> None:
    key = "connections=5,placement=any"
    assert Data(run, where={"cell": [key]}).limits.empty  # the summary is that of other cells
    with pytest.raises(InputError, match="for whole cells"):
        _ = Data(run, where={"trial": ["3"]}).limits


@pytest.mark.parametrize("value", ["free", "$0.1", '"1,024"'])
def test_a_text_among_numbers_is_reported_with_its_line(tmp_path: Path, value: str) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(f"flavor,price_per_hour\na,1\nb,{value}\nc,\n")
    with pytest.raises(InputError, match="price_per_hour is no number") as told:
        read_table(path, ("price_per_hour",))
    assert told.value.where == f"{path}:3"


def test_a_machine_type_has_a_provider(tmp_path: Path) -> None:
    path = tmp_path / "machines.csv"
    head = "provider,flavor,threads,cpu_s,memory_mb,memory_mb_per_s"
    more = "disk_read_mb_per_s,disk_write_mb_per_s,network_mb_per_s"
    path.write_text(f"{head},{more}\naws,a,1,2,3,4,5,6,7\n,b,1,2,3,4,5,6,7\n")
    with pytest.raises(InputError, match="no provider") as told:
        read_machines(path)
    assert told.value.where == f"{path}:3"


@pytest.mark.parametrize("name", ["NA", "null", "nan", "None", "007", "1e3", "True"])
def test_a_name_is_kept_as_it_is_written(tmp_path: Path, name: str) -> None:
    path = tmp_path / "machines.csv"
    path.write_text(f"provider,flavor,threads\n{name},{name},NA\naws,b,2\n")
    table = read_machines(path)
    assert table["provider"].tolist() == [name, "aws"]
    assert table["flavor"].tolist() == [name, "b"]
    assert table["threads"].isna().tolist() == [True, False], "a number is missing as usual"


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("a,threads,threads\n1,2,3\n", "has the column threads twice", 1),
        ("a,a.1,a\n1,2,3\n", "has the column a twice", 1),
        ("flavor,threads\nm,1\nn,2,3\n", "can't read this table", None),
        ("flavor,threads\nm,1,\nn,2,\n", "can't read this table", None),
        ("flavor,threads\n\nm,1\nn,x\n", "threads is no number: 'x'", 4),
        ("\n \nflavor,threads\nm,x\n", "threads is no number: 'x'", 4),
        ("\nflavor,threads,threads\nm,1,2\n", "has the column threads twice", 2),
    ],
)
def test_a_table_with_odd_columns_is_reported(
    tmp_path: Path, text: str, message: str, line: int | None
) -> None:
    path = tmp_path / "machines.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as told:
        read_table(path, ("threads",))
    assert told.value.where == (f"{path}:{line}" if line else str(path))


def test_spaces_around_a_name_are_none_of_it(tmp_path: Path) -> None:
    path = tmp_path / "machines.csv"
    path.write_text('provider, flavor, threads\naws, "a" , 1\ngce , b, 2 \n , , \n')
    table = read_machines(path)
    assert table[["provider", "flavor"]].to_numpy().tolist() == [["aws", "a"], ["gce", "b"]]
    assert table["threads"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("content", "message", "cure"),
    [
        (b"provider,flavor,threads\n", "has no measurements", "add a row"),
        (b"provider,flavor,threads\na,\xff,1\n", "can't read this table", "save it in UTF-8"),
        (b"", "can't read this table", "a line of column names"),
        (b"\n\n", "can't read this table", "a line of column names"),
    ],
)
def test_a_table_without_rows_or_in_another_encoding_is_reported(
    tmp_path: Path, content: bytes, message: str, cure: str
) -> None:
    path = tmp_path / "machines.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as told:
        read_machines(path)
    assert cure in str(told.value.cure)


def test_blank_lines_and_a_byte_order_mark_are_no_data(tmp_path: Path) -> None:
    path = tmp_path / "machines.csv"
    for text in (b"\xef\xbb\xbfflavor,threads\n\nm,1\n\n", b"\n  \r\nflavor,threads\nm,1\n"):
        path.write_bytes(text)
        assert read_table(path, ("threads",)).to_dict("records") == [{"flavor": "m", "threads": 1}]


@pytest.mark.parametrize("text", ["-nan", "-NaN", "n/a", "<NA>", "#NA", "nan", "null"])
def test_what_programs_write_for_a_missing_number_is_missing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "machines.csv"
    path.write_text(f"flavor,threads\nm,{text}\nn,2\n")
    assert read_table(path, ("threads",))["threads"].isna().tolist() == [True, False]
