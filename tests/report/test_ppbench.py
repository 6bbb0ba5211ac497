"""The CSV file of ppbench, as the command writes it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.report.ppbench import write_ppbench
from osmef.results.frame import load_requests
from osmef.results.observations import Request
from osmef.results.rundir import RunDirectory
from osmef.results.summary import CellInfo, Summary
from osmef.results.tables import as_table
from tests.invoked import invoke
from tests.report.pingpong_run import BACKGROUND, request, write_run

MakeCell = Callable[..., CellInfo]
MakeSummary = Callable[..., Summary]

HEAD = (
    "Machine Tag,Experiment Tag,Document Path,Failed requests,Concurrency Level,Total transferred,"
    "Time per request,Transfer rate,Requests per second,Retries,Response Code"
)
FAILED = {"duration_s": None, "relay_s": None, "code": None, "length": None, "retries": None}


def of_two_cells(make_cell: MakeCell, make_summary: MakeSummary) -> Summary:
    cells = [
        make_cell(workload="pingpong", connections=count, key=f"c={count}") for count in (1, 4)
    ]
    summary: Summary = make_summary(*cells)
    flavored = summary.endpoints[0].model_copy(update={"flavor": "m3.large"})
    return summary.model_copy(update={"endpoints": [flavored, summary.endpoints[1]]})


def export(*arguments: str) -> tuple[int, str, str]:
    done = invoke("export", *arguments)
    return done.exit_code, done.stdout, done.stderr


def test_each_size_of_each_cell_is_a_row(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    run = write_run(
        tmp_path,
        of_two_cells(make_cell, make_summary),
        [
            [
                request(5000, 1.0, retries=3), request(5000, 3.0), request(20, 0.5),
                request(7, 9.0, purpose=BACKGROUND),
            ],
            [
                request(20, 0.25), request(20, 9.0, code=503, length=0, retries=10, error="status"),
                request(30, 1.0, **FAILED, error="timeout"),
            ],
        ],
    )  # fmt: skip
    wanted = [
        HEAD,
        "m3.large,c=1,/mping/20,0,1,20,0.5,40000,2000,0,200",
        "m3.large,c=1,/mping/5000,0,1,5000,2,2500000,500,3,200",
        "m3.large,c=4,/mping/20,1,4,20,0.25,80000,4000,10,503",
        "m3.large,c=4,/mping/30,1,4,,,,,0,",
    ]
    code, out, _ = export("ppbench", str(run))
    assert (code, out.splitlines()) == (0, wanted)
    file = tmp_path / "pingpong.csv"
    code, out, err = export("ppbench", str(run), "-o", str(file))
    assert (code, out) == (0, "")
    assert "4 rows" in err
    assert file.read_text().splitlines() == wanted


def test_without_ping_the_path_is_pong_s_and_the_machine_its_name(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    cell = make_cell(workload="pingpong", key="a=1,b=2")
    rows = [request(20, 0.5, relay_s=None, retries=None)]
    code, out, _ = export("ppbench", str(write_run(tmp_path, make_summary(cell), [rows])))
    assert code == 0
    (row,) = csv.DictReader(io.StringIO(out))
    assert (row["Machine Tag"], row["Experiment Tag"]) == ("vm-1", "a=1;b=2")
    assert (row["Document Path"], row["Time per request"]) == ("/pong/20", "1")
    assert row["Retries"] == "0"


def test_what_can_t_be_exported_is_told(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    run = RunDirectory.create(tmp_path, "btc", "name: btc\n", ".yaml")
    with run:
        code, _, err = export("ppbench", str(run.path))
        assert (code, "no summary yet" in err) == (2, True)
        run.write_summary(make_summary(make_cell()))
    code, _, err = export("ppbench", str(run.path))
    assert code == 2
    assert "no trials yet" in err
    run.trials.touch()
    code, _, err = export("ppbench", str(run.path))
    assert "made no requests" in err
    assert "workload: pingpong" in err
    whole = write_run(tmp_path, make_summary(make_cell(workload="pingpong")), [[request(1, 1.0)]])
    code, _, err = export("ppbench", str(whole), "-o", str(tmp_path / "none" / "deep" / "x.csv"))
    assert code == 4
    assert "can't write" in err
    assert not (tmp_path / "none").exists()


@given(rows=st.lists(st.tuples(st.integers(1, 3), st.floats(0.001, 1e4)), min_size=1, max_size=20))
def test_the_numbers_are_ppbench_s(
    make_cell: MakeCell, make_summary: MakeSummary, rows: Sequence[tuple[int, float]]
) -> None:
    cell = make_cell(workload="pingpong", key="all")
    requests: list[Request] = [request(1000 * size, ms) for size, ms in rows]
    frame = as_table("requests", requests).to_pandas().assign(cell="all")
    text = io.StringIO()
    count = write_ppbench(text, make_summary(cell), frame)
    text.seek(0)
    found = {row["Document Path"]: row for row in csv.DictReader(text)}
    assert count == len(found) == len({size for size, _ in rows})
    for size in {size for size, _ in rows}:
        times = [ms for one, ms in rows if one == size]
        row = found[f"/mping/{1000 * size}"]
        mean = sum(times) / len(times)
        assert float(row["Time per request"]) == pytest.approx(mean)
        assert float(row["Requests per second"]) == pytest.approx(1000 / mean)
        rate = 1000 * size * len(times) * 1000 / sum(times)
        assert float(row["Transfer rate"]) == pytest.approx(rate)
        assert float(row["Total transferred"]) == 1000 * size


def test_a_damaged_file_is_told(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    run = write_run(tmp_path, make_summary(make_cell(workload="pingpong")), [[request(1, 1.0)]])
    (run / "requests.parquet").write_bytes(b"PAR1 and nothing more")
    code, _, err = export("ppbench", str(run))
    assert code == 2
    assert "no whole Parquet file" in err


def test_requests_know_their_cell(
    make_cell: MakeCell, make_summary: MakeSummary, tmp_path: Path
) -> None:
    summary = of_two_cells(make_cell, make_summary)
    run = write_run(tmp_path, summary, [[request(1, 1.0)], [request(2, 1.0), request(3, 1.0)]])
    frame = load_requests(run)
    assert frame.groupby("cell")["size"].apply(list).to_dict() == {"c=1": [1], "c=4": [2, 3]}
