"""The manual and the README say what the program does: scenarios, links, commands and keys."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from osmef.campaigns.schedule.load import read_campaign
from osmef.cli.console import print_error
from osmef.cli.main import make_app
from osmef.errors import OsmefError
from osmef.facts.collect import FACTS, INTERFACE_FACTS
from osmef.kinds import LAYERS
from osmef.results.frame import load, measures_of
from osmef.results.summary import summary_schema
from osmef.results.tables import TABLES
from osmef.scenario.load import load_text
from osmef.scenario.schema import json_schema
from osmef.units import DURATION_UNITS
from osmef.workloads import metrics, tasks
from osmef.workloads.kinds import latency, pingpong, program, size_sweep, udp

ROOMS = (metrics, latency, size_sweep, udp, pingpong)
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
SAMPLE = ROOT / "tests/results/data/quickstart-20261121T031500Z-3f9a"

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
_COMMAND = re.compile(r"(?:`|\$ |^)osmef ([a-z]+(?:-[a-z]+)*)", re.MULTILINE)


def _load_hooks() -> Any:  # a module that mkdocs loads by its path, as is done here
    spec = importlib.util.spec_from_file_location("osmef_docs_hooks", DOCS / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hooks = _load_hooks()


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def _built(name: str) -> str:
    """Return a page with its parts filled in, as mkdocs gets it."""
    return str(hooks.on_page_markdown((DOCS / name).read_text(encoding="utf-8")))


def _with_key(key: str) -> list[Any]:
    found = []
    for page in PAGES:
        blocks = [text for kind, text in _BLOCK.findall(page.read_text()) if kind == "yaml"]
        found += [
            pytest.param(text, id=f"{_name(page)}-{number}")
            for number, text in enumerate(blocks, 1)
            if re.search(f"^{key}:", text, re.MULTILINE)
        ]
    return found


def _scenarios() -> list[Any]:
    return [one for one in _with_key("name") if one not in _with_key("scenarios")]


@pytest.mark.parametrize("text", _with_key("scenarios"))
def test_every_campaign_is_valid(text: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "quickstart.yaml").write_text("name: quickstart\n")
    (tmp_path / "docs" / "page.yaml").write_text(text)
    assert read_campaign(tmp_path / "docs" / "page.yaml").studies


@pytest.mark.parametrize("text", _scenarios())
def test_every_scenario_is_valid(text: str) -> None:
    assert load_text(text, Path("page.yaml")).cells


_INIT = pytest.param(f"name: shown\n{program.ScenarioPrograms.example}", id="init")


@pytest.mark.parametrize("text", [*_scenarios(), _INIT])
def test_a_scenario_needs_the_programs_that_it_runs(text: str) -> None:
    (cell, *_) = load_text(text, Path("page.yaml")).cells
    for settings in (cell.scenario.workload, cell.scenario.background):
        if isinstance(settings, program.ProgramSettings):
            assert {str(one.argv[0]) for one in settings.run} == {*settings.needs}


def test_the_sweep_example_has_the_documented_number_of_cells() -> None:
    (text,) = [p.values[0] for p in _scenarios() if "sweep-example" in str(p.values[0])]
    assert len(load_text(str(text), Path("page.yaml")).cells) == 10


def test_the_tutorials_mistakes_are_reported_as_it_shows_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    blocks = _BLOCK.findall((DOCS / "tutorial.md").read_text())
    (broken,) = [text for kind, text in blocks if kind == "text" and "flavour" in text]
    with pytest.raises(OsmefError) as caught:
        load_text(broken, Path("first.yaml"))
    print_error(caught.value)
    assert capsys.readouterr().err in (DOCS / "tutorial.md").read_text()


def _anchors(text: str) -> set[str]:
    """Return what the headings of a page may be linked by."""
    own = set(re.findall(r"^#+ .*\{#([\w-]+)\}", text, re.MULTILINE))
    titles = re.findall(r"^#+ +(.*?)(?: *\{#[\w-]+\})?$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", title).strip().lower() for title in titles)
    return own | {re.sub(r"[-\s]+", "-", one) for one in plain}


@pytest.mark.parametrize("name", [page.name for page in DOCS.glob("*.md")])
def test_every_link_within_a_page_leads_to_a_heading(name: str) -> None:
    """Those of the tables too: each model that a key refers to has a section."""
    text = _built(name)
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) <= _anchors(text)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text()) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_named_command_exists(page: Path) -> None:
    known = set(_group().commands)
    assert set(_COMMAND.findall(page.read_text())) <= known


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_a_command_without_arguments_is_shown_without_any(page: Path) -> None:
    bare = {
        name
        for name, command in hooks.every_command(_group())
        if not any(one.param_type_name == "argument" for one in command.params)
    }
    assert "campaign serve" in bare
    lines = re.findall(r"^(?:\$ )?osmef ([^#`\n]*)", page.read_text(), re.MULTILINE)
    given = [
        line
        for line in lines
        for name in bare
        if re.match(rf"{name} +(?![-|>&])[\w'\"]", line) and name.count(" ") == 1
    ]
    assert given == []


def _group() -> Any:  # click's or typer's own class, which differ by version
    return typer.main.get_command(make_app())


def test_the_command_reference_has_every_command_and_option() -> None:
    text = _built("commands.md")
    for name, command in hooks.every_command(_group()):
        assert f"## osmef {name}" in text
        options = [option for p in command.params for option in p.opts if option.startswith("-")]
        assert [option for option in options if f"`{option}`" not in text] == []


def _keys(schema: Any) -> set[str]:
    """Return every key of every object in a JSON Schema."""
    if isinstance(schema, list):
        return set().union(*map(_keys, schema))
    if not isinstance(schema, dict):
        return set()
    return set(schema.get("properties", {})).union(*map(_keys, schema.values()))


@pytest.mark.parametrize(
    ("page", "schema"), [("scenario.md", json_schema()), ("results.md", summary_schema())]
)
def test_a_reference_has_every_key_of_its_schema(page: str, schema: dict[str, Any]) -> None:
    text = _built(page)
    # A sweep's keys are names of values, which the page explains as such.
    schema["properties"].pop("sweep", None)
    assert {key for key in _keys(schema) if f"| `{key}` |" not in text} == set()


def test_the_scenario_reference_has_every_unit_of_a_duration() -> None:
    text = _built("scenario.md")
    assert {unit for unit in DURATION_UNITS if f"`{unit}`" not in text} == set()


def test_the_manual_has_every_placeholder_of_programs() -> None:
    rows = re.findall(r"^\| `\{(\w+)\}` \|", (DOCS / "program.md").read_text(), re.MULTILINE)
    assert tuple(rows) == tasks.KNOWN


def test_the_results_reference_has_every_metric_column_and_fact() -> None:
    text = _built("results.md")
    names = [
        *(one.name for room in ROOMS for one in room.MEASURES),
        *chain(*(schema.names for schema in TABLES.values())),
        *(f.key for f in (*FACTS, *INTERFACE_FACTS)),
    ]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_the_results_reference_has_every_column_of_a_frame() -> None:
    metrics, _, frame = _built("results.md").partition("## In Python")
    table = " ".join(line for line in frame.splitlines() if line.startswith("|"))
    trials = load(SAMPLE)
    defined = measures_of(trials)
    assert [name for name in defined if f"`{name}`" not in metrics] == []
    assert [name for name in trials if name not in defined and f"`{name}`" not in table] == []


@pytest.mark.parametrize("name", hooks.models())
def test_every_key_of_a_model_has_a_description(name: str) -> None:
    fields = hooks.models()[name].model_fields
    assert [key for key, field in fields.items() if not field.description] == []


def test_a_default_is_shown_as_one_would_write_it() -> None:
    scenario, cloud = hooks.settings("Scenario"), hooks.settings("LocalSettings")
    for default in (
        "`local`",
        "`btc`",
        "`{sender: {}, receiver: {}}`",
        "`different-host`",
        "`0 ms`",
    ):
        assert f"| {default} |" in scenario
    assert "| `{small: {vcpus: 1}, medium: {vcpus: 2}," in cloud
    assert "| `1 Gbit/s` |" in cloud
    assert "| `false` |" in cloud


def test_an_unknown_part_of_a_page_is_an_error() -> None:
    with pytest.raises(KeyError):
        hooks.on_page_markdown("{{ nonsense }}")


def test_the_manual_leaves_installed_packages_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "paint-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: paint\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[osmef.layers]\npaint = paint:Paint\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    vars(LAYERS).pop("_brought", None)  # it was looked up already
    assert "paint" in LAYERS.names
    _load_hooks()
    assert "paint" not in LAYERS.names


def test_the_schemas_are_published(tmp_path: Path) -> None:
    hooks.on_post_build({"site_dir": str(tmp_path)})
    assert {path.name for path in tmp_path.iterdir()} == set(hooks.SCHEMAS)
    for name in hooks.SCHEMAS:
        pages = [_name(page) for page in PAGES if f'href="{name}"' in page.read_text()]
        assert len(pages) == 1


def test_every_page_is_in_the_navigation() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    named = set(re.findall(r"[\w./-]+\.md", str(config["nav"])))
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert named == {page for page in pages if not page.startswith("notebooks/data/")}


def test_the_manual_loads_nothing_external() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert config["theme"]["font"] is False
    # The theme asks GitHub for a repository's figures, and others for what else is named so.
    assert {"repo_url", "extra_javascript"}.isdisjoint(config)
    assert "://" not in str(config["extra_css"])
