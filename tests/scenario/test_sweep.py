from __future__ import annotations

import itertools
import re
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
    assert keys(read('name: a\nsweep: {endpoints.sender.flavor: [größe, "a\\x07"]}')) == [
        'endpoints.sender.flavor="größe"',
        'endpoints.sender.flavor="a\\u0007"',
    ]


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
def test_a_swept_flavor_is_applied_to_all_endpoints(
    read: Reader, endpoints: str, flavors: tuple[str, str]
) -> None:
    study = read(f"name: a\n{endpoints}\nsweep: {{flavor: [small]}}")
    sender, receiver = study.cells[0].scenario.ends
    assert (sender.flavor, receiver.flavor) == flavors


def test_one_end_of_the_default_pair_can_be_named(read: Reader) -> None:
    study = read("name: a\nsweep: {endpoints.sender.kind: [vm, host]}")
    assert [cell.scenario.ends[0].kind for cell in study.cells] == ["vm", "host"]
    assert {cell.scenario.ends[1].kind for cell in study.cells} == {"vm"}


def test_whole_mappings_are_applied_before_their_entries(read: Reader) -> None:
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


def test_a_workload_given_by_kind_alone_can_be_swept(read: Reader) -> None:
    study = read("name: a\nworkload: btc\nsweep: {workload.connections: [3]}")
    assert btc_of(study.cells[0].scenario).connections == 3


PROGRAMS = """
name: a
workload:
  kind: program
  run:
    - {on: receiver, argv: [server, "{port}"], ready: port}
    - {on: sender, argv: [client, -P, 1, "{port}"]}
  metrics: {rate: {pattern: '(x)', unit: B/s}}
"""


def test_a_list_entry_is_swept_by_its_index(read: Reader) -> None:
    study = read(f"{PROGRAMS}sweep: {{workload.run.1.argv.2: [1, 8], family: [ipv4, ipv6]}}")
    assert keys(study)[-1] == "workload.run.1.argv.2=8,family=ipv6"
    told = [cell.scenario.workload.model_dump()["run"] for cell in study.cells]
    assert [run[1]["argv"][2] for run in told] == ["1", "1", "8", "8"]
    assert {tuple(run[0]["argv"]) for run in told} == {("server", "{port}")}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "run: [{on: sender, argv: [a, -1], env: {N: 2.50, T: yes}, ipv6: [-6]}]",
            "-1 2.50 yes -6",
        ),
        ("metrics: {env: {pattern: '(x)', optional: true}}", "1 None None None"),
    ],
)
def test_arguments_are_texts_as_they_are_written(read: Reader, text: str, told: str) -> None:
    usual = "run: [{on: sender, argv: [a, 1]}]"
    lines = text if text.startswith("run") else f"{usual}\n  {text}"
    study = read(f"name: a\nworkload:\n  kind: program\n  {lines}")
    (run,) = study.scenario.workload.model_dump()["run"]
    found = [run["argv"][1], *(run["env"].get(name) for name in "NT"), *(run["ipv6"] or [None])]
    assert " ".join(map(str, found)) == told


@pytest.mark.parametrize(
    "swept", ["workload.run.0.argv: [[a, 2.50]]", "workload.run.0.argv.1: [2.50]",
              "workload.run.0.env.N: [2.50]"],
)  # fmt: skip
def test_arguments_that_are_swept_are_texts_too(read: Reader, swept: str) -> None:
    study = read(
        "name: a\nworkload: {kind: program, run: [{on: sender, argv: [a, b]}]}\n"
        f"sweep: {{{swept}}}"
    )
    (run,) = study.cells[0].scenario.workload.model_dump()["run"]
    assert [*run["argv"], *run["env"].values()][-1] == "2.50"


def test_a_mapping_entry_is_swept_by_its_key(read: Reader) -> None:
    patterns = "sweep: {workload.metrics.rate.pattern: ['(y)', '(z)']}"
    study = read(PROGRAMS + patterns)
    told = [cell.scenario.workload.model_dump()["metrics"]["rate"] for cell in study.cells]
    assert [one["pattern"] for one in told] == ["(y)", "(z)"]


def test_a_list_that_is_swept_comes_before_what_is_in_it(read: Reader) -> None:
    text = """
name: a
workload: {kind: program, run: [{on: sender, argv: [one]}]}
sweep:
  workload.run.1.argv.0: [three, four]
  workload.run: [[{on: sender, argv: [one]}, {on: sender, argv: [two]}]]
"""
    runs = [cell.scenario.workload.model_dump()["run"] for cell in read(text).cells]
    assert [run[1]["argv"] for run in runs] == [["three"], ["four"]]


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("workload.run.2.argv", "there is no workload.run.2: the list ends with workload.run.1"),
        ("workload.run.0.argv.9", "there is no workload.run.0.argv.9: the list ends with"),
        ("workload.needs.0", "workload.needs is no list here, so it has no 0"),
        ("workload.run.x", "'workload.run.x' is no value that can be swept"),
        ("workload.run.0.argc", "'workload.run.0.argc' is no value that can be swept"),
        ("workload.run.0.argv.0.x", "'workload.run.0.argv.0.x' is no value that can be swept"),
    ],
)
def test_a_sweep_over_a_missing_list_entry_is_reported(read: Reader, place: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read(f"{PROGRAMS}sweep: {{{place}: [a, b]}}")
    assert said in str(caught.value)


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


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("loss", "search.loss belongs to kind: udp; known here are: kind, duration, bytes"),
        ("beside", "beside belongs to kind: latency; known here are: kind, duration, bytes"),
        ("mtu", "write it with its path: layer.mtu"),
    ],
)
def test_the_cure_of_an_unknown_sweep_axis_names_its_valid_place(
    read: Reader, name: str, cure: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(f"name: a\nworkload: btc\nsweep:\n  {name}: [1, 2]")
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (4, 3)
    assert problem.cure.startswith(cure)


@pytest.mark.parametrize(
    ("workload", "name", "cure"),
    [
        (
            "btc",
            "workload.foo",
            "choose from: workload.kind, workload.duration, workload.conn",
        ),
        (
            "btc",
            "workload.conections",
            "did you mean 'workload.connections'? choose from: workload.",
        ),
        ("udp", "workload.loss_treshold", "did you mean 'workload.loss_threshold'? choose from: "),
        ("btc", "workload.loss_treshold", "choose from: workload.kind"),
        ("btc", "lose", "choose from: endpoints, pairs, placement"),
        ("udp", "los", "did you mean 'loss'? choose from: endpoints, pairs, placement"),
        ("btc", "layer.mtx", "did you mean 'layer.mtu'? choose from: layer.kind, layer.mtu"),
        (
            "btc",
            "endpoints.sendr.flavor",
            "did you mean 'endpoints.sender.flavor'? choose from: end",
        ),
    ],
)
def test_the_cure_of_an_unknown_sweep_axis_proposes_only_names_of_its_workload(
    read: Reader, workload: str, name: str, cure: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(f"name: a\nworkload: {workload}\nsweep:\n  {name}: [1, 2]")
    (problem,) = caught.value.problems
    assert problem.cure.startswith(cure)


@pytest.mark.parametrize(
    "swept", ["workload: [btc, udp]", "workload.kind: [btc, udp]", "include: [{workload: udp}]"]
)
def test_the_cure_of_an_unknown_sweep_axis_proposes_names_of_any_swept_workload(
    read: Reader, swept: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(f"name: a\nsweep:\n  {swept}\n  workload.loss_treshold: [1]")
    cure = "did you mean 'workload.loss_threshold'? choose from: endpoints, pairs, placement"
    assert any(problem.cure.startswith(cure) for problem in caught.value.problems)


def test_the_manual_names_every_key_that_can_be_swept() -> None:
    page = (Path(__file__).parents[2] / "docs" / "scenario.md").read_text()
    sentence = page.partition("You can sweep everything")[2].partition("and all keys under them")[0]
    assert {f"`{key}`" for key in SWEPT} == set(re.findall(r"`\w+`", sentence))
