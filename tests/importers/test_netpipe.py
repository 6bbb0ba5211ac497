"""What NPtcp prints of slow paths, and of broken ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmef.errors import InputError
from osmef.importers import import_files
from osmef.importers.netpipe import parse
from osmef.importers.record import Text
from tests.importers.samples import DATA


def _printed(one_way_us: float, *sizes: int, ways: int = 1) -> Text:
    """Print a sweep as NPtcp does: the size, how many times, the rate and the time."""
    lines = []
    for number, size in enumerate(sizes):
        time_us = one_way_us + size / 10
        rate = f"{ways * 8e6 * size / time_us / 2**20:.2f}"
        lines.append(f"{number:3d}: {size} bytes  3 times --> {rate} Mbps in {time_us:.2f} usec")
    return Text("np.txt", "\n".join(lines))


@pytest.mark.parametrize("one_way_us", [1200.0, 20000.0, 150000.0])
@pytest.mark.parametrize("ways", [1, 2])
def test_small_messages_of_a_long_path_have_a_rate(one_way_us: float, ways: int) -> None:
    parsed = parse(_printed(one_way_us, 1, 2, 3, 65536, 1048576, ways=ways))
    (record,) = parsed.records
    assert parsed.oddities == []
    assert record.values == {"mode": "both" if ways == 2 else "pingpong"}
    assert record.sizes[0].throughput_bps == pytest.approx(
        ways * 8e6 / (one_way_us + 0.1), rel=1e-4
    )
    latency = None if ways == 2 else pytest.approx(one_way_us + 0.1)
    assert record.metrics["latency_min_us"] == latency


def test_both_ways_are_another_cell_than_one(tmp_path: Path) -> None:
    files = [DATA / "netpipe-stdout.txt", DATA / "netpipe-2-stdout.txt"]
    (run,) = import_files("netpipe", files, tmp_path).runs
    assert [cell.key for cell in run.read_summary().cells] == ["mode=both", "mode=pingpong"]


def test_a_line_that_can_not_be_is_odd_and_the_others_are_read() -> None:
    good = _printed(100.0, 1, 64, 1024).text
    broken = "  3: 4096 bytes  3 times --> 1.00 Mbps in 0.00 usec"
    parsed = parse(Text("np.txt", f"{good}\n{broken}"))
    assert len(parsed.records[0].sizes) == 3
    assert [str(one) for one in parsed.oddities] == [
        "np.txt:4: the time is 0, and should be more than 0 (not imported)"
    ]
    with pytest.raises(InputError, match="no line of NetPIPE"):
        parse(Text("np.txt", broken))
