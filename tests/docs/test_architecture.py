"""The page about the architecture is true: its rooms are the folders, its floors the contracts."""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from osmef import errors

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CAMPAIGNS = ROOT / "osmef" / "campaigns"

Floors = list[set[str]]


def section(title: str) -> str:
    """Return what stands below a heading, until the next one of any level."""
    match = re.search(rf"^#+ {title}\n(.*?)(?=^#+ |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert match is not None, title
    return match[1]


def named_rooms(title: str) -> list[str]:
    """Return the files and folders that the table of a section names."""
    return re.findall(r"^\| `([a-z_/-]+(?:\.py)?)` \|", section(title), re.MULTILINE)


def drawn_floors(title: str) -> Floors:
    match = re.search(r"```text\n(.*?)```", section(title), re.DOTALL)
    assert match is not None, title
    return [set(line.split(" │ ")) for line in match[1].splitlines()]


def folders_in(folder: Path, *kinds: str) -> set[str]:
    """Return the folders with files of these kinds, at any depth, as the page names them."""
    within = (path for path in folder.iterdir() if path.is_dir())
    return {
        f"{path.relative_to(ROOT)}/"
        for path in within
        if any(one for kind in kinds for one in path.rglob(kind))
    }


def rooms_in(folder: Path) -> set[str]:
    """Return the folders and modules of a package as the page names them."""
    modules = {str(path.relative_to(ROOT)) for path in folder.glob("*.py")}
    return folders_in(folder, "*.py") | {one for one in modules if "/__" not in one}


def imports_of(path: Path) -> Iterator[str]:
    """Give the modules that a file imports, also inside functions and for types alone."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def contracts() -> list[dict[str, Any]]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = config["tool"]["importlinter"]["contracts"]
    return found


def terms() -> list[str]:
    rows = re.findall(r"^\| ([A-Za-z, ]+) \| ", section("Glossary"), re.MULTILINE)
    assert rows[0] == "Term"
    return [term.strip() for row in rows[1:] for term in row.split(",")]


def classes_by_term() -> dict[str, list[str]]:
    """Return where a class of each name is defined, but for those derived from one so named."""
    found = defaultdict(list)
    for path in (ROOT / "osmef").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases = {re.sub(r"\[.*|.*\.", "", ast.unparse(base)) for base in node.bases}
                if node.name.lstrip("_") not in {base.lstrip("_") for base in bases}:
                    found[node.name.lstrip("_").lower()].append(str(path.relative_to(ROOT)))
    return found


def test_each_room_is_described_once() -> None:
    named = [room for room in named_rooms("Rooms") if room.startswith("osmef/")]
    assert sorted(named) == sorted(rooms_in(ROOT / "osmef"))


def floors_of_contract(name: str) -> Floors:
    layers = next(one["layers"] for one in contracts() if one["name"].startswith(name))
    return [set(line.split(" | ")) for line in layers]


def test_the_floors_are_those_of_the_contract() -> None:
    contract = floors_of_contract("Data flows")
    assert drawn_floors("Rooms") == contract
    rooms = {Path(room).stem for room in rooms_in(ROOT / "osmef")}
    assert set().union(*contract) == rooms


def test_each_room_of_campaigns_is_described_once() -> None:
    assert sorted(named_rooms("Campaigns")) == sorted(rooms_in(CAMPAIGNS))


def test_a_room_of_campaigns_imports_only_from_those_below_it() -> None:
    floors = drawn_floors("Campaigns")
    below = {
        room: set().union(*floors[number + 1 :])
        for number, floor in enumerate(floors)
        for room in floor
    }
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in CAMPAIGNS.rglob("*.py")
        if (room := path.relative_to(CAMPAIGNS).with_suffix("").parts[0]) != "__init__"
        for name in imports_of(path)
        if name.startswith("osmef.campaigns.")
        if (other := name.split(".")[2]) != room and other not in below[room]
    ]
    assert wrong == []


def test_only_the_dask_executor_imports_dask() -> None:
    knows = {
        path.relative_to(ROOT).parent
        for path in (ROOT / "osmef").rglob("*.py")
        for name in imports_of(path)
        if name.split(".")[0] in {"dask", "distributed"}
    }
    assert knows == {Path("osmef/campaigns/executors/dask")}


def test_each_folder_within_a_room_is_in_its_row() -> None:
    rows = dict(re.findall(r"^\| `([a-z_/-]+)` \| (.*) \|$", PAGE, re.MULTILINE))
    missing = [
        folder
        for room in rows
        if room.startswith("osmef/") and room.endswith("/") and room != "osmef/campaigns/"
        for folder in folders_in(ROOT / room, "*.py")
        if f"`{Path(folder).name}/`" not in rows[room]
    ]
    assert missing == []


def test_each_folder_of_the_agents_is_described_once() -> None:
    named = [room for room in named_rooms("Rooms") if room.startswith("agents/")]
    assert sorted(named) == sorted(folders_in(ROOT / "agents", "*.c", "*.go", "*.rb"))


def test_the_glossary_has_one_entry_a_term() -> None:
    assert terms()
    assert len(terms()) == len(set(terms()))


def test_a_term_of_the_glossary_names_one_class_at_most() -> None:
    classes = classes_by_term()
    several = {term: classes[term.replace(" ", "").lower()] for term in terms()}
    assert {term: paths for term, paths in several.items() if len(paths) > 1} == {}
    assert sum(len(paths) for paths in several.values()) > 20


def words(texts: list[str]) -> str:
    return ", ".join(f"`{text.removeprefix('osmef.')}`" for text in texts)


def line_of(contract: dict[str, Any]) -> str:
    """Return the line of a contract on the page."""
    if contract["type"] == "layers":
        return str(contract["name"])
    never = "import" if contract.get("allow_indirect_imports") else "reach"
    sources, forbidden = contract["source_modules"], contract["forbidden_modules"]
    return f"{contract['name']}: {words(sources)} never {never} {words(forbidden)}"


def test_each_contract_is_on_the_page() -> None:
    listed = re.findall(r"^- (.*)$", section("Rooms"), re.MULTILINE)
    assert listed == [line_of(one) for one in contracts()]


def test_no_contract_has_exceptions_and_no_folder_is_outside_of_them() -> None:
    members = {"name", "type", "containers", "layers", "exhaustive", "exhaustive_ignores"}
    members |= {"source_modules", "forbidden_modules", "allow_indirect_imports"}
    assert [one.keys() - members for one in contracts()] == [set()] * len(contracts())
    layers = [one for one in contracts() if one["type"] == "layers"]
    assert [one["containers"] for one in layers] == [["osmef"], ["osmef.campaigns"]]
    assert all(one["exhaustive"] for one in layers)
    assert [one.get("exhaustive_ignores", []) for one in layers] == [["__main__"], []]


def test_the_floors_of_campaigns_are_those_of_their_contract() -> None:
    assert drawn_floors("Campaigns") == floors_of_contract("Campaigns")


def test_each_module_and_path_on_the_page_exists() -> None:
    modules = re.findall(r"`(osmef(?:\.[a-z_]+)+)`", PAGE)
    assert modules
    assert [one for one in modules if importlib.util.find_spec(one) is None] == []
    paths = re.findall(r"`((?:osmef|tests|agents)/[\w./-]+)`", PAGE)
    assert [one for one in paths if not (ROOT / one).exists()] == []
    links = re.findall(r"\]\(([\w./-]+\.md)", PAGE)
    assert [one for one in links if not (ROOT / "docs" / one).exists()] == []


def test_the_tree_of_errors_is_that_of_the_classes() -> None:
    tree = re.compile(r"^(?P<indent>[ │├└─]*)(?P<name>\w+) +exit (?P<code>\d)", re.MULTILINE)
    drawn = [(len(m["indent"]) // 4, m["name"], int(m["code"])) for m in tree.finditer(PAGE)]
    above: list[str] = []
    for depth, name, code in drawn:
        above = [*above[:depth], name]
        error = getattr(errors, name)
        assert error.exit_code == code, name
        assert error.__mro__[1].__name__ == (above[-2] if depth else "Exception"), name
    classes = [one for one in vars(errors).values() if isinstance(one, type)]
    ours = {one.__name__ for one in classes if issubclass(one, errors.OsmefError)}
    assert {name for _depth, name, _code in drawn} == ours
