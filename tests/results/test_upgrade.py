from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from osmef.errors import InputError
from osmef.results.document import read_document, upgrade
from osmef.results.observations import Direction, Purpose
from osmef.results.rundir import RunDirectory
from osmef.results.summary import Summary
from osmef.results.tables import TABLES
from osmef.results.trial import SCHEMA_VERSION, Interval, Trial

OLD = RunDirectory(Path(__file__).parent / "data" / "quickstart-20261121T031500Z-3f9a")


def test_the_one_pair_of_a_trial_of_version_1_becomes_lists() -> None:
    written = [json.loads(line) for line in OLD.trials.read_text().splitlines()]
    assert {trial["schema_version"] for trial in written} == {1}
    trials = OLD.read_trials().trials
    assert [trial.senders for trial in trials] == [[old["sender"]] for old in written]
    assert [trial.receivers for trial in trials] == [[old["receiver"]] for old in written]
    assert {trial.schema_version for trial in trials} == {SCHEMA_VERSION}
    good = trials[0]
    assert len(good.transfers) == 1
    (transfer,) = good.transfers
    assert transfer.sender.endpoint == "vm-1"
    assert (transfer.purpose, transfer.direction) == (Purpose.MEASURED, Direction.FORWARD)
    assert transfer.limited_by is None
    assert trials[2].transfers == []


def test_a_summary_of_version_1_is_of_one_pair_and_btc() -> None:
    (cell,) = OLD.read_summary().cells
    assert (cell.senders, cell.receivers) == (["vm-1"], ["vm-2"])
    assert (cell.workload, cell.background) == ("btc", None)


@pytest.mark.parametrize("model", [Trial, Summary])
def test_a_document_of_the_current_version_is_not_changed(model: type) -> None:
    document = {"schema_version": SCHEMA_VERSION, "senders": ["a"], "cells": []}
    assert upgrade(model, document) == document


@given(
    st.dictionaries(
        st.sampled_from(["sender", "receiver", "transfer", "cells", "values"]),
        st.none() | st.text() | st.integers() | st.lists(st.none() | st.integers()),
    ),
    st.sampled_from([Trial, Summary]),
)
def test_a_damaged_document_is_reported_as_such(
    document: dict[str, object], model: type[Trial] | type[Summary]
) -> None:
    text = json.dumps({**document, "schema_version": 1}).encode()
    with pytest.raises(InputError, match="damaged"):
        read_document(model, text, "here")


def test_a_run_of_version_1_is_continued_with_the_current_table_format(run: RunDirectory) -> None:
    old = pd.DataFrame(
        {"trial": [1], "endpoint": ["vm-1"], "role": ["sender"], "flow": [0], "start_s": [0.0],
         "length_s": [1.0], "bytes": [7], "retransmits": [0], "rtt_us": [1.0], "cwnd": [10]}
    )  # fmt: skip
    old.to_parquet(run.intervals)
    new = Interval(
        trial=2, endpoint="vm-2", peer="vm-1", role="receiver", flow=0, start_s=0, length_s=1,
        bytes=9, retransmits=None, rtt_us=None, cwnd=None,
    )  # fmt: skip
    run.write_intervals(2, [new])
    run.finish()
    table = parquet.read_table(run.intervals)
    assert table.schema.equals(TABLES["intervals"])
    assert table["bytes"].to_pylist() == [7, 9]
    assert table["peer"].to_pylist() == [None, "vm-1"]
    assert table["purpose"].to_pylist() == [None, "measured"]
