"""Campaign files as people write them: what is wrong is told with its place and a cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmef.campaigns.schedule.load import read_campaign
from osmef.campaigns.schedule.plan import plan_campaign
from osmef.errors import InputError

GOOD = """\
name: four
scenarios: [pair.yaml]
providers: {here: local}
start: 2026-03-23
"""
SCENARIO = "name: pair\nworkload: {duration: 1s}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "pair.yaml").write_text(SCENARIO)
    return tmp_path / "campaign.yaml"


def problems(file: Path, text: str) -> list[tuple[int, str, str]]:
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        plan_campaign(read_campaign(file))
    return [(one.line, one.message, one.cure) for one in caught.value.problems]


def test_a_scenario_is_named_as_such(file: Path) -> None:
    ((line, message, cure),) = problems(file, SCENARIO)
    assert (line, message) == (2, "this is a scenario, not a campaign")
    assert f"osmef run {file}" in cure


def test_settings_of_a_platform_are_in_its_scenario(file: Path) -> None:
    file.write_text(GOOD + "pause: 3s\nclasses: [general]\n")
    (study,) = read_campaign(file).studies.values()
    assert (study.scenario.provider.kind, study.scenario.pause) == ("local", 3.0)


@pytest.mark.parametrize(
    ("more", "line", "message"),
    [
        ("weaks: 3", 5, "unknown key 'weaks'"),
        ("weeks: 0", 5, "weeks is 0, but must be at least 1"),
        ("weeks: four", 5, "weeks must be a whole number, but it is 'four', a text"),
        ("jitter: 48h", 5, "jitter is 48h, but must be at most 24 h"),
        ("windows: {w: {cron: '* * * * *', length: 0s}}", 5, "must be at least 1.0 s"),
        ("windows: {w: {open: '9:00', closes: '10:00'}}", 5, "unknown key 'open'"),
        ("windows: []", 5, "windows is empty"),
        ("holidays: [30.02.2027]", 5, "holidays.0 must be a date, but it is '30.02.2027'"),
        ("order: randomly", 5, "order can't be 'randomly'"),
        ("stop: {width_percent: 0}", 5, "stop.width_percent is 0, but must be more than 0"),
        ("stop: 5", 5, "stop must be a mapping, but it is 5"),
        ("deadline: 2026-03-25", 5, "deadline must be a day and a time"),
        ("deadline: 2026-03-01 10:00", 5, "deadline: no window opens before it"),
        ("windows: {w: {cron: '0 0 1 1 *', length: 1h}}", 5, "windows: no window ever opens"),
        ("windows: {w: {cron: '* * * * *', length: 1s}}\nweeks: 520", 5, "the most is 200000"),
        ("time_zone: Mars/Olympus", 5, "there is no time zone 'Mars/Olympus'"),
        ("windows: [{w: {opens: '9:00'}}]", 5, "a list may hold only names of usual windows"),
        ("windows: [7]", 5, "a list may hold only names of usual windows"),
        ("windows: [teatime]", 5, "there is no usual window 'teatime'"),
        ("windows: {w: {opens: '09:00'}}", 5, "a window needs opens and closes"),
        ("windows: {w: {opens: '25:00', closes: '1:00'}}", 5, "'25:00' is no time of day"),
        ("windows: {w: {cron: 'x', length: 1h}}", 5, "'x' is no cron expression"),
        ("windows: {w: {cron: '* * * * *'}}", 5, "it does not say how long"),
        ("windows: {w: {opens: '1:00', closes: '2:00', length: 1h}}", 5, "length goes with cron"),
        ("stop: {width_percent: 5, minimum: 2}", 5, "stop.minimum"),
        ("notify: {webhook: 'file:///etc/passwd'}", 5, "notify.webhook"),
        ("windows: {w: {cron: '* * * * * *', length: 1s}}", 5, "not have five fields"),
        ("stop: {width_percent: 5, metric: aggregate}", 5, "has no metric 'aggregate'"),
        ("deadline: soon", 5, "deadline"),
        ("budget: much", 5, "'much' is no sum of money"),
        ("classes: [general, general]", 5, "'general' is here twice"),
        ("windows: [weekday-peak, weekday-peak]", 5, "'weekday-peak' is here twice"),
    ],
)
def test_a_wrong_value_is_reported_at_its_line(
    file: Path, more: str, line: int, message: str
) -> None:
    (found,) = problems(file, f"{GOOD}{more}\n")
    assert found[0] == line
    assert message in found[1]
    assert found[2]
    assert "manual" not in found[2]


@pytest.mark.parametrize(
    ("more", "message", "cure"),
    [
        (
            "holidays: [2027-02-30]",
            "holidays.0 is '2027-02-30', which does not exist",
            "write a date of the calendar",
        ),
        (
            "deadline: 2027-04-31 10:00",
            "deadline is '2027-04-31 10:00', which does not exist",
            "write a day and a time of the calendar",
        ),
        (
            "windows: {w: {cron: '0 0 30 2 *', length: 1h}}",
            "windows.w.cron: '0 0 30 2 *' never comes: no such day is in its months",
            "name another day, or a month that has it",
        ),
    ],
)
def test_a_day_that_does_not_exist_is_reported_as_such(
    file: Path, more: str, message: str, cure: str
) -> None:
    assert problems(file, f"{GOOD}{more}\n") == [(5, message, cure)]


@pytest.mark.parametrize("fields", ["0 0 32 2 *", "0 0 30 13 *", "60 0 30 2 *", "0 0 30 2 9"])
def test_a_field_out_of_range_is_no_cron_expression(file: Path, fields: str) -> None:
    (found,) = problems(file, f"{GOOD}windows: {{w: {{cron: '{fields}', length: 1h}}}}\n")
    assert "is no cron expression (Bad " in found[1]


@pytest.mark.parametrize("day", ["9999-12-30", "0001-01-01"])
def test_a_start_date_out_of_range_is_rejected(file: Path, day: str) -> None:
    (found,) = problems(file, GOOD.replace("2026-03-23", day))
    assert (found[0], "start is" in found[1]) == (4, True)


def test_platforms_of_one_name_would_be_mixed(file: Path) -> None:
    for folder in ("a", "b"):
        (file.parent / folder).mkdir()
        (file.parent / folder / "pair.yaml").write_text(SCENARIO)
    (found,) = problems(file, GOOD.replace("[pair.yaml]", "[a/pair.yaml, b/pair.yaml]"))
    assert found[0] == 2
    assert "two scenario files are called 'pair'" in found[1]
    assert found[2] == "rename one of them"


def test_a_wrong_provider_is_reported_in_the_campaign_file(file: Path) -> None:
    (found,) = problems(file, GOOD.replace("local", "cloudy"))
    assert found[0] == 3
    assert "there is no provider 'cloudy'" in found[1]


def test_a_wrong_scenario_is_reported_in_the_scenario_file(file: Path, tmp_path: Path) -> None:
    (tmp_path / "pair.yaml").write_text(SCENARIO + "repeet: 3\n")
    file.write_text(GOOD)
    with pytest.raises(InputError) as caught:
        read_campaign(file)
    (problem,) = caught.value.problems
    assert problem.file.endswith("pair.yaml")
    assert problem.line == 3


def test_a_missing_scenario_file_is_reported_where_it_is_named(file: Path) -> None:
    (found,) = problems(file, GOOD.replace("pair.yaml", "other.yaml"))
    assert found[0] == 2
    assert "there is no such file" in found[1]


def test_an_inventory_is_seen_from_the_campaign(tmp_path: Path) -> None:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "pair.yaml").write_text(
        SCENARIO + "endpoints: {sender: {kind: host}, receiver: {kind: host}}\n"
    )
    (tmp_path / "hosts.yaml").write_text("a: {ssh: me@192.0.2.1}\nb: {ssh: me@192.0.2.2}\n")
    file = tmp_path / "campaign.yaml"
    text = GOOD.replace("pair.yaml", "scenarios/pair.yaml")
    file.write_text(text.replace("local", "{kind: static, inventory: hosts.yaml}"))
    (part,) = plan_campaign(read_campaign(file)).parts.values()
    assert part.exclusive_resources == {"host 192.0.2.1", "host 192.0.2.2"}


def test_a_budget_needs_prices(file: Path) -> None:
    file.write_text(GOOD + "budget: 5 USD\n")
    with pytest.raises(InputError, match="no price of local"):
        plan_campaign(read_campaign(file))


@pytest.mark.parametrize("text", ["", "[]", "3", "a: [", "\x00"])
def test_a_malformed_campaign_file_is_rejected(file: Path, text: str) -> None:
    assert problems(file, text)


def test_files_and_clouds_are_looked_at_beside_other_problems(file: Path) -> None:
    text = "name: four\nscenarios: [pair.yaml, none.yaml]\nproviders: {here: locl}\nweeks: 0\n"
    found = problems(file, text)
    assert [line for line, *_ in found] == [1, 2, 3, 4]
    messages = " ".join(message for _, message, _ in found)
    assert "none.yaml: there is no such file" in messages
    assert "there is no provider 'locl'" in messages
    assert "'start' is missing" in messages
