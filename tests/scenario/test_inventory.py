"""Inventories: in the scenario, or in a file of their own.

A new bad inventory is a new file in ``inventories/`` and beside it ``FILE.expected``, with a line
``line:column: message`` for each problem.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from osmef.errors import InputError
from osmef.scenario.clouds.static import StaticSettings
from osmef.scenario.fields import EndpointKind
from osmef.scenario.load import load, load_text

FOLDER = Path(__file__).parent / "inventories"
FILES = sorted(path for path in FOLDER.iterdir() if path.suffix != ".expected")
HOSTS = "{a: {ssh: me@a:2222, kind: vm, location: {host: h}}, b: {ssh: '[::1]'}}"


def hosts_of(text: str, path: Path) -> StaticSettings:
    provider = load_text(text, path).scenario.provider
    assert isinstance(provider, StaticSettings)
    return provider


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_all_problems_of_an_inventory_are_reported_at_their_positions(path: Path) -> None:
    text = f"name: a\nprovider: {{kind: static, inventory: {path.name}}}\n"
    with pytest.raises(InputError) as caught:
        load_text(text, FOLDER / "scenario.yaml")
    found = [f"{p.line}:{p.column}: {p.message}" for p in caught.value.problems]
    assert found == Path(f"{path}.expected").read_text().splitlines()
    for problem in caught.value.problems:
        assert problem.file in {str(path), str(FOLDER / "scenario.yaml")}
        assert problem.cure


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        ("static", "static hosts need an inventory"),
        ("{kind: static, inventory: nowhere.yaml}", "nowhere.yaml: there is no such file"),
        ("{kind: static, inventory: ~no-such-user/x}", "there is no home directory of"),
        ("{kind: static, inventory: 7}", "inventory must be a text"),
        ("{kind: static, inventory: .}", "this is a directory"),
        (f"{{kind: static, inventory: list.yaml, hosts: {HOSTS}}}", "in the scenario and in an"),
        ("{hosts: {a: {ssh: b}}}", "provider.hosts must be a whole number"),
        ("{kind: static, hosts: 3}", "provider.hosts must be a mapping"),
    ],
)
def test_a_missing_inventory_is_reported_where_it_is_named(provider: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_text(f"name: a\nprovider: {provider}\n", FOLDER / "scenario.yaml")
    (problem,) = caught.value.problems
    assert message in problem.message
    assert (problem.file, problem.line) == (str(FOLDER / "scenario.yaml"), 2)


def test_hosts_in_a_file_are_the_same_as_in_the_scenario(tmp_path: Path) -> None:
    here = hosts_of(f"name: a\nprovider: {{kind: static, hosts: {HOSTS}}}\n", tmp_path / "s.yaml")
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "hosts.yaml").write_text(HOSTS)
    text = "name: a\nprovider: {kind: static, inventory: lab/hosts.yaml}\n"
    assert hosts_of(text, tmp_path / "s.yaml") == here
    plain = {"a": {"ssh": "x"}}
    (tmp_path / "hosts.json").write_text(json.dumps(plain))
    text = json.dumps({"name": "a", "provider": {"kind": "static", "inventory": "hosts.json"}})
    assert list(hosts_of(text, tmp_path / "s.json").hosts) == ["a"]
    assert here.hosts["a"].kind is EndpointKind.VM
    assert here.hosts["b"].location.host is None


def test_a_run_keeps_the_hosts_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    path = tmp_path / "s.yaml"
    path.write_text("name: a\nprovider: {kind: static, inventory: hosts.yaml}\n")
    study = load(path)
    (tmp_path / "hosts.yaml").unlink()
    again = load_text(study.text, tmp_path / "elsewhere" / "s.yaml")
    assert (again.digest, again.scenario) == (study.digest, study.scenario)


def test_an_inventory_can_be_set_for_one_run(
    tmp_path: Path, problems: Callable[..., list[str]]
) -> None:
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    text = "name: a\nprovider: {kind: static, inventory: other.yaml}\n"
    study = load_text(text, tmp_path / "s.yaml", {"provider.inventory": "hosts.yaml"})
    assert isinstance(study.scenario.provider, StaticSettings)
    (problem,) = problems(text, {"provider.inventory": "none.yaml"})
    assert problem.startswith("--set provider.inventory: none.yaml: there is no such file")


@pytest.mark.parametrize(
    ("hosts", "parallel", "lanes"),
    [
        ({"a": {}, "b": {}}, 1, 1),
        ({"a": {}, "b": {}}, 4, 1),
        ({"a": {}, "b": {}, "c": {}, "d": {}}, 4, 2),
        ({name: {"kind": "vm", "location": {"host": "one"}} for name in "abcd"}, 4, 1),
        ({"a": {}}, 1, 1),
    ],
)
def test_trials_run_at_once_on_hosts_of_their_own(
    hosts: dict[str, dict[str, object]], parallel: int, lanes: int
) -> None:
    written = {name: {"ssh": name, **host} for name, host in hosts.items()}
    settings = StaticSettings.model_validate({"hosts": written})
    assert settings.lanes(parallel, 9) == lanes


def test_each_known_key_is_listed_once() -> None:
    text = "name: a\nprovider: {kind: static, hosts: {a: {address: 10.0.0.1}}}\n"
    with pytest.raises(InputError) as caught:
        load_text(text, Path("a.yaml"))
    (cure,) = [p.cure for p in caught.value.problems if "unknown key" in p.message]
    meant = "'data_address' or endpoints.sender.address or endpoints.receiver.address"
    assert cure.startswith(f"did you mean {meant}? choose from: ssh, ")
    known = cure.partition("choose from: ")[2].split(", ")
    assert len(known) == len(set(known)) > 5
