"""Pairs of a VM and a machine at another site."""

from __future__ import annotations

import json
from pathlib import Path

from tests.providers.azure.conftest import Lab
from tests.sites.outside import both_ways, check, machine_outside


def test_a_vm_and_a_machine_outside_measure_both_ways(lab: Lab, tmp_path: Path) -> None:
    written = json.loads((lab.osmef.directory / lab.write()).read_text())
    with machine_outside(tmp_path, lab.inside) as machine:
        scenario = both_ways(written["provider"], machine)
        ended = lab("run", lab.osmef.write(json.dumps(scenario), "sites.json"))
    assert ended.code == 0, ended.err
    check(lab.summary)
    assert lab.owned() == []
