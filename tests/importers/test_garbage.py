from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from osmef.errors import InputError
from osmef.importers import KINDS, _parsed
from osmef.importers.record import Text, amount, number, whole
from tests.importers.samples import DATA, kind_of

SAMPLES = {
    path.name: path.read_text() for path in sorted(DATA.iterdir()) if path.name != "expected.json"
}
SMALL = {name: text for name, text in SAMPLES.items() if len(text) < 8000}


def _try(kind: str, content: str) -> None:
    """Parse; all that may happen is an InputError that says where, and finite numbers."""
    refused: InputError | None = None
    try:
        parsed = KINDS[kind](Text("some.file", content))
    except InputError as error:
        refused = error
    if refused is not None:
        assert (refused.where or "").startswith("some.file:")
        return
    assert (
        parsed.records
        or parsed.oddities
        or not content.strip()
        or kind in ("ppbench", "sessions", "apachebench")
    )
    for record in parsed.records:
        assert all(v is None or math.isfinite(v) for v in record.metrics.values())
        assert kind == "sessions" or all((v or 0) >= 0 for v in record.metrics.values())
    for oddity in parsed.oddities:
        assert oddity.where.startswith("some.file")


@pytest.mark.parametrize("kind", KINDS)
@given(content=st.text())
def test_any_text_is_read_or_refused(kind: str, content: str) -> None:
    _try(kind, content)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content", ["[" * 200_000, '{"a":' * 200_000, '{"a": ' + "9" * 6000 + "}"])
def test_json_that_python_does_not_read_is_refused(kind: str, content: str) -> None:
    """It is nested too deeply, or has a longer integer than Python takes from a text."""
    _try(kind, content)


def test_more_datagrams_than_were_sent_are_no_loss_below_0() -> None:
    text = SAMPLES["netperf-udp-stream.txt"].replace("100583", "200583")
    parsed = KINDS["netperf"](Text("some.file", text))
    assert parsed.records[0].metrics["loss_percent"] is None
    assert parsed.records[0].metrics["goodput_bps"] == pytest.approx(1126.31e6)
    (oddity,) = parsed.oddities
    assert str(oddity).startswith("some.file:1: more datagrams came than were sent")
    assert oddity.kept


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_sample_is_read_or_refused(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(SMALL)))
    text = SMALL[name]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    inserted = data.draw(
        st.sampled_from(["", "-1", "1e999", "nan", "\x00", '"', ",", "{}", "null", "0", "\n", "x"])
    )
    path = DATA / name
    _try(kind_of(path), text[:start] + inserted + text[end:])


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children: list[tuple[Any, Any]] = []
    if isinstance(value, dict | list):
        children = list(value.items() if isinstance(value, dict) else enumerate(value))
    return [path, *(leaf for key, child in children for leaf in _leaves(child, (*path, key)))]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_json_with_a_wrong_value_is_read_or_refused(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(n for n in SAMPLES if n.endswith(".json"))))
    document = json.loads(SAMPLES[name])
    path = data.draw(st.sampled_from(_leaves(document)))
    wrong = data.draw(
        st.sampled_from([None, True, "x", -1, 0, 1e300, 10**30, [], {}, "1e999", [1], {"a": 1}])
    )
    if not path:
        document = wrong
    else:
        parent = document
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = wrong
    _try(kind_of(DATA / name), json.dumps(document))


@pytest.mark.parametrize("name", [n for n in sorted(SAMPLES) if n.endswith(".json")])
def test_no_number_of_json_makes_a_negative_one(name: str) -> None:
    text = SAMPLES[name]
    for path in _leaves(json.loads(text)):
        parent = document = json.loads(text)
        for step in path[:-1]:
            parent = parent[step]
        if path and isinstance(parent[path[-1]], int | float):
            parent[path[-1]] = -1
            _try(kind_of(DATA / name), json.dumps(document))


@pytest.mark.parametrize("kind", ["osmef2013", "shaker", "flent"])
def test_broken_json_is_refused_at_its_line(kind: str) -> None:
    with pytest.raises(InputError) as caught:
        KINDS[kind](Text("s.json", '{"a": 1,\n\n{oops\n'))
    assert str(caught.value).startswith("s.json:3: this is not JSON: Expecting property name")


def test_deep_json_is_refused() -> None:
    for kind in ("osmef2013", "iperf3"):
        _try(kind, "[" * 100_000)


@given(st.floats(-1e17, 1e17))
def test_a_number_is_read_as_it_is_written(value: float) -> None:
    assert number(repr(value), "it", "a:1") == value
    assert number(value, "it", "a:1") == value


@pytest.mark.parametrize(
    "text", ["", "1_000", "nan", "inf", "-inf", "1e999", "0x10", "\u0661", "1,5", None]
)
def test_python_specific_number_forms_are_rejected(text: str | None) -> None:
    with pytest.raises(InputError, match="not a usable number"):
        number(text, "it", "a:1")


def test_an_amount_is_not_negative() -> None:
    assert amount("0", "it", "a:1") == 0
    with pytest.raises(InputError, match=r"it is -0\.5, and should not be negative"):
        amount("-0.5", "it", "a:1")


@pytest.mark.parametrize("text", ["-1", "1.5"])
def test_a_count_is_whole(text: str) -> None:
    with pytest.raises(InputError, match="whole number"):
        whole(text, "it", "a:1")


PRINTED = [
    name
    for name in SMALL
    if kind_of(DATA / name) in {"apachebench", "nuttcp", "netperf", "netpipe"}
    and not name.endswith(".csv")
]


@pytest.mark.parametrize("name", PRINTED)
@given(data=st.data())
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_no_number_of_a_truncated_output_is_taken_for_a_result(
    name: str, data: st.DataObject
) -> None:
    """What is cut is refused, failed, reported as odd, or only lacks numbers."""
    content, kind = SMALL[name], kind_of(DATA / name)
    cut = content[: data.draw(st.integers(1, len(content) - 1))]
    # A sweep of NetPIPE may end after any line, and so may the keys that -k of netperf selects.
    may_end = kind == "netpipe" or "omni" in name
    assume(not (may_end and cut.endswith("\n")))
    known = [record.metrics for record in _parsed(kind, Text(name, content)).records]
    parsed = _parsed(kind, Text(name, cut))
    if parsed.oddities:
        return
    for record, metrics in zip(parsed.records, known, strict=False):
        if record.failure is None:
            found = {key: value for key, value in record.metrics.items() if value is not None}
            assert found.items() <= metrics.items()
