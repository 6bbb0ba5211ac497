"""What the shell offers at Tab for workloads, settings, metrics, columns and campaigns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from osmef.campaigns.state import open_store
from osmef.cli.campaign_options import STATE
from osmef.cli.completion import complete_setting
from osmef.cli.main import make_app
from tests.cli.test_advice import SAMPLE

Offered = Callable[[str], list[str]]


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Offered:
    """Return what fish is offered for the last word of a line."""

    def offer(line: str) -> list[str]:
        monkeypatch.setenv("_OSMEF_COMPLETE", "complete_fish")
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
        with pytest.raises(SystemExit):
            make_app(line.split()[1:])(prog_name="osmef")
        printed = capsys.readouterr()
        assert printed.err == ""
        return [one.split("\t")[0] for one in printed.out.splitlines() if one]

    return offer


def test_settings_are_completed_up_to_the_next_dot(offered: Offered) -> None:
    assert offered("osmef run a.yaml --set conn") == ["connections="]
    assert "workload." in complete_setting("work")
    assert "workload.duration=" in complete_setting("workload.d")
    assert {"repeat.", "provider.", "name="} <= set(complete_setting(""))
    assert "endpoints.sender." in complete_setting("endpoints.")
    assert complete_setting("nothing") == []


def test_a_workload_is_completed_by_its_kind(offered: Offered) -> None:
    assert offered("osmef init u") == ["udp", "unixbench"]
    assert offered("osmef init no") == []


def test_metrics_are_those_of_the_runs(offered: Offered) -> None:
    assert offered(f"osmef statistics {SAMPLE} --metric jain") == ["jain_fairness"]
    assert offered(f"osmef plot ecdf {SAMPLE} --metric=jain") == ["jain_fairness"]
    assert offered(f"osmef compare nowhere {SAMPLE} --metric jain") == ["jain_fairness"]
    assert offered("osmef statistics nowhere --metric jain") == []


def test_columns_are_those_of_the_runs_and_then_their_values(offered: Offered) -> None:
    assert offered(f"osmef statistics {SAMPLE} --where place") == ["placement="]
    assert offered(f"osmef statistics {SAMPLE} --where placement=") == ["placement=different-host"]
    assert offered(f"osmef statistics {SAMPLE} --where colour=") == []


def test_campaigns_come_by_name_and_no_database_is_made(
    offered: Offered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "state.sqlite"
    monkeypatch.setenv(STATE, f"sqlite:///{file}")
    assert offered("osmef campaign status f") == []
    assert not file.exists()
    store = open_store(f"sqlite:///{file}", create=True)
    for name in ("five-minutes", "four-weeks", "other"):
        store.register(name, {"file": "", "text": "", "out": ""}, [], datetime.now(UTC), None)
    store.close()
    assert offered("osmef campaign status fo") == ["four-weeks"]
    assert offered("osmef campaign pause f") == ["five-minutes", "four-weeks"]
