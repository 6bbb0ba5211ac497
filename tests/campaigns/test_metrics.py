"""What Prometheus reads of campaigns."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from osmef.campaigns.state.rows import CampaignPhase, SessionState
from osmef.campaigns.state.store import Store
from osmef.campaigns.watching.monitoring import metrics_file, render_metrics
from tests.campaigns.shown import make_shown

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\[\\"n])*)"')
_SAMPLE = re.compile(rf"([a-z_]+)\{{({_LABEL.pattern}(?:,{_LABEL.pattern})*)\}} (\S+)")
_ESCAPED = {r"\n": "\n", r"\"": '"', r"\\": "\\"}


def parsed(text: str) -> Samples:
    """Read the text format strictly: each family has help and type before its samples."""
    found: Samples = {}
    family = ""
    assert not text or text.endswith("\n")
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert next(lines) == f"# TYPE {family} gauge"
            continue
        match = _SAMPLE.fullmatch(line)
        assert match is not None, line
        assert match[1] == family
        pairs = frozenset(
            (one[1], re.sub(r"\\.", lambda sign: _ESCAPED[sign[0]], one[2]))
            for one in _LABEL.finditer(match[2])
        )
        key = (family.removeprefix("osmef_campaign_"), pairs)
        assert key not in found
        found[key] = float(match[match.re.groups])
    return found


def labels(**values: str) -> frozenset[tuple[str, str]]:
    return frozenset({"campaign": "shown", **values}.items())


def test_every_figure(tmp_path: Path) -> None:
    store = make_shown(tmp_path)
    row = store.campaign("shown")
    sessions = store.sessions(row.id)
    due = sessions[6].due
    found = parsed(render_metrics([(row, sessions)], due + timedelta(seconds=90)))
    assert found["phase", labels(phase="active")] == 1
    assert found["phase", labels(phase="paused")] == 0
    assert found["conducted", labels()] == 1
    counts = {"done": 3, "failed": 1, "missed": 1, "running": 1, "planned": len(sessions) - 6}
    for state, count in counts.items():
        assert found["sessions", labels(state=state)] == count
    assert found["trials", labels(status="ok")] == 36
    assert found["cost", labels(currency="USD")] == 1.0
    assert found["overdue_seconds", labels()] == 90
    later = [one.due for one in sessions[6:] if one.due > due + timedelta(seconds=90)]
    assert found["next_due_timestamp_seconds", labels()] == min(later).timestamp()
    assert found["last_start_delay_seconds", labels()] == 0
    assert found["last_end_timestamp_seconds", labels()] > 0


def test_a_retry_after_its_window_is_not_what_is_due_next(tmp_path: Path) -> None:
    store = make_shown(tmp_path)
    row = store.campaign("shown")
    first, *_, last = store.sessions(row.id, [SessionState.PLANNED])
    late = replace(first, due=first.closes + timedelta(minutes=5))
    found = parsed(render_metrics([(row, [late, last])], first.opens))
    assert found["next_due_timestamp_seconds", labels()] == last.due.timestamp()


def test_a_session_that_waits_for_a_retry_hides_no_delay(tmp_path: Path) -> None:
    store = make_shown(tmp_path)
    row = store.campaign("shown")
    first, second, *_ = store.sessions(row.id, [SessionState.PLANNED])
    begun = replace(first, state=SessionState.DONE, started_at=first.due + timedelta(seconds=40))
    at = second.due + timedelta(seconds=60)
    waits = replace(second, started_at=at, due=at + timedelta(minutes=10))
    found = parsed(render_metrics([(row, [begun, waits])], at))
    assert found["last_start_delay_seconds", labels()] == 40


def test_the_timestamps_of_a_metrics_file_show_a_dead_conductor(tmp_path: Path) -> None:
    """It stays as it was: what was due next and when somebody was seen do not move any more."""
    store = make_shown(tmp_path)
    number = store.campaign("shown").id
    sessions = store.sessions(number)
    seen = sessions[6].due - timedelta(hours=1)
    store.renew(number, "other boot 1 1", seen)
    found = parsed(render_metrics([(store.campaign("shown"), sessions)], seen))
    assert found["seen_timestamp_seconds", labels()] == seen.timestamp()
    assert found["next_due_timestamp_seconds", labels()] == sessions[6].due.timestamp()


def test_nothing_planned_and_nothing_known(tmp_path: Path) -> None:
    store = make_shown(tmp_path)
    row = replace(store.campaign("shown"), seen_at=None)
    found = parsed(render_metrics([(row, [])], datetime.now(UTC)))
    assert found["overdue_seconds", labels()] == 0
    assert not [name for name, _ in found if "timestamp" in name or name == "cost"]
    assert render_metrics([], datetime.now(UTC)) == ""


def test_a_file_for_node_exporter(tmp_path: Path) -> None:
    store = make_shown(tmp_path)
    path = tmp_path / "osmef.prom"
    told: list[tuple[str, str]] = []
    with metrics_file(path, store, "shown", lambda *line: told.append(line)):
        row = store.campaign("shown")
        store.set_phase(row.id, CampaignPhase.ENDED)
    assert parsed(path.read_text())["phase", labels(phase="ended")] == 1
    assert told == []
    assert [one.name for one in tmp_path.glob("*.prom*")] == ["osmef.prom"]


def test_an_unwritable_metrics_file_is_reported_once(tmp_path: Path) -> None:
    store = make_shown(tmp_path)
    told: list[tuple[str, str]] = []
    path = tmp_path / "there" / "is" / "nothing.prom"
    with metrics_file(path, store, "shown", lambda *line: told.append(line)):
        pass
    assert [kind for kind, _ in told] == ["failure"]
    assert str(path) in told[0][1]


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb"])
def test_labels_are_escaped(tmp_path: Path, name: str) -> None:
    store = Store(f"sqlite:///{tmp_path / 'state.sqlite'}")
    about = {"file": "x.yaml", "text": "", "out": "out"}
    store.register(name, about, [], datetime.now(UTC))
    found = parsed(render_metrics([(store.campaign(name), [])], datetime.now(UTC)))
    assert {dict(each)["campaign"] for _, each in found} == {name}
