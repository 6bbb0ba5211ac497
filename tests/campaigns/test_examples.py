from __future__ import annotations

import platform
from pathlib import Path

import pytest

from osmef.campaigns.schedule.load import read_campaign
from osmef.campaigns.schedule.plan import plan_campaign, preview
from osmef.errors import InputError

EXAMPLES = sorted((Path(__file__).parents[2] / "scenarios" / "campaigns").iterdir())


@pytest.mark.usefixtures("brought_unixbench")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_can_be_planned(path: Path) -> None:
    loaded = read_campaign(path)
    assert loaded.campaign.name == path.stem
    found = preview(plan_campaign(loaded))
    assert found.sessions == sum(week.sessions for week in found.weeks) > 0
    assert not found.notes


@pytest.mark.usefixtures("no_programs")
def test_source_code_that_is_to_be_brought_is_asked_for() -> None:
    (path,) = (one for one in EXAMPLES if one.stem == "deval")
    with pytest.raises(InputError) as told:
        plan_campaign(read_campaign(path))
    cure = f"osmef program build unixbench --source PATH --arch {platform.machine()}"
    assert cure in str(told.value)


def test_the_four_windows_of_four_weeks() -> None:
    (path,) = (one for one in EXAMPLES if one.stem == "four-weeks")
    found = preview(plan_campaign(read_campaign(path)))
    assert [sum(week.slots.values()) for week in found.weeks] == [14] * 4
    assert found.weeks[0].slots["weekend-peak"] == 3  # Epiphany is one of them
