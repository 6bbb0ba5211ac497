"""The page about the architecture is true: its rooms are the folders, its floors the contracts."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

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


def rooms_in(folder: Path) -> set[str]:
    """Return the folders and modules of a package as the page names them."""
    found = {f"{path.relative_to(ROOT)}/" for path in folder.iterdir() if any(path.glob("*.py"))}
    modules = {str(path.relative_to(ROOT)) for path in folder.glob("[a-z]*.py")}
    return found | modules


def imports_of(path: Path) -> Iterator[str]:
    """Give the modules that a file imports, also inside functions and for types alone."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_each_room_is_described_once() -> None:
    named = [room for room in named_rooms("Rooms") if room.startswith("osmef/")]
    assert sorted(named) == sorted(rooms_in(ROOT / "osmef"))


def test_the_floors_are_those_of_the_contract() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["name"].startswith("Data flows"))
    contract = [{room.removeprefix("osmef.") for room in line.split(" | ")} for line in layers]
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


def test_only_the_executor_of_dask_knows_dask() -> None:
    knows = {
        path.relative_to(ROOT).parent
        for path in (ROOT / "osmef").rglob("*.py")
        for name in imports_of(path)
        if name.split(".")[0] in {"dask", "distributed"}
    }
    assert knows == {Path("osmef/campaigns/executors/dask")}


def test_the_glossary_has_one_entry_a_term() -> None:
    rows = re.findall(r"^\| ([a-z, ]+) \| ", section("Glossary"), re.MULTILINE)
    terms = [term.strip() for row in rows for term in row.split(",")]
    assert terms
    assert len(terms) == len(set(terms))
