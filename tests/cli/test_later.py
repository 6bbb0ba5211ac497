"""What is loaded late, and what a run does not load at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from osmef.cli.later import later


def test_a_module_is_executed_when_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_late_module.py").write_text("print('executed')\nvalue = 1\nother = 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    code = (
        "from osmef.cli.later import later\n"
        "late = later('a_late_module')\n"
        "late.other = 3\n"
        "print('ready')\n"
        "import a_late_module\n"
        "assert a_late_module is late\n"
        "print(late.value, late.other)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True,
        env={"PYTHONPATH": ":".join([str(tmp_path), *sys.path])},
    )  # fmt: skip
    assert told.stdout.split() == ["ready", "executed", "1", "3"]


def test_a_module_that_is_not_there() -> None:
    with pytest.raises(ModuleNotFoundError):
        later("there_is_no_such_module")


def test_a_run_without_figures_loads_nothing_for_figures_and_analysis(tmp_path: Path) -> None:
    """What takes half of the CPU and memory of a short run."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "import osmef.cli.run, osmef.cli.execution\n"
        "from osmef.results.trial import Interval\n"
        "from osmef.results.rundir import RunDirectory\n"
        "from osmef.results.tables import as_table\n"
        "run = RunDirectory.create_at(Path(sys.argv[1]), '', '.yaml')\n"
        "run.write_intervals(1, [Interval(trial=1, endpoint='a', role='sender', flow=0,\n"
        "    start_s=0, length_s=1, bytes=1, retransmits=None, rtt_us=None, cwnd=None)])\n"
        "run.finish()\n"
        "heavy = {'pandas', 'matplotlib', 'scipy', 'pyroute2', 'rich.markdown'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")], check=True, stdout=subprocess.PIPE,
        text=True, env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert told.stdout.strip() == "[]"
