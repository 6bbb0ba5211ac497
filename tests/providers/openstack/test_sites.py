"""Pairs of a server and a machine at another site."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.providers.openstack.lab import Lab
from tests.sites.outside import both_ways, check, machine_outside


@pytest.mark.timeout(900)
def test_a_server_and_a_machine_outside_measure_both_ways(lab: Lab, tmp_path: Path) -> None:
    written = json.loads((lab.osmef.directory / lab.write()).read_text())
    with machine_outside(tmp_path, lab.cloud.inside) as machine:
        scenario = both_ways(written["provider"], machine)
        ended = lab("run", lab.osmef.write(json.dumps(scenario), "sites.json"))
    assert ended.code == 0, ended.err
    check(lab.osmef.summary)
    assert lab.owned() == []
