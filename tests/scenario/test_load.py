from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from osmef.errors import InputError
from osmef.scenario.clouds.local import LocalSettings
from osmef.scenario.fields import EndpointKind, Placement, TrialOrder
from osmef.scenario.load import load, load_text
from osmef.scenario.model import Scenario
from osmef.scenario.names import all_paths
from osmef.scenario.study import Study
from osmef.scenario.text_file import MAX_BYTES
from osmef.scenario.yaml_text import write_yaml
from tests.btc import btc_of

FULL = """\
name: full                       # a comment
description: "all keys: of a scenario"
provider: {kind: local, hosts: 3, link_rate: 100Mbit/s, flavors: {tiny: {vcpus: 1}}}
endpoints:
  sender: {kind: vm, flavor: tiny}
  receiver: {kind: host}
placement: same-host
tenancy: same-tenant
layer: bare
workload: {kind: btc, duration: 2min, interval: 500ms, connections: 7}
repeat: 3
order: sequential
seed: 42
pause: 5s
parallel: 2
on_mismatch: record
tags: {site: "7", note: no}
"""


def outcome(text: str, path: Path) -> Study | InputError:
    try:
        return load_text(text, path)
    except InputError as error:
        return error


def assert_inside(text: str, error: InputError) -> None:
    """Every place is a character of the text, or the one right after a line."""
    lines = text.split("\n")
    for problem in error.problems:
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1


def test_a_campaign_is_named_as_such() -> None:
    text = "name: weeks\nscenarios: [a.yaml]\nproviders: {here: local}\nstart: 2026-03-23\n"
    error = outcome(text, Path("my weeks.yaml"))
    assert isinstance(error, InputError)
    (problem,) = error.problems
    assert (problem.line, problem.message) == (2, "this is a campaign, not a scenario")
    assert problem.cure == "run it with: osmef campaign run 'my weeks.yaml'"


def test_all_keys_become_typed_values(tmp_path: Path) -> None:
    path = tmp_path / "full.yaml"
    path.write_text(FULL)
    study = load(path)
    scenario = study.scenario
    assert isinstance(scenario.provider, LocalSettings)
    assert scenario.provider.link_rate == 100e6
    assert btc_of(scenario).duration == 120
    assert btc_of(scenario).interval == 0.5
    assert scenario.placement is Placement.SAME_HOST
    assert [end.kind for end in scenario.ends] == [EndpointKind.VM, EndpointKind.HOST]
    assert scenario.order is TrialOrder.SEQUENTIAL
    assert scenario.pause == 5
    assert scenario.tags == {"site": "7", "note": "no"}
    assert (study.path, study.text) == (path, FULL)
    assert study.digest == hashlib.sha256(FULL.encode()).hexdigest()


def test_a_scenario_needs_only_a_name() -> None:
    study = load_text("name: a", Path("a.yaml"))
    assert [(cell.key, cell.values) for cell in study.cells] == [("all", ())]
    assert study.scenario == Scenario(name="a")


def test_json_and_yaml_give_the_same(tmp_path: Path) -> None:
    data = {
        "name": "a",
        "repeat": 2,
        "sweep": {"connections": [1, 2]},
        "description": "\u00e9\u2028",
    }
    as_json = load_text(json.dumps(data, indent="\t"), Path("a.json"))
    as_yaml = load_text(write_yaml(data), Path("a.yaml"))
    assert as_json.cells == as_yaml.cells


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_byte_order_mark_and_windows_line_ends(tmp_path: Path, suffix: str) -> None:
    text = {"yaml": "name: a\r\nrepeat: 0\r\n", "json": '{"name": "a",\r\n"repeat": 0}\r\n'}[suffix]
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    with pytest.raises(InputError, match=r":2:\d+: repeat is 0"):
        load(path)


class TestFilesThatCannotBeRead:
    def test_a_missing_file_is_reported_with_a_cure(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such file") as caught:
            load(tmp_path / "none.yaml")
        assert caught.value.where == str(tmp_path / "none.yaml")
        assert caught.value.cure

    def test_a_directory_is_no_scenario_file(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="directory"):
            load(tmp_path)

    def test_a_file_in_the_place_of_a_directory_is_reported(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("name: a")
        with pytest.raises(InputError, match="Not a directory"):
            load(tmp_path / "file" / "a.yaml")

    def test_an_impossible_path_can_not_be_read(self) -> None:
        with pytest.raises(InputError, match="can't be read"):
            load(Path("a\0b"))

    def test_bytes_that_are_not_utf8_are_reported_with_their_place(self, tmp_path: Path) -> None:
        path = tmp_path / "latin.yaml"
        path.write_bytes("name: a\ndescription: caf\u00e9\n".encode("latin-1"))
        with pytest.raises(InputError, match=":2:17: the file is not UTF-8: byte 0xE9"):
            load(path)

    def test_a_nul_character_is_reported_with_its_place(self, tmp_path: Path) -> None:
        path = tmp_path / "nul.yaml"
        path.write_bytes(b"name: a\nplacement: \0\n")
        with pytest.raises(InputError, match=r":2:12: the character U\+0000"):
            load(path)

    def test_a_file_larger_than_256_kib_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "large.yaml"
        path.write_text("name: a\n" + "#" * MAX_BYTES)
        with pytest.raises(InputError, match="it is larger than 256 KiB"):
            load(path)


TEXTS = st.one_of(
    st.text(max_size=200),
    st.text(alphabet="name: a\n-[]{},&*!|>'\"#%@`?\t\\x1.~<=", max_size=120),
    st.text(alphabet='{}[]",:\\u0123def \n\t-+.eEtrnl', max_size=120),
)


@given(TEXTS, st.sampled_from([Path("f.yaml"), Path("f.json")]))
def test_any_text_is_a_study_or_an_input_error(text: str, path: Path) -> None:
    result = outcome(text, path)
    if isinstance(result, InputError):
        assert result.problems
        assert_inside(text.removeprefix("\ufeff"), result)


WORDS = sorted(
    {path[-1] for path in all_paths(tuple(Scenario.model_fields))} | {"sweep", "include"}
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["vm", "host", "same-host", "different-tenant", "1s", "1Gbit/s", "local"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(WORDS), st.text(max_size=5)), inner, max_size=5),
    ),
    max_leaves=20,
)
TOPS = st.dictionaries(st.sampled_from([*Scenario.model_fields, "sweep"]), VALUES, max_size=6)


@example({"sweep": {"workload": {}}}, Path("f.yaml"))
@given(TOPS, st.sampled_from([Path("f.yaml"), Path("f.json")]))
def test_any_data_is_a_study_or_an_input_error(data: dict[str, Any], path: Path) -> None:
    text = json.dumps({"name": "a", **data}, indent=1)
    result = outcome(text, path)
    if isinstance(result, InputError):
        assert result.problems
        assert_inside(text, result)
        assert [p for p in result.problems if "see the scenario reference" in p.cure] == []
        assert result.problems == tuple(sorted(result.problems))


def test_a_missing_space_after_a_colon_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_text("name:a\nworkload: {kind: btc}\n", tmp_path / "x.yaml")
    assert [one.cure for one in caught.value.problems] == ["put a space after the colon of 'name:'"]


@pytest.mark.parametrize(
    ("text", "character"),
    [
        ("expect:\n  aggregate_btc_bps: >= 5 Gbit/s", ">"),
        ("expect: {aggregate_btc_bps: >= 5 Gbit/s}", ">"),
        ("description: @home", "@"),
        ("description: *star", "*"),
    ],
)
def test_a_text_that_needs_quotes_is_explained(text: str, character: str) -> None:
    with pytest.raises(InputError) as caught:
        load_text(f"name: a\n{text}\n", Path("x.yaml"))
    cures = [one.cure for one in caught.value.problems]
    assert cures == [f"put a text that begins with {character} in quotes"]


@pytest.mark.parametrize(("name", "meant"), [("amazon", "aws"), ("GCP", "gce"), ("locl", "local")])
def test_a_provider_is_suggested_by_its_common_names(tmp_path: Path, name: str, meant: str) -> None:
    with pytest.raises(InputError) as caught:
        load_text(f"name: a\nprovider: {name}\nworkload: {{kind: btc}}\n", tmp_path / "x.yaml")
    assert caught.value.problems[0].cure.startswith(f"did you mean {meant!r}?")


@pytest.mark.parametrize(
    ("settings", "cure"),
    [
        (
            "provider: {kind: local, flavors: {small: {vcpus: 1, ram: 1GiB}}}",
            "it belongs to kind: libvirt; known here are: vcpus",
        ),
        (
            "sites: {a: {flavors: {small: {vcpus: 1, ram: 1GiB}}}, b: libvirt}",
            "it belongs to kind: libvirt; known here are: vcpus",
        ),
        (
            "provider: {kind: libvirt, flavors: {ram: {vcpus: 1, ram: 1GiB, rum: 2}}}",
            "did you mean 'ram'? choose from: vcpus, ram",
        ),
        (
            "workload: {kind: program, metrics: {x: {unitt: s}}, run: [{argv: [a]}]}",
            "did you mean 'unit'? choose from: pattern, json, unit,",
        ),
        (
            "workload: {kind: program, directory: /tmp, run: [{argv: [a]}]}",
            "it belongs into run; known here are: kind, duration,",
        ),
        (
            "provider: {kind: openstack, flavor: m1.small}",
            "did you mean 'default_flavor' or endpoints.sender.flavor or endpoints.receiver.flavor",
        ),
        ("provider: {kind: static, nics: [eth1]}", "it belongs into hosts; known here are: kind"),
        ("provider: {kind: libvirt, vcpus: 2}", "it belongs into flavors; known here are: kind"),
        (
            "provider: {kind: static, hosts: {a: {ssh: a, zone: z}}}",
            "it belongs into location; known here are: ssh",
        ),
        (
            "background: {kind: program, unit: s, run: [{argv: [a]}]}",
            "it belongs into metrics; known here are: kind, duration,",
        ),
    ],
)
def test_the_keys_beside_a_nested_unknown_one_are_of_its_own_kind(
    tmp_path: Path, settings: str, cure: str
) -> None:
    with pytest.raises(InputError) as caught:
        load_text(f"name: a\n{settings}\n", tmp_path / "x.yaml")
    (found,) = [one.cure for one in caught.value.problems if "unknown key" in one.message]
    assert found.startswith(cure)
