from pathlib import Path

import pytest

from osmef.engine.check import warnings_of
from osmef.scenario.load import load_text

BESIDE = "measured beside a background of btc"
ZEROCOPY = "mode zerocopy: the sending end hands over its pages and copies nothing"
DISCARD = "mode discard: the receiving end throws the data away in the kernel"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("workload: {kind: btc}", []),
        ("workload: {kind: btc, mode: discard}", [DISCARD]),
        ("sweep: {workload.mode: [copy, zerocopy, discard]}", [DISCARD, ZEROCOPY]),
        (
            "workload: {kind: udp}\nbackground: {kind: btc, mode: zerocopy}",
            [BESIDE, ZEROCOPY],
        ),
    ],
)
def test_what_makes_the_numbers_others_is_said(text: str, expected: list[str]) -> None:
    study = load_text(f"name: test\nprovider: local\n{text}", Path("test.yaml"))
    assert [one for one in warnings_of(study) if "CPUs" not in one] == expected
