"""What was imported works with every command that reads runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import osmef
from osmef.importers import KINDS, import_files
from tests.importers.samples import DATA, kind_of
from tests.invoked import invoke


@dataclass(frozen=True)
class Use:
    """What can be done with a kind: its figures, its rows, and whether BTC is in it."""

    figures: tuple[str, ...]
    requests: bool = False
    intervals: bool = False
    btc: bool = False


USES = {
    "osmef2013": Use(("btc-connections", "btc-distance", "fairness", "cpu", "intervals",
                      "topology"), intervals=True, btc=True),
    "ppbench": Use(("pingpong-transfer", "pingpong-latency", "pingpong-requests"), requests=True),
    "apachebench": Use(("pingpong-transfer", "ecdf --metric transfer_rate_bytes_per_s"),
                       requests=True),
    "iperf3": Use(("btc-connections", "udp-loss", "udp-jitter", "fairness", "cpu", "ecdf",
                   "intervals --where protocol=udp", "intervals --where direction=forward"),
                  intervals=True, btc=True),
    "nuttcp": Use(("btc-connections", "intervals --where protocol=tcp", "cpu",
                   "udp-loss", "intervals --where protocol=udp", "ecdf --metric goodput_bps"),
                  intervals=True, btc=True),
    "netperf": Use(("ecdf --metric rtt_mean_us", "ecdf --metric connects_per_s",
                    "ecdf --metric aggregate_btc_bps"), btc=True),
    "netpipe": Use(("sweep-throughput", "sweep-time")),
    "cwb2018": Use(("similarity", "ecdf --metric iperf_bps")),
    "pkb": Use(("ecdf --metric rtt_p50_us", "ecdf --metric aggregate_btc_bps"), btc=True),
    "shaker": Use(("intervals", "ecdf --metric aggregate_btc_bps"), intervals=True, btc=True),
    "flent": Use(("course", "intervals"), intervals=True),
    "siege": Use(("ecdf --metric time_p50_us", "pingpong-latency"), requests=True),
    "sessions": Use(("sessions", "cov", "ecdf --metric unixbench_single_score")),
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that imports all samples of a kind, each kind once."""
    out = tmp_path_factory.mktemp("imported")

    def imported(kind: str) -> Path:
        if not (out / kind).exists():
            files = [path for path in sorted(DATA.iterdir()) if kind_of(path) == kind]
            import_files(kind, files, out / kind)
        return out / kind

    return imported


def _osmef(*words: str | Path) -> tuple[int, str]:
    done = invoke(*words, COLUMNS="300")
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def test_every_kind_is_tried() -> None:
    assert USES.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", USES)
def test_it_can_be_shown(kind: str, runs: Callable[[str], Path]) -> None:
    for run in runs(kind).iterdir():
        code, text = _osmef("show", run)
        assert (code, run.name in text) == (0, True)
        code, text = _osmef("show", run, "--json")
        assert (code, json.loads(text)["run"]["id"]) == (0, run.name)


@pytest.mark.parametrize("kind", USES)
def test_it_can_be_loaded(kind: str, runs: Callable[[str], Path]) -> None:
    use, where = USES[kind], runs(kind)
    assert (osmef.load(where)["status"] == "ok").any()
    if use.requests:
        assert osmef.load_requests(where)["cell"].notna().all()
    if use.intervals:
        assert osmef.load_intervals(where)["cell"].notna().all()


@pytest.mark.parametrize(
    ("kind", "figure"), [(kind, figure) for kind, use in USES.items() for figure in use.figures]
)
def test_it_can_be_drawn(
    kind: str, figure: str, runs: Callable[[str], Path], tmp_path: Path
) -> None:
    name, *options = figure.split()
    code, text = _osmef("plot", name, runs(kind), *options, "-o", tmp_path / "it.svg")
    assert code == 0, text
    assert "<svg" in (tmp_path / "it.svg").read_text()


@pytest.mark.parametrize("kind", USES)
def test_it_can_be_reported(kind: str, runs: Callable[[str], Path], tmp_path: Path) -> None:
    code, text = _osmef("report", runs(kind), "-o", tmp_path / "it.html")
    assert code == 0, text
    page = (tmp_path / "it.html").read_text()
    assert "<svg" in page
    assert all(run.name in page for run in runs(kind).iterdir())


@pytest.mark.parametrize("kind", USES)
def test_it_can_be_compared(kind: str, runs: Callable[[str], Path]) -> None:
    where = runs(kind)
    code, text = _osmef("compare", where, where, "--fail-on", "regression", "--json")
    assert code == 0, text
    rows = json.loads(text)["rows"]
    assert rows
    assert all(row["difference"] == 0 for row in rows if row["n_a"])


@pytest.mark.parametrize("kind", USES)
def test_it_can_be_exported_where_it_has_requests(kind: str, runs: Callable[[str], Path]) -> None:
    for run in runs(kind).iterdir():
        code, text = _osmef("export", "ppbench", run)
        if USES[kind].requests:
            assert (code, text.startswith("Machine Tag")) == (0, True)
        else:
            assert (code, "this run made no requests" in text) == (2, True)


@pytest.mark.parametrize("kind", [kind for kind, use in USES.items() if use.btc])
def test_it_can_be_recommended(kind: str, runs: Callable[[str], Path]) -> None:
    code, text = _osmef("recommend", runs(kind), "--btc", "1Mbit/s", "--json")
    assert code == 0, text
    assert {option["fit"] for option in json.loads(text)["options"]} <= {"yes", "likely", "unknown"}
