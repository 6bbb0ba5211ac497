"""Files of several outputs of iperf3, of which some are not whole."""

from __future__ import annotations

import pytest

from osmef.errors import InputError
from osmef.importers.iperf3 import parse
from osmef.importers.record import Text
from tests.importers.samples import DATA

GOOD = (DATA / "iperf3-312-tcp.json").read_text()
TORN = GOOD[: len(GOOD) // 2]
STREAM = (DATA / "iperf3-322-stream.jsonl").read_text()
FULL = (DATA / "iperf3-322-stream-full.jsonl").read_text()


@pytest.mark.parametrize(
    ("parts", "records", "oddities"),
    [
        ((GOOD, TORN), 1, 1),
        ((TORN, GOOD), 1, 1),
        ((f"{TORN}{GOOD}",), 1, 1),
        ((GOOD, TORN, GOOD, GOOD), 3, 1),
        (("warning: this system does not seem to support IPv6 - trying IPv4", GOOD), 1, 1),
        ((STREAM, STREAM[: len(STREAM) // 2]), 2, 1),
        ((FULL, FULL, STREAM), 3, 0),
        ((GOOD, "1 2 3 4", GOOD), 2, 1),
    ],
)
def test_a_truncated_record_does_not_lose_the_others(
    parts: tuple[str, ...], records: int, oddities: int
) -> None:
    parsed = parse(Text("loop.json", "\n".join(parts)))
    assert (len(parsed.records), len(parsed.oddities)) == (records, oddities)
    assert not any(one.kept for one in parsed.oddities)
    whole = [record for record in parsed.records if record.failure is None]
    assert all(record.metrics["aggregate_btc_bps"] for record in whole)
    torn = [record for record in parsed.records if record.failure]
    assert all(record.values["duration_s"] == 1 and record.intervals for record in torn)


@pytest.mark.parametrize("content", ["", TORN, "Connecting to host 192.0.2.1, port 5201", "[1]"])
def test_a_file_without_a_whole_output_is_refused(content: str) -> None:
    with pytest.raises(InputError, match=r"empty|JSON"):
        parse(Text("a.json", content))
