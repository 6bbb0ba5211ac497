"""Kinds that installed packages bring: used like our own, and named where they are broken."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from osmef.errors import AgentError
from osmef.kinds import LAYERS, PROVIDERS, WORKLOADS, Kinds, Own, _undefined
from osmef.results.observations import Purpose
from osmef.scenario.load import load_text
from osmef.workloads import kinds
from osmef.workloads.trial_workload import TrialWorkload, usual_measures
from tests.cli.conftest import Ended
from tests.cli.warm import warm

GOOD = r'''
from typing import Literal
from pydantic import Field
from osmef.results.measure import Measure
from osmef.scenario.fields import Duration
from osmef.scenario.workload import WorkloadSettings
from osmef.workloads.base import Outcome, Workload

class Settings(WorkloadSettings):
    """Paint: how fast a wall gets wet."""
    kind: Literal["paint"] = Field(default="paint", description="the kind of workload")
    coats: int = Field(default=2, ge=1, le=9, description="layers of paint")
    drying: Duration = Field(default=60.0, description="between two layers")

WALLS = Measure(
    name="walls_per_s", unit="1/s", better="higher", help="walls that got wet", source="Painters",
    head="walls\n/s", leading=True,
)

class Paint(Workload[Settings]):
    Settings = Settings
    measures = (WALLS,)
    example = "workload: {kind: paint, coats: 3}"
    def parts(self): return ()
    def outcome(self, trial, purpose, pairs): return Outcome({"walls_per_s": None})
'''
CLOUD = '''
from typing import Literal
from pydantic import Field
from osmef.providers.local.provider import LocalProvider
from osmef.scenario.clouds.local import LocalSettings

class Settings(LocalSettings):
    """A cloud like the local one."""
    kind: Literal["mist"] = Field(default="mist", description="the kind of cloud")

class Mist(LocalProvider):
    kind = "mist"
    Settings = Settings
'''


@dataclass
class Site:
    """A folder of installed packages, and ``osmef`` where it sees them."""

    folder: Path

    def install(self, package: str, module: str, *points: str, group: str = "workloads") -> None:
        """Install a package of one module with these entry points."""
        (self.folder / f"{package}.py").write_text(module)
        info = self.folder / f"{package}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        listed = "\n".join(points)
        (info / "entry_points.txt").write_text(f"[osmef.{group}]\n{listed}\n")

    def osmef(self, *words: str) -> Ended:
        """Run ``osmef`` to its end, in this folder, whose packages Python finds."""
        begun = warm().start(words, self.folder, {**os.environ, "COLUMNS": "200"})
        out, err = begun.communicate(timeout=60)
        return Ended(begun.returncode or 0, out, err)

    def told(self, *words: str) -> Any:
        """Return the JSON that ``osmef`` prints."""
        return self.osmef(*words, "--json").json()

    def write(self, text: str) -> str:
        (self.folder / "x.yaml").write_text(f"name: x\n{text}\n")
        return "x.yaml"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_built_in_kinds_are_those_that_have_a_module() -> None:
    modules = {path.stem for path in Path(kinds.__file__).parent.glob("[a-z]*.py")}
    assert set(WORKLOADS.own) == {name.replace("_", "-") for name in modules} >= {"btc", "udp"}
    clouds = {"aws", "azure", "gce", "libvirt", "local", "openstack", "static"}
    assert set(PROVIDERS.own) == clouds
    for found in (WORKLOADS, LAYERS, PROVIDERS):
        for name in found.own:
            assert found.settings(name).model_fields["kind"].default == name


@pytest.mark.parametrize("found", [WORKLOADS, LAYERS, PROVIDERS])
def test_a_kind_like_one_of_ours_is_not_refused_as_incomplete(found: Kinds) -> None:
    assert [one for name in found.own for one in _undefined(found.get(name))] == []


def test_the_layer_of_the_page_is_used_like_our_own(site: Site) -> None:
    page = (Path(__file__).parents[1] / "docs" / "adding-a-layer.md").read_text()
    code = page.partition("```python\n")[2].partition("```")[0]
    site.install("osmef_ipvlan", code, "ipvlan = osmef_ipvlan:Ipvlan", group="layers")
    (listed,) = [one for one in site.told("layers")["layers"] if one["name"] == "ipvlan"]
    assert listed["package"] == "osmef_ipvlan 1.2"
    assert "ipvlan" in site.told("layers", "ipvlan")["needs"][-1]
    good = site.osmef("validate", site.write("layer: [bridge, {kind: ipvlan, mtu: 1400}]"))
    assert good.code == 0, good.out
    bad = site.osmef("validate", site.write("layer: {kind: ipvlan, mut: 1400}"))
    assert "x.yaml:2:23: unknown key 'mut' in layer" in bad.out + bad.err


def test_a_process_of_its_own_finds_what_is_in_its_path(site: Site) -> None:
    site.install("osmef_paint", GOOD, "paint = osmef_paint:Paint")
    path = os.pathsep.join([str(site.folder), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "osmef", "validate", site.write("workload: paint")],
        cwd=site.folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


class TestGood:
    """A package that brings a workload."""

    @pytest.fixture(autouse=True)
    def _installed(self, site: Site) -> None:
        site.install("osmef_paint", GOOD, "paint = osmef_paint:Paint")

    def test_it_is_listed_and_shown_with_its_settings(self, site: Site) -> None:
        (paint,) = [one for one in site.told("workloads")["workloads"] if one["name"] == "paint"]
        assert paint["what"] == "Paint: how fast a wall gets wet."
        assert paint["package"] == "osmef_paint 1.2"
        told = site.told("workloads", "paint")
        assert told["settings"][1] == {
            "key": "drying",
            "value": "duration",
            "default": "1 min",
            "meaning": "between two layers",
        }
        walls = {"name": "walls_per_s", "unit": "1/s", "better": "higher"}
        assert told["measures"] == [{**walls, "help": "walls that got wet"}]
        shown = site.osmef("workloads", "paint").out
        for text in ("coats: 3", "walls_per_s", "walls that got wet"):
            assert text in shown

    @pytest.mark.parametrize(
        "text",
        [
            "workload: paint",
            "workload: {kind: paint, coats: 3, drying: 2min}",
            "workload: paint\nsweep: {coats: [1, 2]}",
            "sweep: {workload: [btc, {kind: paint, drying: 10s}]}",
        ],
    )
    def test_an_installed_workload_can_be_used_in_scenarios(self, site: Site, text: str) -> None:
        done = site.osmef("validate", site.write(text))
        assert done.code == 0, done.err

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("workload: {kind: paint, coat: 3}", "x.yaml:2:25: unknown key 'coat' in workload"),
            ("workload: {kind: paint, coats: 0}", "workload.coats is 0, but must be at least 1"),
            ("workload: {kind: paint, drying: 5}", "x.yaml:2:33: workload.drying: "),
            ("workload: pint", "did you mean 'paint'?"),
            ("workload: {kind: btc, coats: 2}", "it belongs to kind: paint"),
            ("background: paint", "there is no background 'paint'"),
        ],
    )
    def test_an_error_in_a_workload_is_reported_with_its_position(
        self, site: Site, text: str, said: str
    ) -> None:
        done = site.osmef("validate", site.write(text))
        assert done.code == 2
        assert said in done.err

    def test_the_schema_has_it(self, site: Site) -> None:
        schema = json.loads(site.osmef("schema").out)
        assert "paint" in json.dumps(schema["properties"]["workload"])
        assert "walls" not in json.dumps(schema)
        assert "coats" in schema["properties"]["sweep"]["properties"]


CLASS_LEVEL = "    measures = (WALLS,)\n"
BY_SETTINGS = """
    @property
    def measures(self): return (WALLS,) if self._settings.coats == 2 else ()
"""
DEFAULT, REQUIRED = "Field(default=2, ", "Field("


@pytest.mark.parametrize(
    ("measures", "coats", "names"),
    [
        (BY_SETTINGS, DEFAULT, ["walls_per_s"]),
        (BY_SETTINGS, REQUIRED, []),
        (CLASS_LEVEL, REQUIRED, ["walls_per_s"]),
        ("", DEFAULT, []),
    ],
)
def test_the_measures_are_those_of_the_default_settings(
    site: Site, measures: str, coats: str, names: list[str]
) -> None:
    module = GOOD.replace(CLASS_LEVEL, measures).replace(DEFAULT, coats)
    site.install("osmef_paint", module, "paint = osmef_paint:Paint")
    assert [one["name"] for one in site.told("workloads", "paint")["measures"]] == names


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("btc", "aggregate_btc_bps"),
        ("latency", "rtt_p50_us"),
        ("pingpong", "requests_per_s"),
        ("program", "program_cpu_percent"),
        ("size-sweep", "n_half_bytes"),
        ("udp", "loss_percent"),
    ],
)
def test_built_in_workloads_declare_their_metrics(kind: str, name: str) -> None:
    names = {one.name for one in usual_measures(kind)}
    assert name in names
    assert not {"loaded_rtt_p50_us", "reverse_aggregate_btc_bps"} & names


@pytest.mark.parametrize(
    ("module", "point", "why"),
    [
        ("import nothing_like_it", "x = pkg:X", "No module named 'nothing_like_it'"),
        ("1 / 0", "x = pkg:X", "ZeroDivisionError"),
        ("raise SystemExit(3)", "x = pkg:X", "SystemExit"),
        ("X = 3", "x = pkg:X", "pkg:X is no class derived from osmef.workloads.base:Workload"),
        ("", "x = pkg:X", "has no attribute 'X'"),
        (f"{GOOD}\nX = Paint", "x = pkg:X", "has no kind whose default is 'x'"),
        (f"{GOOD}\nclass X(Workload): pass", "x = pkg:X", "has no Settings, outcome, parts"),
        (f"{GOOD}\nX = Paint", "btc = pkg:X", "osmef itself has a workload of this name"),
    ],
)
def test_a_broken_plugin_is_named_and_does_not_stop_others(
    site: Site, module: str, point: str, why: str
) -> None:
    site.install("pkg", module, point)
    site.install("good", GOOD, "paint = good:Paint")
    listed = site.told("workloads")
    (broken,) = listed["broken"]
    assert broken["package"] == "pkg"
    assert why in broken["why"]
    assert {"btc", "paint"} <= {one["name"] for one in listed["workloads"]}
    done = site.osmef("validate", site.write("workload: paint\nsweep: {coats: [1, 2]}"))
    assert done.code == 0, done.err
    assert why in site.osmef("workloads").err
    if broken["name"] == "x":
        done = site.osmef("validate", site.write("workload: x"))
        assert done.code == 2
        assert "x.yaml:2:11: the workload x can't be used" in done.err
        assert "cure: fix or remove the package: pip uninstall pkg" in done.err
        assert site.osmef("workloads", "x").code == 2


RUNS = "def parts(self): return ()"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (RUNS, "def parts(self): return 1 / 0", "ZeroDivisionError: division by zero"),
        (RUNS, "def parts(self): raise OSError", "OSError"),
    ],
)
def test_a_plugin_that_fails_while_it_is_used_is_named_with_the_line(
    site: Site, old: str, new: str, why: str
) -> None:
    site.install("pkg", GOOD.replace(old, new), "paint = pkg:Paint")
    done = site.osmef("validate", site.write("workload: paint"))
    line = next(n for n, text in enumerate(GOOD.splitlines(), 1) if RUNS in text)
    assert done.code == 2
    assert f"pkg.py:{line}: the workload paint failed: {why}\n" in done.err
    assert "cure: fix or remove the package: pip uninstall pkg" in done.err
    assert "Traceback" not in done.err


def test_the_failure_of_one_of_several_kinds_is_of_their_package(site: Site) -> None:
    other = GOOD.replace("Paint(", "Sand(").replace('"paint"', '"sand"')
    module = f"{GOOD.replace(RUNS, 'def parts(self): return 1 / 0')}\n{other}"
    site.install("pkg", module, "paint = pkg:Paint", "sand = pkg:Sand")
    done = site.osmef("validate", site.write("sweep: {workload: [sand, paint]}"))
    assert "the package pkg failed: ZeroDivisionError" in done.err
    assert "cure: fix or remove the package: pip uninstall pkg" in done.err


def test_wrong_numbers_of_a_plugin_are_blamed_on_its_package(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.install("pkg", GOOD.replace('Outcome({"walls', 'Outcome({"wails'), "paint = pkg:Paint")
    monkeypatch.syspath_prepend(str(site.folder))
    ours = Kinds("workload", WORKLOADS.group, WORKLOADS._own)
    monkeypatch.setattr("osmef.workloads.trial_workload.WORKLOADS", ours)
    paint = ours.get("paint")(ours.settings("paint")())
    trial = TrialWorkload(load_text("name: x", Path("x.yaml")).scenario)
    with pytest.raises(AgentError, match="differ by wails_per_s, walls_per_s") as caught:
        trial._outcome(paint, 1, Purpose.MEASURED, [])
    assert caught.value.cure == "fix or remove the package: pip uninstall pkg"


LAYER = """
from typing import Literal
from osmef.layers.namespaces import Tunnel
from osmef.scenario.layers import LayerSettings

class Settings(LayerSettings):
    kind: Literal["x"] = "x"

class X(Tunnel[Settings]):
    Settings = Settings
    def numbers(self, underlay): return {}
    def link(self, end, peer, numbers, family): return ""
"""


def test_a_layer_without_a_value_that_its_base_declares_is_broken(site: Site) -> None:
    site.install("pkg", LAYER, "x = pkg:X", group="layers")
    (broken,) = site.told("layers")["broken"]
    assert broken["why"] == "TypeError: pkg:X has no overhead"


PLAIN = """
from typing import Literal
from osmef.workloads.programs import ProgramsSettings, Run
from osmef.workloads.tool import Tool

class Settings(ProgramsSettings):
    kind: Literal["plain"] = "plain"

class Plain(Tool[Settings]):
    Settings = Settings
    output_measures = ()
    def runs(self): return [Run(on="sender", argv=["true"])]
    def parse(self, ended): return {}
"""


@pytest.mark.parametrize(
    ("module", "line"),
    [
        (PLAIN, ""),
        (
            PLAIN.replace("    Settings", '    """Plain: nothing."""\n    Settings'),
            "Plain: nothing.",
        ),
        (PLAIN.replace("    kind", '    """Of it."""\n    kind'), "Of it."),
    ],
)
def test_an_installed_kind_is_listed_with_its_own_docstring(
    site: Site, module: str, line: str
) -> None:
    site.install("pkg", module, "plain = pkg:Plain")
    lines = {one["name"]: one["what"] for one in site.told("workloads")["workloads"]}
    assert lines["plain"] == line


def test_of_two_plugins_with_one_name_the_first_is_used(site: Site) -> None:
    site.install("one", GOOD, "paint = one:Paint")
    site.install("two", GOOD, "paint = two:Paint")
    listed = site.told("workloads")
    assert [one["package"] for one in listed["workloads"] if one["name"] == "paint"] == ["one 1.2"]
    (broken,) = listed["broken"]
    assert broken["why"] == "the package one has a workload of this name"


def test_a_package_brings_a_cloud(site: Site) -> None:
    site.install("osmef_mist", CLOUD, "mist = osmef_mist:Mist", group="providers")
    for text in ("provider: mist", "provider: {kind: mist, hosts: 3}"):
        done = site.osmef("validate", site.write(text))
        assert done.code == 0, done.err
    done = site.osmef("validate", site.write("provider: {kind: mist, host: 3}"))
    assert "did you mean 'hosts'?" in done.err
    assert site.osmef("plan", site.write("provider: mist")).code == 0


BARE = CLOUD.replace("local import LocalSettings", "base import CloudSettings as LocalSettings")


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (CLOUD.replace('    kind = "mist"\n', ""), " has the kind 'local', and must have 'mist'"),
        (BARE, ".Settings has no lanes"),
    ],
)
def test_a_cloud_that_could_not_be_used_or_reaped_is_broken(
    site: Site, module: str, why: str
) -> None:
    site.install("osmef_mist", module, "mist = osmef_mist:Mist", group="providers")
    done = site.osmef("validate", site.write("provider: mist"))
    assert done.code == 2
    said = "x.yaml:2:11: the provider mist can't be used: TypeError: osmef_mist:Mist"
    assert f"{said}{why}" in done.err


FAILING = CLOUD.replace("    Settings = Settings", """
    Settings = Settings
    def check(self, requests, check_cancelled=None): pass
    def problems(self, cell): return []
    def create(self, context):
        self.made = Mark.of(context).resource(self.kind, "vm", "a", {}, "1")
        context.ledger.created(self.made)
        raise ProviderError("no quota")
    def close(self): self.mode
    @classmethod
    def recognises(cls, resource): return True
    @classmethod
    def destroy(cls, resources, gone): cls.mode
""").replace("from pydantic", "from osmef.errors import ProviderError\n"
             "from osmef.providers.marks import Mark\nfrom pydantic", 1)  # fmt: skip
MENDED = FAILING.replace("cls.mode", "[gone(one) for one in resources]").replace("mist", "veil")


def test_a_cloud_whose_cleanup_fails_hides_no_reason_and_stops_no_other(site: Site) -> None:
    site.install("osmef_mist", FAILING, "mist = osmef_mist:Mist", group="providers")
    site.install("osmef_veil", MENDED, "veil = osmef_veil:Mist", group="providers")
    for kind in ("mist", "veil"):
        done = site.osmef("run", site.write(f"provider: {kind}"))
        assert done.code == 3
        assert "error: no quota" in done.err
        left = "the provider may still have what the run made there: the provider"
        assert f"{left} {kind} failed: AttributeError: " in done.err
    done = site.osmef("reap", "--yes")
    assert done.code == 1
    assert "can't destroy mist vm a" in done.err
    assert "error: the provider mist failed: AttributeError: " in done.err
    assert "cure: fix the package, then osmef reap destroys what is left" in done.err
    assert "destroyed 1, 1 left" in done.out


def test_an_unknown_name_is_reported(site: Site) -> None:
    done = site.osmef("workloads", "nothing")
    assert done.code == 2
    assert "there is no workload 'nothing'" in done.err
    assert re.search(r"name one of: .*\bbtc, ", done.err)


def test_packages_are_not_searched_for_a_cloud_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    def entry_points(*, group: str) -> list[Any]:
        searched.append(group)
        return []

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    own = Own("osmef.providers", "{}.provider", "osmef.providers.base:Provider")
    registry = Kinds("cloud", "osmef.providers", own)
    assert "local" in registry
    assert not searched
    assert "mist" not in registry
    assert searched == ["osmef.providers"]
