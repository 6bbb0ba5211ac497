from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from osmef.engine.plan import make_plan
from osmef.engine.run import longest_s
from osmef.scenario.load import load_text
from osmef.workloads import ensemble, tasks


@given(repeat=st.integers(1, 300), seconds=st.integers(1, 600))
def test_a_run_whose_every_trial_uses_up_its_timeouts_ends_before_its_deadline(
    repeat: int, seconds: int
) -> None:
    text = f"name: slow\nrepeat: {repeat}\nworkload: {{kind: btc, duration: {seconds}s}}\n"
    plan = make_plan(load_text(text, Path("slow.yaml")))
    timeouts = 2 * tasks.ARM_TIMEOUT_S + ensemble.DRAIN_TIMEOUT_S + tasks.STALL_TIMEOUT_S
    assert longest_s(list(plan.trials)) > repeat * (seconds + timeouts + 100)
