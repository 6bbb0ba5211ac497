from __future__ import annotations

from osmef.engine.station import creation_moment, first_moment


def test_a_first_start_begins_with_the_moment_before_its_first_group() -> None:
    assert first_moment(1, 1) == "00000"


def test_a_resumed_run_keeps_what_was_collected_before() -> None:
    written = [first_moment(1, 1), "00001", "00002"]
    again = [first_moment(3, starts) for starts in range(2, 13)]
    moments = [*written, *again, "00003"]
    assert len(set(moments)) == len(moments)
    assert sorted(moments) == moments
    assert creation_moment(moments) == again[-1]
    assert creation_moment(written) == "00000"
