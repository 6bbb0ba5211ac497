from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from osmef.scenario.fields import FlavorNeed
from tests.scenario.conftest import Reader


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "osmef").mkdir()
    return tmp_path / "osmef"


def test_a_class_is_a_need_where_it_has_no_name(read: Reader) -> None:
    study = read("name: t\nsweep: {flavor: [class:general, class:memory]}\n")
    flavors = [cell.scenario.ends[0].flavor for cell in study.cells]
    assert flavors == [FlavorNeed(vcpus=1, ram="1GiB"), FlavorNeed(vcpus=4, ram="26GiB")]
    assert [cell.key for cell in study.cells] == ["flavor=class:general", "flavor=class:memory"]


def test_a_user_s_class_counts_more_and_a_run_keeps_it(read: Reader, home: Path) -> None:
    (home / "classes.yaml").write_text("memory: {vcpus: 2, flavors: {local: large}}\n")
    study = read("name: t\nendpoints: {sender: {flavor: class:memory}, receiver: {}}\n")
    assert study.scenario.ends[0].flavor == "large"
    (home / "classes.yaml").unlink()
    assert read(study.text).scenario.ends[0].flavor == "large"


def test_an_unknown_class_is_a_problem_at_its_place(problems: Callable[..., list[str]]) -> None:
    found = problems("name: t\nendpoints: {sender: {flavor: class:memry}, receiver: {}}\n")
    assert found == ["file.yaml:2:30: there is no class 'memry'"]


def test_a_class_names_no_other_class(problems: Callable[..., list[str]]) -> None:
    found = problems(
        "name: t\nendpoints: {sender: {flavor: class:a}, receiver: {}}\n"
        "classes:\n  a: {vcpus: 1, flavors: {local: class:memory}}\n"
    )
    assert found == ["file.yaml:4:6: the class 'a' names another class, 'class:memory'"]


def test_an_error_in_classes_yaml_is_reported_at_its_position(
    problems: Callable[..., list[str]], home: Path
) -> None:
    (home / "classes.yaml").write_text("memory: {vcpus: many}\n")
    found = problems("name: t\nendpoints: {sender: {flavor: class:memory}, receiver: {}}\n")
    assert found[0].startswith(f"{home}/classes.yaml:1:17: ")


BOTH = "endpoints: {sender: {site: a}, receiver: {site: b}}\n"
GCE = "kind: gce, region: r-1, controller_cidr: 192.0.2.1/32"


def test_a_class_may_be_a_cloud_s_default(read: Reader) -> None:
    (cell,) = read(
        f"name: t\nprovider: {{{GCE}, default_flavor: class:memory}}\n"
        "classes: {memory: {vcpus: 4, flavors: {gce: big}}}\n"
        "endpoints: {sender: {}, receiver: {flavor: small}}\n"
    ).cells
    assert [end.flavor for end in cell.scenario.ends] == ["big", "small"]


def test_each_site_has_its_own_default(read: Reader) -> None:
    (cell,) = read(
        f"name: t\nsites: {{a: {{{GCE}, default_flavor: class:tiny}}, b: {{kind: local}}}}\n"
        f"classes: {{tiny: {{vcpus: 2}}}}\nplacement: any\n{BOTH}"
    ).cells
    assert [end.flavor for end in cell.scenario.ends] == [FlavorNeed(vcpus=2), None]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"provider: {{{GCE}, default_flavor: class:nono}}\n", "2:83"),
        (
            f"sites: {{a: {{{GCE}, default_flavor: class:nono}}, b: local}}\n{BOTH}",
            "2:84",
        ),
    ],
)
def test_an_unknown_class_of_a_cloud_is_a_problem_there(
    problems: Callable[..., list[str]], text: str, place: str
) -> None:
    assert problems(f"name: t\n{text}") == [f"file.yaml:{place}: there is no class 'nono'"]
