from __future__ import annotations

from pathlib import Path

import pytest

from osmef.campaigns.schedule.load import read_campaign
from osmef.campaigns.schedule.plan import plan_campaign, preview

EXAMPLES = sorted((Path(__file__).parents[2] / "scenarios" / "campaigns").iterdir())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_can_be_planned(path: Path) -> None:
    loaded = read_campaign(path)
    assert loaded.campaign.name == path.stem
    found = preview(plan_campaign(loaded))
    assert found.sessions == sum(week.sessions for week in found.weeks) > 0
    assert not found.notes


def test_the_four_windows_of_four_weeks() -> None:
    (path,) = (one for one in EXAMPLES if one.stem == "four-weeks")
    found = preview(plan_campaign(read_campaign(path)))
    assert [sum(week.slots.values()) for week in found.weeks] == [14] * 4
    assert found.weeks[0].slots["weekend-peak"] == 3  # Epiphany is one of them
