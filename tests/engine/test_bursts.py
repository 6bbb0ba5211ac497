"""What a summary tells of rates that a cloud promises "up to"."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmef.engine.bursts import of_limits
from osmef.engine.plan import make_plan
from osmef.providers.aws.flavors import _info
from osmef.results.summary import EndpointInfo
from osmef.scenario.fields import EndpointKind
from osmef.scenario.load import load_text
from osmef.scenario.location import Location

C5_LARGE = {
    "InstanceType": "c5.large",
    "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
    "VCpuInfo": {"DefaultVCpus": 2},
    "MemoryInfo": {"SizeInMiB": 4096},
    "NetworkInfo": {"NetworkPerformance": "Up to 10 Gigabit", "EnaSupport": "required"},
}


def told(workload: str, network: str | None) -> list[str]:
    cells = make_plan(load_text(f"name: up-to\nworkload: {workload}\n", Path("s.yaml"))).cells
    ends = {
        end.name: EndpointInfo(
            name=end.name, kind=EndpointKind.VM, flavor="c5.large", vcpus=2, network=network,
            requested=Location(), achieved=Location(), data_address=None, warnings=[],
            agent_sha256=None, facts={},
        )
        for cell in cells
        for end in cell.endpoints
    }  # fmt: skip
    return of_limits(cells, ends)


def test_ten_seconds_at_a_rate_up_to_so_much_may_be_a_burst() -> None:
    (note,) = told("{kind: btc, duration: 10s}", _info(C5_LARGE).network)
    assert note.startswith("c5.large, whose network is 'Up to 10 Gigabit': trials of 10 s")


@pytest.mark.parametrize(
    ("workload", "network"),
    [
        pytest.param("{kind: btc, duration: 10s}", "25 Gigabit", id="a-whole-rate"),
        pytest.param("{kind: btc, duration: 10s}", None, id="nobody-tells"),
        pytest.param("{kind: btc, duration: 1h}", "Up to 10 Gigabit", id="long"),
        pytest.param("{kind: btc, until: knee}", "Up to 10 Gigabit", id="until-the-knee"),
        pytest.param("{kind: latency, duration: 10s}", "Up to 10 Gigabit", id="no-rate"),
    ],
)
def test_nothing_else_is_told(workload: str, network: str | None) -> None:
    assert told(workload, network) == []
