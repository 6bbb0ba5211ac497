from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmef.errors import InputError
from osmef.scenario.load import load_text
from osmef.scenario.names import SWEPT, all_paths
from osmef.scenario.study import Study
from tests.btc import btc_of

Reader = Callable[..., Study]


def keys(study: Study) -> list[str]:
    return [cell.key for cell in study.cells]


def test_the_last_axis_changes_fastest(read: Reader) -> None:
    study = read(
        "name: a\nsweep:\n  tenancy: [same-tenant, different-tenant]\n  connections: [1, 10]"
    )
    assert keys(study) == [
        "tenancy=same-tenant,connections=1",
        "tenancy=same-tenant,connections=10",
        "tenancy=different-tenant,connections=1",
        "tenancy=different-tenant,connections=10",
    ]
    assert study.cells[1].values == (("tenancy", "same-tenant"), ("connections", 10))
    assert btc_of(study.cells[1].scenario).connections == 10
    assert study.scenario == study.cells[0].scenario


def test_values_stay_as_written(read: Reader) -> None:
    study = read("name: a\nsweep: {duration: [2s, 1min], endpoints.sender.flavor: [null, a b]}")
    assert keys(study)[0] == "duration=2s,endpoints.sender.flavor=null"
    assert keys(study)[-1] == 'duration=1min,endpoints.sender.flavor="a b"'
    assert study.cells[0].values == (("duration", "2s"), ("endpoints.sender.flavor", None))
    assert btc_of(study.cells[-1].scenario).duration == 60


def test_short_and_dotted_names_mean_the_same(read: Reader) -> None:
    short = read("name: a\nsweep: {connections: [1, 2]}")
    dotted = read("name: a\nsweep: {workload.connections: [1, 2]}")
    assert [c.scenario for c in short.cells] == [c.scenario for c in dotted.cells]


@pytest.mark.parametrize(
    ("endpoints", "flavors"),
    [
        ("", ("small", "small")),
        ("endpoints: {sender: {}, receiver: {flavor: big}}", ("small", "small")),
        ("endpoints: {loopback: {}}", ("small", "small")),
        ("endpoints: {loopback: {}, sender: null, receiver: }", ("small", "small")),
    ],
)
def test_flavor_goes_to_all_endpoints_that_are_there(
    read: Reader, endpoints: str, flavors: tuple[str, str]
) -> None:
    study = read(f"name: a\n{endpoints}\nsweep: {{flavor: [small]}}")
    sender, receiver = study.cells[0].scenario.ends
    assert (sender.flavor, receiver.flavor) == flavors


def test_one_end_of_the_default_pair_can_be_named(read: Reader) -> None:
    study = read("name: a\nsweep: {endpoints.sender.kind: [vm, host]}")
    assert [cell.scenario.ends[0].kind for cell in study.cells] == ["vm", "host"]
    assert {cell.scenario.ends[1].kind for cell in study.cells} == {"vm"}


def test_whole_mappings_go_before_what_is_in_them(read: Reader) -> None:
    text = """
name: a
sweep:
  endpoints.sender.flavor: [x]
  endpoints: [{sender: {flavor: y}, receiver: {kind: host}}, {sender: {}, receiver: {}}]
"""
    study = read(text)
    assert [c.scenario.ends[0].flavor for c in study.cells] == ["x", "x"]
    assert keys(study)[0] == (
        "endpoints.sender.flavor=x,endpoints={sender: {flavor: y}, receiver: {kind: host}}"
    )


def test_a_kind_alone_is_a_mapping_too(read: Reader) -> None:
    study = read("name: a\nworkload: btc\nsweep: {workload.connections: [3]}")
    assert btc_of(study.cells[0].scenario).connections == 3


def test_include_adds_cells_that_keep_what_they_do_not_name(read: Reader) -> None:
    text = """
name: a
placement: same-host
sweep:
  connections: [1]
  include:
    - {workload.connections: 50, placement: different-host}
    - {duration: 20s}
"""
    study = read(text)
    assert keys(study) == [
        "connections=1",
        "connections=50,placement=different-host",
        "duration=20s",
    ]
    assert study.cells[2].scenario.placement == "same-host"
    assert btc_of(study.cells[2].scenario).connections == 1


def test_include_alone_is_a_sweep(read: Reader) -> None:
    study = read("name: a\nsweep: {include: [{connections: 2}, {connections: 3}]}")
    assert keys(study) == ["connections=2", "connections=3"]


def test_the_scenario_needs_to_fit_in_cells_only(read: Reader) -> None:
    study = read("name: a\nworkload: {duration: 500ms}\nsweep: {interval: [10ms, 20ms]}")
    assert [btc_of(cell.scenario).interval for cell in study.cells] == [0.01, 0.02]


AXES = st.fixed_dictionaries(
    {
        "connections": st.lists(st.integers(1, 128), min_size=1, max_size=4, unique=True),
        "placement": st.lists(
            st.sampled_from(["same-host", "different-host"]), min_size=1, unique=True
        ),
        "duration": st.lists(st.integers(2, 90), min_size=1, max_size=4, unique=True),
    }
)
EXCLUDES = st.lists(
    st.dictionaries(
        st.sampled_from(["connections", "placement", "duration"]), st.integers(0, 3), min_size=1
    ),
    max_size=3,
)


@given(AXES, EXCLUDES)
def test_cells_are_the_grid_without_what_is_excluded(
    axes: dict[str, list[int | str]], excludes: list[dict[str, int]]
) -> None:
    values: dict[str, list[int | str]] = {**axes}
    values["duration"] = [f"{seconds}s" for seconds in axes["duration"]]
    chosen = [
        {name: values[name][index % len(values[name])] for name, index in entry.items()}
        for entry in excludes
    ]
    wanted = [
        ",".join(f"{name}={value}" for name, value in zip(values, row, strict=True))
        for row in itertools.product(*values.values())
        if not any(set(e.items()) <= set(zip(values, row, strict=True)) for e in chosen)
    ]
    lines = ["name: a", "sweep:", *(f"  {name}: {items}" for name, items in values.items())]
    if chosen:
        lines += ["  exclude:", *(f"    - {entry}" for entry in chosen)]
    text = "\n".join(lines)
    if not wanted:
        with pytest.raises(InputError, match="exclude leaves no cell"):
            load_text(text, Path("f.yaml"))
        return
    assert keys(load_text(text, Path("f.yaml"))) == wanted


def test_all_names_that_can_be_swept_are_known() -> None:
    assert {".".join(path) for path in all_paths(SWEPT)} >= {
        "endpoints.sender.flavor",
        "endpoints.loopback.kind",
        "placement",
        "tenancy",
        "layer",
        "family",
        "workload.duration",
        "workload.connections",
    }
