from __future__ import annotations

from pathlib import Path

from osmef.engine.journal import Journal
from osmef.engine.plan import make_plan
from osmef.engine.resume import note_plan, occasion_of, reopen
from osmef.results.occasion import Occasion
from osmef.results.rundir import RunDirectory
from osmef.scenario.load import load_text

TEXT = "name: pair\nworkload: {duration: 1s}\nrepeat: 2\n"


def test_a_run_that_goes_on_knows_its_session(tmp_path: Path) -> None:
    occasion = Occasion("2027-01-04 night", "night", "pair here")
    with RunDirectory.create(tmp_path, "pair", TEXT, ".yaml") as run:
        plan = make_plan(load_text(TEXT, run.scenario), 7)
        note_plan(run, plan, occasion)
        assert reopen(run).seed == 7
        assert occasion_of(Journal(run.journal)) == occasion


def test_a_run_without_a_campaign_has_no_session(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path, "pair", TEXT, ".yaml") as run:
        assert occasion_of(Journal(run.journal)) == Occasion()
        note_plan(run, make_plan(load_text(TEXT, run.scenario), 7))
        assert occasion_of(Journal(run.journal)) == Occasion()
