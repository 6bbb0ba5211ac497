from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import InputError
from osmef.scenario.clouds.local import LocalSettings
from osmef.scenario.load import load_text
from osmef.scenario.study import Study
from tests.btc import btc_of

Reader = Callable[..., Study]
Lister = Callable[..., list[str]]

SWEPT = """\
name: a
workload: {duration: 360s}
sweep:
  placement: [same-host, different-host]
  connections: [1, 5, 10]
  exclude: [{connections: 10, placement: same-host}]
  include: [{connections: 50}, {duration: 20s, connections: 5}]
repeat: 5
"""


def keys(study: Study) -> list[str]:
    return [cell.key for cell in study.cells]


def test_values_outside_the_sweep(read: Reader) -> None:
    text = "name: a\nworkload: btc"
    study = read(text, {"workload.duration": "2s", "interval": "100ms", "repeat": "1"})
    assert btc_of(study.scenario).duration == 2
    assert btc_of(study.scenario).interval == 0.1
    assert study.scenario.repeat == 1


def test_provider_settings_and_tags(read: Reader) -> None:
    study = read("name: a\nprovider: local", {"provider.hosts": "3", "tags.site": "lab"})
    assert isinstance(study.scenario.provider, LocalSettings)
    assert study.scenario.provider.hosts == 3
    assert study.scenario.tags == {"site": "lab"}


@pytest.mark.parametrize("name", ["connections", "workload.connections"])
@pytest.mark.parametrize("value", ["5", "[5]"])
def test_an_axis_is_replaced_and_entries_for_gone_values_fall_away(
    read: Reader, name: str, value: str
) -> None:
    study = read(SWEPT, {name: value})
    assert keys(study) == [
        "placement=same-host,connections=5",
        "placement=different-host,connections=5",
        "duration=20s,connections=5",
    ]


def test_a_list_makes_an_axis(read: Reader) -> None:
    assert keys(read("name: a", {"connections": "[1, 2]"})) == ["connections=1", "connections=2"]


def test_entries_of_include_with_another_value_fall_away(read: Reader) -> None:
    study = read(SWEPT, {"duration": "1s"})
    assert {btc_of(cell.scenario).duration for cell in study.cells} == {1}
    assert keys(study)[-1] == "connections=50"
    assert len(study.cells) == 6


def test_a_sweep_overridden_completely_leaves_one_cell(read: Reader) -> None:
    study = read("name: a\nsweep: {include: [{connections: 2}]}", {"connections": "3"})
    assert keys(study) == ["all"]
    assert btc_of(study.scenario).connections == 3


def test_a_value_wins_inside_swept_mappings(read: Reader) -> None:
    text = "name: a\nsweep: {endpoints: [{loopback: {}}, {sender: {}, receiver: {flavor: big}}]}"
    study = read(text, {"flavor": "small"})
    assert {end.flavor for cell in study.cells for end in cell.scenario.ends} == {"small"}
    assert keys(study)[0] == "endpoints={loopback: {flavor: small}}"


def test_a_value_wins_inside_entries_of_include(read: Reader) -> None:
    text = """
name: a
sweep: {include: [{workload: btc}, {workload: {connections: 2, interval: 500ms}}]}
"""
    study = read(text, {"connections": "3", "workload.duration": "2s"})
    assert {btc_of(cell.scenario).connections for cell in study.cells} == {3}


def test_problems_are_located_at_the_option(problems: Lister) -> None:
    overrides = {
        "conections": "1",
        "kind": "vm",
        "workload.duration": "10",
        "repeat": "[1, 2]",
        "connections": "[1, 1500]",
        "loss": "1 %",
        "pause": "*x",
        "seed": "010",
        "provider.colour": "blue",
        "name": "",
    }
    assert problems("name: a\nparallel: 0", overrides) == [
        "--set conections: 'conections' is no value of a scenario",
        "--set connections: workload.connections is 1500, but must be at most 1000",
        "--set kind: 'kind' can mean several values",
        "--set loss: workload btc has no search.loss",
        "--set name: name must be a text, but it is empty",
        "--set pause: this is not YAML: found undefined alias 'x'",
        "--set provider.colour: unknown key 'colour' in provider",
        "--set repeat: repeat can't be swept",
        "--set seed: 010 can mean 10 or, as an octal number, something else",
        "--set workload.duration: workload.duration: '10' has no unit",
        "file.yaml:2:11: parallel is 0, but must be at least 1",
    ]


@pytest.mark.parametrize(
    ("text", "name", "cure"),
    [
        ("name: a", "sweep", "give the values of an axis as a list, such as --set connections="),
        ("name: a", "sweep.connections", "give the values of an axis as a list, such as --set "),
        ("name: a", "stp", "choose from: name, description"),
        ("name: a\nworkload: udp", "stp", "did you mean 'step'? choose from: name, description"),
        ("name: a", "conections", "did you mean 'connections'? choose from: name, description"),
    ],
)
def test_the_cure_of_an_unknown_name_proposes_only_names_of_this_scenario(
    read: Reader, text: str, name: str, cure: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(text, {name: "{}"})
    (problem,) = caught.value.problems
    assert problem.cure.startswith(cure)


VALUES = st.dictionaries(
    st.sampled_from(["connections", "duration", "placement", "flavor", "tags.x", "repeat"]),
    st.sampled_from(
        ["1", "[1, 2]", "20s", "[20s, 30s]", "same-host", "null", "'1'", "1e3", "'yes'"]
    ),
    max_size=4,
)


@given(VALUES, st.booleans())
def test_the_text_read_again_gives_the_same_cells(overrides: dict[str, str], as_json: bool) -> None:
    path = Path("f.json" if as_json else "f.yaml")
    data = {
        "name": "a",
        "description": "1e3",
        "sweep": {"connections": [1, 2], "include": [{"duration": "15s"}]},
        "tags": {"yes": "no", "1": "true", "empty": ""},
    }
    try:
        study = load_text(json.dumps(data), path, overrides)
    except InputError:
        return
    again = load_text(study.text, path)
    assert again.cells == study.cells
    assert again.digest == study.digest


def test_a_list_entry_is_overridden_by_its_index(tmp_path: Path) -> None:
    text = "name: a\nworkload: {kind: program, run: [{on: sender, argv: [sleep, 1]}]}"
    path = tmp_path / "a.yaml"
    study = load_text(text, path, {"workload.run.0.argv.1": "2"})
    assert study.scenario.workload.model_dump()["run"][0]["argv"] == ["sleep", "2"]
    with pytest.raises(
        InputError, match=r"no workload\.run\.1: the list ends with workload\.run\.0"
    ):
        load_text(text, path, {"workload.run.1.argv": "[sleep, 2]"})
