"""Records that were measured with other settings, or between other ends, are other cells."""

from __future__ import annotations

from pathlib import Path

import pytest

import osmef
from osmef.importers import import_files
from tests.importers.samples import DATA, kind_of

NUTTCP = "nuttcp-v.txt"
CHANGES = [
    ("iperf3-312-tcp.json", '"blksize":\t131072', '"blksize":\t1024'),
    ("iperf3-312-tcp.json", '"duration":\t1,', '"duration":\t60,'),
    ("iperf3-312-tcp.json", '"omit":\t0', '"omit":\t3'),
    ("iperf3-312-tcp.json", '"tos":\t0', '"tos":\t16'),
    ("iperf3-312-tcp.json", '"tcp_mss_default":\t32768', '"tcp_mss":\t1400'),
    ("iperf3-312-tcp.json", '"sock_bufsize":\t0', '"sock_bufsize":\t65536'),
    ("iperf3-312-tcp.json", '"sender_tcp_congestion":\t"bbr"', '"sender_tcp_congestion":\t"cubic"'),
    ("iperf3-312-tcp.json", '"protocol":\t"TCP"', '"protocol":\t"SCTP"'),
    ("iperf3-312-tcp.json", '"tos":\t0,', '"tos":\t0, "of_a_later_version":\t1,'),
    ("iperf3-312-udp.json", '"target_bitrate":\t20000000', '"target_bitrate":\t30000000'),
    ("iperf3-312-tcp.json", '"host":\t"127.0.0.1"', '"host":\t"server-2"'),
    (NUTTCP, "nstream=1", "nstream=10"),
    (NUTTCP, "buflen=65536", "buflen=8192"),
    (NUTTCP, "time limit = 1.00", "time limit = 10.00"),
    (NUTTCP, "with mss=32741", "with mss=1400"),
    (NUTTCP, "nuttcp-r: send window size = 3939840, receive window size = 131072",
     "nuttcp-r: send window size = 3939840, receive window size = 4096"),
    (NUTTCP, "nuttcp-t: time limit",
     "nuttcp-t: rate limit = 100.000 Mbps (aggregate)\nnuttcp-t: time limit"),
    (NUTTCP, "nuttcp-t: time limit", "nuttcp-t: nodelay\nnuttcp-t: time limit"),
    (NUTTCP, "connect to 127.0.0.1", "connect to 127.0.0.2"),
    (NUTTCP, "accept from 127.0.0.1", "accept from 127.0.0.2"),
    ("nuttcp-v-parse.txt", "nstream=1", "nstream=10"),
    ("nuttcp-v-parse.txt", "nuttcp-t: time_limit", "nuttcp-t: tos=0x10\nnuttcp-t: time_limit"),
    ("netperf-stream.txt", "16384  16384 ", "16384  1400 "),
    ("netperf-stream.txt", "131072  16384", "262144  16384"),
    ("netperf-stream.txt", "to 127.0.0.1", "to 127.0.0.2"),
    ("netperf-stream.txt", "from 0.0.0.0 (0.0.0.0)", "from 127.0.0.3 (127.0.0.3)"),
    ("netperf-stream.txt", ": demo", ": demo : nodelay"),
    ("netperf-stream.txt", "    1.00    ", "    60.03    "),
    ("netperf-rr.txt", "1.00 ", "60.03 "),
    ("netperf-omni-rr-all.txt", "ELAPSED_TIME=1.00", "ELAPSED_TIME=60.03"),
    ("netperf-maerts.txt", "16384  16384 ", "16384  1400 "),
    ("netperf-rr.txt", "131072 1        1", "131072 16000    1"),
    ("netperf-rr.txt", "131072 1        1", "131072 1        16000"),
    ("netperf-rr.txt", "first burst 0", "first burst 8"),
    ("netperf-crr.txt", "1        1  ", "1        64 "),
    ("netperf-udp-rr.txt", "212992 212992\n", "212992 65536\n"),
    ("netperf-udp-stream.txt", "212992    1400 ", "212992    64 "),
    ("netperf-omni.txt", "1117198     16384", "1117198     1400"),
    ("netperf-omni-rr-all.txt", "REQUEST_SIZE=1", "REQUEST_SIZE=64"),
    ("netperf-omni-rr-all.txt", "LOCAL_CONG_CONTROL=bbr", "LOCAL_CONG_CONTROL=cubic"),
    ("netperf-omni-rr-all.txt", "LOCAL_CPU_BIND=-1", "LOCAL_CPU_BIND=0"),
    ("netperf-omni-csv-all.txt", ",16384,4194304,", ",65536,4194304,"),
    ("apachebench.txt", "Server Hostname:        127.0.0.1", "Server Hostname:        server-2"),
    ("apachebench.txt", "Server Port:            5330", "Server Port:            80"),
    ("apachebench.txt", "Total transferred:", "Keep-Alive requests:    200\nTotal transferred:"),
    ("apachebench.txt", "HTML transferred:", "Total body sent:        8000\nHTML transferred:"),
    ("osmef2013.json", '"receiver": "', '"receiver": "other-'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new"), CHANGES)
def test_files_with_different_settings_are_different_cells(
    name: str, old: str, new: str, tmp_path: Path
) -> None:
    text = (DATA / name).read_text()
    other = text.replace(old, new)
    assert other != text
    # Equal files of 2013 are one that was copied.
    for place, content in (("1", text), ("2", other), ("3", f"{text}\n")):
        (tmp_path / place).mkdir()
        (tmp_path / place / name).write_text(content)
    kind = kind_of(DATA / name)
    files = [tmp_path / place / name for place in "123"]
    (run,) = import_files(kind, files, tmp_path / "out", name="all").runs
    first, second, third = run.read_trials().trials
    assert first.cell == third.cell != second.cell
    assert sorted(cell.n_ok for cell in run.read_summary().cells) == [1, 2]
    frame = osmef.load(run.path)
    assert frame["cell"].nunique() == 2


@pytest.mark.parametrize(("elapsed", "cells"), [("0.98", 1), ("1.04", 1), ("1.80", 1), ("2.00", 2)])
def test_netperf_may_end_slightly_after_its_requested_duration(
    elapsed: str, cells: int, tmp_path: Path
) -> None:
    text = (DATA / "netperf-stream.txt").read_text()
    for name, content in (("a", text), ("b", text.replace("    1.00    ", f"    {elapsed}    "))):
        (tmp_path / name).write_text(content)
    (run,) = import_files("netperf", [tmp_path / "a", tmp_path / "b"], tmp_path / "out").runs
    assert [one.values["duration_s"] for one in run.read_summary().cells] == [1, 2][:cells]


@pytest.mark.parametrize("kind", ["iperf3", "nuttcp", "netperf"])
def test_different_machines_alone_do_not_change_the_cell(kind: str, tmp_path: Path) -> None:
    """Two clouds, each imported for itself, are compared by cells of one name."""
    name, old = {
        "iperf3": ("iperf3-312-tcp.json", '"host":\t"127.0.0.1"'),
        "nuttcp": (NUTTCP, "connect to 127.0.0.1"),
        "netperf": ("netperf-rr.txt", "to 127.0.0.1"),
    }[kind]
    text = (DATA / name).read_text()
    cells = []
    for place, content in (("1", text), ("2", text.replace("127.0.0.1", "192.0.2.7"))):
        path = tmp_path / place
        path.write_text(content)
        (run,) = import_files(kind, [path], tmp_path / f"out-{place}").runs
        (trial,) = run.read_trials().trials
        cells.append((trial.cell, *trial.senders, *trial.receivers))
    assert old in text
    assert cells[0][0] == cells[1][0]
    assert cells[0][1:] != cells[1][1:]


def test_both_directions_between_two_machines_are_distinguished(tmp_path: Path) -> None:
    files = [DATA / f"iperf3-312-{name}.json" for name in ("tcp", "reverse")]
    (run,) = import_files("iperf3", files, tmp_path).runs
    assert {trial.values["direction"] for trial in run.read_trials().trials} == {
        "forward",
        "reverse",
    }
